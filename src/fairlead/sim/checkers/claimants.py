"""Invariants 4 and 5: claims end in time where their claimant runs, and nobody touches another's."""

from __future__ import annotations

import datetime as dt
from typing import Final

from fairlead.api.time import parse_time
from fairlead.sim.commits import EVENTS, Commit, Commits
from fairlead.sim.stage import Stage, Violation

__all__ = ["Claimants"]

_SLACK: Final = dt.timedelta(seconds=120)  # a new life of an agent, its node's Lease, and a few writes


class Claimants:
    """Watches who claims, and how long it takes."""

    def __init__(self, stage: Stage, commits: Commits) -> None:
        self._stage = stage
        self._commits = commits
        commits.listeners.append(self._committed)

    def _committed(self, commit: Commit) -> None:
        if commit.table != EVENTS or commit.after is None:
            return
        before = (commit.before or {}).get("status", {})
        after = commit.after.get("status", {})
        own = f"node/{commit.after['spec']['bindingNode']}"
        if after.get("claimedBy", own) != own:
            raise Violation("5", f"event {commit.key} of {own} was claimed by {after['claimedBy']}")
        for field in ("claimedBy", "claimTime", "nodeUID", "transition", "sla", "startTime", "completionTime"):
            if field in before and before[field] != after.get(field):
                raise Violation("5", f"{field} of event {commit.key} went from {before[field]} to {after.get(field)}")

    def check_in_time(self, calm_since: dt.datetime) -> None:
        """With everybody well, no claim outlives its deadline by more than the slack."""
        for key, event in self._commits.of(EVENTS).items():
            status = event.get("status", {})
            if status.get("claimStatus") == "Claimed" and "sla" in status:
                limit = max(parse_time(status["sla"]), calm_since) + _SLACK
                if self._stage.clock.now() > limit:
                    raise Violation("4", f"event {key} is still Claimed, and its deadline was {status['sla']}")
