"""Invariants 1, 2 and 3: one claim per node, terminal states that stay, and a finalizer that goes last."""

from __future__ import annotations

from typing import Any

from fairlead.api.lifecycle_v1alpha1 import LEGAL_MOVES, TERMINAL, ClaimStatus
from fairlead.api.reserved import FINALIZER_CLAIMED
from fairlead.sim.commits import EVENTS, Commit, Commits
from fairlead.sim.stage import Stage, Violation

__all__ = ["Claims"]


class Claims:
    """Watches LifecycleEvents."""

    def __init__(self, stage: Stage, commits: Commits) -> None:
        self._stage = stage
        self._commits = commits
        self._claimed: dict[str, str] = {}  # node -> event
        commits.listeners.append(self._committed)

    def _committed(self, commit: Commit) -> None:
        if commit.table != EVENTS:
            return
        before, after = commit.before, commit.after
        was = None if before is None else _status(before)
        now = None if after is None else _status(after)
        node = (after or before or {})["spec"]["bindingNode"]
        self._stage.trace.add("commit", f"{commit.revision} {commit.key} {was} -> {now} {_detail(after)}")
        self._count(was, now)
        if was is not None and now is not None and was != now and now not in LEGAL_MOVES[was]:
            raise Violation("2", f"event {commit.key} went from {was} to {now}")
        self._check_single(commit.key, node, was, now)
        if before is not None:
            self._check_finalizer(commit.key, before, after, was)
        if now is None:
            self._stage.strangers.pop(commit.key, None)

    def _check_single(self, key: str, node: str, was: ClaimStatus | None, now: ClaimStatus | None) -> None:
        if now is ClaimStatus.CLAIMED and was is not ClaimStatus.CLAIMED:
            other = self._claimed.get(node)
            if other is not None:
                raise Violation("1", f"node {node} has two Claimed events, {other} and {key}")
            self._claimed[node] = key
        elif now is not ClaimStatus.CLAIMED and self._claimed.get(node) == key:
            del self._claimed[node]

    def _check_finalizer(
        self, key: str, before: dict[str, Any], after: dict[str, Any] | None, was: ClaimStatus | None
    ) -> None:
        held = FINALIZER_CLAIMED in before["metadata"].get("finalizers", ())
        holds = after is not None and FINALIZER_CLAIMED in after["metadata"].get("finalizers", ())
        if held and not holds and was not in TERMINAL and key not in self._stage.strangers:
            raise Violation("3", f"event {key} lost its finalizer while {was}")

    def _count(self, was: ClaimStatus | None, now: ClaimStatus | None) -> None:
        if was is not now:
            self._stage.counts[f"{was or 'new'} -> {now or 'gone'}"] += 1
        if now in TERMINAL and was not in TERMINAL:
            self._stage.counts["finished events"] += 1

    def at_end(self) -> None:
        """Liveness: with everybody well, every event has come to its end and is gone."""
        for key, event in self._commits.of(EVENTS).items():
            raise Violation("liveness", f"event {key} is still there, {_status(event)}: {event.get('status', {})}")


def _status(event: dict[str, Any]) -> ClaimStatus:
    return ClaimStatus(event.get("status", {}).get("claimStatus") or "Pending")


def _detail(event: dict[str, Any] | None) -> str:
    if event is None:
        return ""
    metadata = event["metadata"]
    marks = [*metadata.get("finalizers", ()), *(["deleting"] if "deletionTimestamp" in metadata else ())]
    return " ".join(marks)
