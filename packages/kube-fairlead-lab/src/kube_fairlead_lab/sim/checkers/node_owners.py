"""Invariant 8: no cloud controller manager writes to a node that is not its own."""

from __future__ import annotations

from kube_fairlead_apiserver.routing import RequestInfo
from kube_fairlead_lab.sim.checkers.requests import GrantedRequests
from kube_fairlead_lab.sim.commits import NODES, Commits
from kube_fairlead_lab.sim.environment import Environment, Violation

__all__ = ["NodeOwners"]

_WRITES = frozenset({"create", "update", "patch", "delete"})


class NodeOwners(GrantedRequests[tuple[str, RequestInfo, str]]):
    """Knows the cloud of each node."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._commits = commits

    def asked(self, who: str, info: RequestInfo) -> tuple[str, RequestInfo, str] | None:
        """Return the cloud of the manager, the request, and the node's providerID as stored now."""
        if info.resource != NODES or info.verb not in _WRITES or not who.startswith("ccm-"):
            return None
        node = self._commits.of(NODES).get(info.name)
        return None if node is None else (who.split("-")[1], info, str(node.get("spec", {}).get("providerID", "")))

    def granted(self, what: tuple[str, RequestInfo, str]) -> None:
        """Check that the node belongs to the manager's cloud."""
        cloud, info, provider_id = what
        if not provider_id.startswith(f"{cloud}://"):
            said = f"the manager of {cloud} may {info.verb} node {info.name} with providerID {provider_id!r}"
            self._environment.violate(Violation("8", said))
