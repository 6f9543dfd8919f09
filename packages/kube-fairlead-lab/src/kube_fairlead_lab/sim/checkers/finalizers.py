"""Invariant 3: no driver call before claim and finalizer are stored; no finalizer removed before the end."""

from __future__ import annotations

from typing import Any

from kube_fairlead.api.lifecycle_v1alpha1 import TERMINAL, ClaimStatus
from kube_fairlead.api.reserved import FINALIZER_CLAIMED
from kube_fairlead.driverapi.messages import Work
from kube_fairlead_lab.sim.commits import EVENTS, Commit, Commits, claim_status
from kube_fairlead_lab.sim.environment import Environment, Violation

__all__ = ["Finalizers"]


class Finalizers:
    """Checks every change of an event and every driver call."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._commits = commits
        commits.listeners.append(self._committed)

    def called(self, work: Work) -> None:
        """A driver is called."""
        event = self._commits.of(EVENTS).get(work.event_name)
        if event is None or event["metadata"]["uid"] != work.event_uid:
            return  # removed by force meanwhile; the claimant could not know
        status = event.get("status", {})
        if "claimTime" not in status:
            self._environment.violate(Violation("3", f"driver called for {work.event_name} before it was claimed"))
        elif not _is_held(event) and "startTime" not in status and work.event_name not in self._environment.strangers:
            self._environment.violate(Violation("3", f"driver called for {work.event_name} before its finalizer"))

    def _committed(self, commit: Commit) -> None:
        if commit.table != EVENTS or commit.before is None:
            return
        was = claim_status(commit.before)
        is_gone = _is_held(commit.before) and not (commit.after is not None and _is_held(commit.after))
        is_unclaimed = was == ClaimStatus.PENDING and "deletionTimestamp" in commit.before["metadata"]
        if is_gone and was not in TERMINAL and not is_unclaimed and commit.key not in self._environment.strangers:
            raise Violation("3", f"event {commit.key} lost its finalizer while {was}")
        if commit.after is None:
            self._environment.strangers.pop(commit.key, None)


def _is_held(event: dict[str, Any]) -> bool:
    return FINALIZER_CLAIMED in event["metadata"].get("finalizers", ())
