"""Invariant 8: no cloud controller manager writes to a node that is not its own."""

from __future__ import annotations

from fairlead.apiserver.app import Observer
from fairlead.apiserver.attributes import UserInfo
from fairlead.apiserver.http.messages import Request, Response
from fairlead.apiserver.routing import RequestInfo
from fairlead.sim.commits import NODES, Commits
from fairlead.sim.stage import Stage, Violation

__all__ = ["Ownership"]

_WRITES = frozenset({"create", "update", "patch", "delete"})


class Ownership(Observer):
    """Sees requests as the audit log does: who asked for what, and whether it was granted."""

    def __init__(self, stage: Stage, commits: Commits) -> None:
        self._stage = stage
        self._commits = commits

    def begin(self, request: Request, info: RequestInfo) -> object:
        """What matters of a request: the node it is about to change, as it is stored now."""
        if info.resource != NODES or info.verb not in _WRITES:
            return None
        node = self._commits.of(NODES).get(info.name)
        user = request.trusted_user
        if node is None or user is None or not user.name.startswith("ccm-"):
            return None
        return (user.name.split("-")[1], info, str(node.get("spec", {}).get("providerID", "")))

    def identified(self, token: object, caller: UserInfo, user: UserInfo) -> None:
        """Known already."""

    def end(self, token: object, response: Response) -> Response:
        """Judge what was granted."""
        if isinstance(token, tuple) and response.status < 300:
            cloud, info, provider_id = token
            if not provider_id.startswith(f"{cloud}://"):
                what = f"the manager of {cloud} may {info.verb} node {info.name}, which is {provider_id or 'nobody'}'s"
                self._stage.violate(Violation("8", what))
        return response
