"""The result of an event is in its node's record before its finalizer is removed."""

from __future__ import annotations

from typing import Any

from kube_fairlead.api.lifecycle_v1alpha1 import TERMINAL
from kube_fairlead.api.reserved import FINALIZER_CLAIMED
from kube_fairlead_lab.sim.commits import EVENTS, RECORDS, Commit, Commits, claim_status
from kube_fairlead_lab.sim.environment import Environment, Violation

__all__ = ["Records"]


class Records:
    """Checks every event that is released, and every record."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._commits = commits
        commits.listeners.append(self._committed)

    def _committed(self, commit: Commit) -> None:
        if commit.table == RECORDS:
            self._check(commit.after)
        if commit.table != EVENTS or commit.before is None or claim_status(commit.before) not in TERMINAL:
            return
        is_released = _is_held(commit.before) and not (commit.after is not None and _is_held(commit.after))
        if not is_released or commit.key in self._environment.strangers:
            return
        uid, node = commit.before["metadata"]["uid"], commit.before["spec"]["bindingNode"]
        record = self._commits.of(RECORDS).get(node, {})
        # A full record has dropped old entries, so there is nothing to check.
        if uid not in _uids(record) and not record.get("droppedEntries"):
            raise Violation("records", f"event {commit.key} is released, but the record of {node} does not have it")
        self._environment.counts["recorded events"] += 1

    def _check(self, record: dict[str, Any] | None) -> None:
        uids = _uids(record or {})
        if len(set(uids)) != len(uids):
            raise Violation("records", f"a record has an event twice: {uids}")


def _uids(record: dict[str, Any]) -> list[str]:
    return [entry["eventUID"] for entry in record.get("entries", ())]


def _is_held(event: dict[str, Any]) -> bool:
    return FINALIZER_CLAIMED in event["metadata"].get("finalizers", ())
