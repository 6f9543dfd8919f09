"""Decides which CRD may use which names: the first one within a group gets a name.

A CRD keeps an accepted name until it changes or is deleted. A later CRD with the same name has a condition that says
so, and gets the name when it is free.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/controller/status/naming_controller.go
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

from kube_fairlead.api import golang
from kube_fairlead.api.fielderrors import aggregate
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.crd.conditions import (
    approval_condition,
    condition,
    find_condition,
    set_condition,
)

__all__ = ["NameDecision", "accept_names", "decide_names"]

NameDecision = tuple[Json, Json, Json]

_NAMES = (
    ("plural", "PluralConflict"),
    ("singular", "SingularConflict"),
    ("shortNames", "ShortNamesConflict"),
    ("kind", "KindConflict"),
    ("listKind", "ListKindConflict"),
)
_KINDS = frozenset({"kind", "listKind"})


def decide_names(crd: Json, others: Iterable[Json]) -> NameDecision:
    """Return the accepted names of a CRD, and its NamesAccepted and Established conditions.

    For new names, Established is still "Installing": it becomes true when the objects are served.
    """
    wanted = crd["spec"]["names"]
    accepted = dict((crd.get("status") or {}).get("acceptedNames") or {})
    resources, kinds = _taken(crd, others)
    verdict = condition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
    names = dict(accepted)
    for field, reason in _NAMES:
        used = kinds if field in _KINDS else resources
        problem = _conflict(wanted.get(field), accepted.get(field), used)
        if problem:
            verdict = condition("NamesAccepted", "False", reason, problem)
        else:
            _assign(names, field, wanted.get(field))
    _assign(names, "categories", wanted.get("categories"))
    established = find_condition(crd, "Established") or condition(
        "Established", "False", "NotAccepted", "not all names are accepted"
    )
    if established["status"] != "True" and verdict["status"] == "True":
        established = condition("Established", "False", "Installing", "the initial names have been accepted")
    return names, verdict, established


def _assign(names: Json, field: str, value: Any) -> None:
    if value:
        names[field] = value
    else:
        names.pop(field, None)


def _taken(crd: Json, others: Iterable[Json]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in (crd, *others):
        if other["spec"].get("group") != crd["spec"].get("group"):
            continue
        names = (other.get("status") or {}).get("acceptedNames") or {}
        resources.update((names.get("plural") or "", names.get("singular") or ""), names.get("shortNames") or ())
        kinds.update((names.get("kind") or "", names.get("listKind") or ""))
    return resources, kinds


def _conflict(wanted: Any, accepted: Any, used: set[str]) -> str:
    if (wanted or None) == (accepted or None):
        return ""
    if not isinstance(wanted, list):
        return _in_use(wanted or "", used)
    fresh = [name for name in wanted if name not in (accepted or ())]
    problems = [problem for name in fresh if (problem := _in_use(name, used))]
    return aggregate(problems) if problems else ""


def _in_use(name: str, used: set[str]) -> str:
    return f"{golang.quote(name)} is already in use" if name in used else ""


def accept_names(crd: Json, others: Iterable[Json], now: dt.datetime) -> bool:
    """Set the names and conditions of a CRD in place, Established as well; returns whether its status changed.

    This server serves objects as soon as their CRD is stored, so it does not wait between "Installing" and
    "InitialNamesAccepted".
    """
    status = crd.setdefault("status", {})
    changed = False
    names, verdict, established = decide_names(crd, others)
    if names != status.get("acceptedNames"):
        status["acceptedNames"] = names
        changed = True
    if established["status"] != "True" and verdict["status"] == "True":
        established = condition("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
    approval = approval_condition(crd)
    for item in (verdict, established, approval):
        if item is not None:
            bare = {key: value for key, value in item.items() if key != "lastTransitionTime"}
            changed = set_condition(crd, bare, now) or changed
    return changed
