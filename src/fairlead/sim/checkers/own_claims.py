"""Invariant 5: a claimant goes on with its own claim as it is, and touches no other's."""

from __future__ import annotations

from typing import Final

from fairlead.apiserver.app import Observer
from fairlead.apiserver.attributes import UserInfo
from fairlead.apiserver.http.messages import Request, Response
from fairlead.apiserver.routing import RequestInfo
from fairlead.lifecycle.claiming import central_claimant, node_claimant
from fairlead.sim.cast.drivers import CENTRAL
from fairlead.sim.commits import EVENTS, Commit, Commits
from fairlead.sim.stage import Stage, Violation

__all__ = ["OwnClaims"]

_CLAIMER: Final = central_claimant("central")
_FROZEN: Final = ("claimedBy", "claimTime", "nodeUID", "transition", "options", "sla", "startTime", "completionTime")
_RESOURCE: Final = EVENTS.partition(".")[0]
_WRITES: Final = frozenset({"update", "patch", "delete"})


class OwnClaims(Observer):
    """Watches who claims, that what a claim has frozen stays, and that no agent writes to a claim of somebody else."""

    def __init__(self, stage: Stage, commits: Commits) -> None:
        self._stage = stage
        self._commits = commits
        commits.listeners.append(self._committed)

    def begin(self, request: Request, info: RequestInfo) -> object:
        """What an agent is about to do to a claim that is not its own."""
        user = request.trusted_user
        if info.resource != _RESOURCE or info.verb not in _WRITES or user is None or not user.name.startswith("agent-"):
            return None
        event = self._commits.of(EVENTS).get(info.name)
        status = {} if event is None else event.get("status", {})
        if event is None or status.get("claimStatus") != "Claimed":
            return None
        is_own = status.get("claimedBy") == node_claimant(event["spec"]["bindingNode"])
        return (
            None if is_own else f"{user.name} may {info.verb} event {info.name}, claimed by {status.get('claimedBy')}"
        )

    def identified(self, token: object, caller: UserInfo, user: UserInfo) -> None:
        """Known already."""

    def end(self, token: object, response: Response) -> Response:
        """Judge what was granted."""
        if isinstance(token, str) and response.status < 300:
            self._stage.violate(Violation("5", token))
        return response

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
