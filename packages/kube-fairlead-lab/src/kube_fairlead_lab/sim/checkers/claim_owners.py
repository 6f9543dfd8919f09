"""Invariant 5: a claimant continues its own claim unchanged, and writes to no other's."""

from __future__ import annotations

from typing import Final

from kube_fairlead.lifecycle.claims import central_claimant, node_claimant
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
    """Checks who claims, that the frozen fields of a claim stay, and that no agent writes to another's claim."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._commits = commits
        commits.listeners.append(self._committed)

    def asked(self, who: str, info: RequestInfo) -> str | None:
        """Return the request of an agent for another's claim."""
        if info.resource != _RESOURCE or info.verb not in _WRITES or not who.startswith("agent-"):
            return None
        event = self._commits.of(EVENTS).get(info.name)
        status = {} if event is None else event.get("status", {})
        if event is None or status.get("claimStatus") != "Claimed":
            return None
        is_own = status.get("claimedBy") == node_claimant(event["spec"]["bindingNode"])
        return (
            None
            if is_own
            else f"{who} is allowed to {info.verb} event {info.name}, claimed by {status.get('claimedBy')}"
        )

    def granted(self, what: str) -> None:
        """Such a request must not be accepted."""
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
                raise Violation(
                    "5", f"{field} of event {commit.key} changed from {before[field]} to {after.get(field)}"
                )
