"""Invariant 5: a claimant goes on with its own claim as it is, and touches no other's."""

from __future__ import annotations

from typing import Final

from kube_fairlead.lifecycle.claiming import central_claimant, node_claimant
from kube_fairlead_apiserver.routing import RequestInfo
from kube_fairlead_lab.sim.actors.drivers import CENTRAL
from kube_fairlead_lab.sim.checkers.requests import GrantedRequests
from kube_fairlead_lab.sim.commits import EVENTS, Commit, Commits
from kube_fairlead_lab.sim.environment import Environment, Violation

__all__ = ["ClaimOwners"]

_CLAIMER: Final = central_claimant("central")
_FROZEN: Final = ("claimedBy", "claimTime", "nodeUID", "transition", "options", "sla", "startTime", "completionTime")
_RESOURCE: Final = EVENTS.partition(".")[0]
_WRITES: Final = frozenset({"update", "patch", "delete"})


class ClaimOwners(GrantedRequests[str]):
    """Watches who claims, that what a claim has frozen stays, and that no agent writes to a claim of somebody else."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._commits = commits
        commits.listeners.append(self._committed)

    def asked(self, who: str, info: RequestInfo) -> str | None:
        """What an agent is about to do to a claim that is not its own."""
        if info.resource != _RESOURCE or info.verb not in _WRITES or not who.startswith("agent-"):
            return None
        event = self._commits.of(EVENTS).get(info.name)
        status = {} if event is None else event.get("status", {})
        if event is None or status.get("claimStatus") != "Claimed":
            return None
        is_own = status.get("claimedBy") == node_claimant(event["spec"]["bindingNode"])
        return None if is_own else f"{who} may {info.verb} event {info.name}, claimed by {status.get('claimedBy')}"

    def granted(self, what: str) -> None:
        """It never may be."""
        self._environment.violate(Violation("5", what))

    def _committed(self, commit: Commit) -> None:
        if commit.table != EVENTS or commit.after is None:
            return
        before = (commit.before or {}).get("status", {})
        after = commit.after.get("status", {})
        is_remote = after.get("driver") == CENTRAL
        own = _CLAIMER if is_remote else node_claimant(commit.after["spec"]["bindingNode"])
        if after.get("claimedBy", own) != own:
            raise Violation("5", f"event {commit.key} of {own} was claimed by {after['claimedBy']}")
        for field in _FROZEN:
            if field in before and before[field] != after.get(field):
                raise Violation("5", f"{field} of event {commit.key} went from {before[field]} to {after.get(field)}")
