"""Describes one durable change: the object, and what changed in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

from kube_fairlead.api.json_object import Json
from kube_fairlead.api.time import parse_time
from kube_fairlead_lab.sim.clock import EPOCH
from kube_fairlead_lab.sim.commits import EVENTS, LEASES, NODES, PODS, RECORDS, THINGS, TRANSITIONS, Commit

__all__ = ["Description", "describe", "seconds"]


_KINDS: Final = {
    EVENTS: "event",
    LEASES: "lease",
    NODES: "node",
    PODS: "pod",
    THINGS: "thing",
    TRANSITIONS: "transition",
    RECORDS: "record",
}
# Fields that change with every write, or repeat others.
_BORING: Final = frozenset({"apiVersion", "kind", "managedFields", "resourceVersion", "generation", "selfLink"})
_BORING_OF_PODS: Final = frozenset(
    {"containerStatuses", "hostIP", "hostIPs", "podIP", "podIPs", "startTime", "qosClass", "observedGeneration"}
)
_POD_CONDITIONS: Final = frozenset({"Ready", "DisruptionTarget"})  # the conditions of pods to show
# Frozen fields of a claim are shown only when they change; the claim and its deadline are shown anyway.
_FIRST_UNTOLD: Final = frozenset(
    {
        "claimTime",
        "claimedBy",
        "driver",
        "firstSeenTime",
        "nodeUID",
        "transition.uid",
        "transition.start",
        "transition.end",
    }
)
_PROGRESS: Final = "progress."
_SHORT: Final = 40


@dataclasses.dataclass(frozen=True, slots=True)
class Description:
    """The description of a change."""

    text: str
    about: str  # the name of the object
    names: frozenset[str]  # of the object, and of all that it refers to
    is_minor: bool = False  # such as a renewal


def seconds(time: str) -> str:
    """Return a time of day as virtual seconds since the start."""
    return f"{(parse_time(time) - EPOCH).total_seconds():g} s"


def describe(commit: Commit) -> Description:
    """Describe one commit."""
    item = commit.after or commit.before or {}
    subject, places = _subject(commit, item)
    text, is_minor = _text(commit, subject)
    name = str(item["metadata"]["name"])
    return Description(text, name, frozenset({name, *places, *_holders(commit)}), is_minor)


def _text(commit: Commit, subject: str) -> tuple[str, bool]:
    """Return the text, and whether it is minor."""
    before, after = commit.before, commit.after
    if after is None:
        return f"{subject} is deleted{_end(before or {})}", False
    if before is None:
        return f"creates {subject}{_beginning(commit.table, after)}", False
    if commit.table == LEASES and _holder(before) != _holder(after):
        return f"{subject}: {_handover(before, after)}", False
    if commit.table == LEASES:
        return f"renews {subject}", True
    if commit.table == RECORDS:
        return f"{subject}: has {len(after.get('entries', ()))} entries", False
    changes = list(_changes(commit.table, before, after))
    said = ", ".join(text for _, text in changes) or "is written without a change"
    return f"{subject}: {said}", all(path.startswith(_PROGRESS) for path, _ in changes)


def _subject(commit: Commit, item: Json) -> tuple[str, list[str]]:
    """Return the object, and its node."""
    name, spec = str(item["metadata"]["name"]), item.get("spec", {})
    kind = _KINDS[commit.table]
    if commit.table == EVENTS:
        node = str(spec["bindingNode"])
        return f"{kind} {name} ({spec['transitionName']} of {node})", [node]
    if commit.table == PODS and spec.get("nodeName"):
        return f"{kind} {name} on {spec['nodeName']}", [str(spec["nodeName"])]
    return f"{kind} {commit.key if commit.table == LEASES else name}", []


def _beginning(table: str, item: Json) -> str:
    metadata, spec = item["metadata"], item.get("spec", {})
    said = [f"with finalizer {one}" for one in metadata.get("finalizers", ())]
    if table == EVENTS:
        said += [f"{key.rpartition('/')[2]}={value}" for key, value in metadata.get("annotations", {}).items()]
        said += [f"at once {status}" for status in [item.get("status", {}).get("claimStatus")] if status]
    if table == LEASES:
        said.append(f"held by {_holder(item) or 'no process'}")
    if table == NODES and spec.get("providerID"):
        said.append(str(spec["providerID"]))
    return f", {', '.join(said)}" if said else ""


def _end(item: Json) -> str:
    """Return the state of a deleted object."""
    metadata, status = item["metadata"], item.get("status", {})
    said = [f"was {state}" for state in [status.get("claimStatus") or status.get("phase")] if state]
    said += [f"held by finalizer {one}" for one in metadata.get("finalizers", ())]
    if "deletionTimestamp" not in metadata:
        said.append("at once")
    return f" ({', '.join(said)})" if said else ""


def _handover(before: Json, after: Json) -> str:
    was, now = _holder(before), _holder(after)
    spec = before.get("spec", {})
    if not was or not spec.get("renewTime"):
        return f"no holder -> {now}"
    lasted = f"renewed at {seconds(spec['renewTime'])}, for {spec.get('leaseDurationSeconds')} s"
    return f"{was} -> {now or 'no holder'} ({lasted}, by the clock of {was})"


def _holder(lease: Json | None) -> str:
    return "" if lease is None else str(lease.get("spec", {}).get("holderIdentity") or "")


def _holders(commit: Commit) -> list[str]:
    holders = (_holder(commit.before), _holder(commit.after)) if commit.table == LEASES else ()
    return [name for name in holders if name]


def _changes(table: str, before: Json, after: Json) -> Iterator[tuple[str, str]]:
    """Yield the changed fields, with a text for each."""
    was, now = dict(_flat(table, before)), dict(_flat(table, after))
    for path in [*now, *(path for path in was if path not in now)]:
        old, new = was.get(path), now.get(path)
        if old == new or (old is None and path in _FIRST_UNTOLD):
            continue
        if old is None:
            yield path, f"{path} {new}" if new else f"adds {path}"
        elif new is None:
            yield path, f"removes {path}"
        else:
            yield path, f"{path} {old or 'nothing'} -> {new or 'nothing'}"


def _flat(table: str, item: Json) -> Iterator[tuple[str, str]]:
    """Yield every value by a short path. Entries of lists go by their names."""
    if table == EVENTS and "claimStatus" not in item.get("status", {}):
        yield "claimStatus", "Pending"
    for part in ("metadata", "spec", "status"):
        for key, value in item.get(part, {}).items():
            if key in _BORING or (table == PODS and key in _BORING_OF_PODS):
                continue
            if key == "conditions":
                yield from _conditions(table, value)
            elif key == "finalizers":
                yield from ((f"finalizer {one}", "") for one in value)
            elif key in {"annotations", "labels"}:
                yield from ((f"{key[:-1]} {name}", _short(text)) for name, text in value.items())
            elif key == "taints":
                yield from ((f"taint {one['key']}", str(one.get("effect"))) for one in value)
            else:
                yield from _leaves(key, value)


def _conditions(table: str, conditions: list[Json]) -> Iterator[tuple[str, str]]:
    for one in conditions:
        if table != PODS or one["type"] in _POD_CONDITIONS:
            reason = f" ({one['reason']})" if one.get("reason") else ""
            yield f"condition {one['type']}", f"{one.get('status')}{reason}"


def _short(value: str) -> str:
    return value if len(value) <= _SHORT else f"{value[: _SHORT - 3]}..."


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}", inner)
    elif isinstance(value, str) and path.endswith(("Time", "Timestamp", "sla")):
        yield path, seconds(value) if value.endswith("Z") else value
    else:
        yield path, str(value)
