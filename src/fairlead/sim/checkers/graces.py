"""Invariant 9: a deletion deadline only ever moves earlier, and what has no finalizer left is gone."""

from __future__ import annotations

from typing import Any

from fairlead.sim.commits import THINGS, Commit, Commits
from fairlead.sim.stage import Stage, Violation

__all__ = ["Graces"]


class Graces:
    """Watches custom resources that are deleted with grace."""

    def __init__(self, stage: Stage, commits: Commits) -> None:
        self._stage = stage
        commits.listeners.append(self._committed)

    def _committed(self, commit: Commit) -> None:
        if commit.table != THINGS or commit.after is None:
            return
        before, after = _deadline(commit.before), _deadline(commit.after)
        if before is not None and (after is None or after > before):
            raise Violation("9", f"the deadline of {commit.key} moved from {before} to {after}")
        if after is not None and not commit.after["metadata"].get("finalizers"):
            raise Violation("9", f"{commit.key} has no finalizer left and is still there")
        if after is not None and before is None:
            self._stage.counts["graceful deletions"] += 1


def _deadline(thing: dict[str, Any] | None) -> str | None:
    return None if thing is None else thing["metadata"].get("deletionTimestamp")
