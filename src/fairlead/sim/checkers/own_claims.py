"""Invariant 5: a claimant goes on with its own claim as it is, and touches no other's."""

from __future__ import annotations

from typing import Final

from fairlead.lifecycle.claiming import central_claimant
from fairlead.sim.cast.drivers import CENTRAL
from fairlead.sim.commits import EVENTS, Commit, Commits
from fairlead.sim.stage import Violation

__all__ = ["OwnClaims"]

_CLAIMER: Final = central_claimant("central")
_FROZEN: Final = ("claimedBy", "claimTime", "nodeUID", "transition", "options", "sla", "startTime", "completionTime")


class OwnClaims:
    """Watches who claims, and that what a claim has frozen stays."""

    def __init__(self, commits: Commits) -> None:
        commits.listeners.append(self._committed)

    def _committed(self, commit: Commit) -> None:
        if commit.table != EVENTS or commit.after is None:
            return
        before = (commit.before or {}).get("status", {})
        after = commit.after.get("status", {})
        is_remote = after.get("driver") == CENTRAL
        own = _CLAIMER if is_remote else f"node/{commit.after['spec']['bindingNode']}"
        if after.get("claimedBy", own) != own:
            raise Violation("5", f"event {commit.key} of {own} was claimed by {after['claimedBy']}")
        for field in _FROZEN:
            if field in before and before[field] != after.get(field):
                raise Violation("5", f"{field} of event {commit.key} went from {before[field]} to {after.get(field)}")
