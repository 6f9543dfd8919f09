"""Invariants 4 and 5: claims end in time where their claimant runs, and nobody touches another's."""

from __future__ import annotations

import datetime as dt
from typing import Final

from fairlead.api.reserved import NODE_SHUTDOWN
from fairlead.api.time import parse_time
from fairlead.sim.clock import EPOCH
from fairlead.sim.commits import EVENTS, Commit, Commits
from fairlead.sim.stage import Stage, Violation

__all__ = ["Claimants"]

_LOOK_SECONDS: Final = 5.0
# For a new life of an agent, its node's Lease, a clock that is not quite right, and a few writes over a bad network.
_SLACK: Final = dt.timedelta(seconds=30)
_LEASE: Final = dt.timedelta(seconds=90)  # where somebody else may have held the node's Lease


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

    async def audit(self) -> None:
        """Look again and again: no claim outlives its deadline by more than the slack, where its claimant is well."""
        while True:
            await self._stage.clock.sleep(_LOOK_SECONDS)
            for key, event in self._commits.of(EVENTS).items():
                status = event.get("status", {})
                # The end of a shutdown is seen by a manager, from elsewhere.
                is_shutdown = event["spec"]["transitionName"] == NODE_SHUTDOWN.name
                if status.get("claimStatus") == "Claimed" and "sla" in status and not is_shutdown:
                    self._check_in_time(key, event["spec"]["bindingNode"], status["sla"])

    def _check_in_time(self, key: str, node: str, deadline: str) -> None:
        name = f"agent-{node}"
        well_since = self._stage.well_since(name)
        if well_since is None:
            return
        slack = _SLACK if f"{name}-twin" not in self._stage.actors else _SLACK + _LEASE
        limit = max(parse_time(deadline), EPOCH + dt.timedelta(seconds=well_since)) + slack
        if self._stage.clock.now() > limit:
            self._stage.violate(Violation("4", f"event {key} is still Claimed, and its deadline was {deadline}"))
