"""Every durable change in commit order, as the simulated disk sees it, independent of every component."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import msgspec

from kube_fairlead.api.json_object import Json
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus
from kube_fairlead_apiserver.storage.interface import Row

__all__ = [
    "EVENTS",
    "LEASES",
    "NODES",
    "PODS",
    "RECORDS",
    "THINGS",
    "TRANSITIONS",
    "Commit",
    "Commits",
    "claim_status",
    "is_ready",
]

EVENTS = "lifecycleevents.lifecycle.k8s.io"
LEASES = "leases.coordination.k8s.io"
NODES = "nodes"
PODS = "pods"
RECORDS = "nodelifecyclerecords.lifecycle.k8s.io"
THINGS = "things.sim.fairlead.dev"
TRANSITIONS = "lifecycletransitions.lifecycle.k8s.io"

_WATCHED = frozenset({EVENTS, LEASES, NODES, PODS, RECORDS, THINGS, TRANSITIONS})


def claim_status(event: Json) -> ClaimStatus:
    """Return the claim status of a stored event."""
    return ClaimStatus(event.get("status", {}).get("claimStatus") or "Pending")


def is_ready(obj: Json | None) -> bool:
    """Return whether a stored node or pod has the condition Ready."""
    conditions = () if obj is None else obj.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@dataclasses.dataclass(frozen=True, slots=True)
class Commit:
    """One change of one object; `before` is None for a creation, `after` is None for a deletion."""

    revision: int
    table: str
    key: str
    before: Json | None
    after: Json | None
    at: float  # true time


class Commits:
    """The newest durable state of the tables that are checked, and the listeners for changes."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._objects: dict[str, dict[str, Json]] = {table: {} for table in _WATCHED}
        self._in_order: dict[str, list[Commit]] = {table: [] for table in _WATCHED}
        self._of_object: dict[tuple[str, str], list[Commit]] = {}
        self.revisions: set[int] = set()
        self.listeners: list[Callable[[Commit], None]] = []

    def of(self, table: str) -> Mapping[str, Json]:
        """Return all objects of a table, by key."""
        return self._objects[table]

    def is_kept(self, table: str) -> bool:
        """Return whether the history of a table is recorded."""
        return table in _WATCHED

    def in_order(self, table: str) -> Sequence[Commit]:
        """Return all commits of a table so far. The sequence grows."""
        return self._in_order[table]

    def of_object(self, table: str, key: str) -> Sequence[Commit]:
        """Return all commits so far under one key, also of earlier objects with the same name."""
        return self._of_object.get((table, key), ())

    def take(self, row: Row) -> None:
        """Record a row that has become durable."""
        self.revisions.add(row.revision)
        if row.table not in _WATCHED:
            return
        objects = self._objects[row.table]
        before = objects.get(row.key)
        after: Json | None = None if row.value is None else msgspec.json.decode(row.value)
        if after is None:
            objects.pop(row.key, None)
        else:
            objects[row.key] = after
        commit = Commit(row.revision, row.table, row.key, before, after, self._time())
        self._in_order[row.table].append(commit)
        self._of_object.setdefault((row.table, row.key), []).append(commit)
        for listener in self.listeners:
            listener(commit)
