"""A cloud controller manager deletes a node when its machine is gone, and never before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kube_fairlead.api.time import parse_time
from kube_fairlead_apiserver.routing import RequestInfo
from kube_fairlead_lab.sim.actors.clouds import SimCloud
from kube_fairlead_lab.sim.checkers.requests import GrantedRequests
from kube_fairlead_lab.sim.clock import EPOCH
from kube_fairlead_lab.sim.commits import NODES, Commits, is_ready
from kube_fairlead_lab.sim.environment import Environment, Violation

__all__ = ["NodeDeletions"]

_AT_ONCE_SECONDS: Final = 330.0  # a deleted node counts against the next one for this time
# A leader's lease, a call without an answer, and the pause after a cloud outage.
_PATIENCE_SECONDS: Final = 330.0


class NodeDeletions(GrantedRequests[tuple[str, dict[str, Any]]]):
    """Knows which machines exist."""

    def __init__(self, environment: Environment, commits: Commits, clouds: Mapping[str, SimCloud]) -> None:
        self._environment = environment
        self._commits = commits
        self._clouds = clouds
        self._taken_at: dict[str, float] = {}  # by cloud: when its manager last deleted a node

    def asked(self, who: str, info: RequestInfo) -> tuple[str, dict[str, Any]] | None:
        """Return the cloud of the manager that deletes a node, and the node as stored now."""
        if info.resource != NODES or info.verb != "delete" or not who.startswith("ccm-"):
            return None
        node = self._commits.of(NODES).get(info.name)
        return None if node is None else (who.split("-")[1], node)

    def granted(self, what: tuple[str, dict[str, Any]]) -> None:
        """Check that the machine is gone."""
        platform, node = what
        self._environment.counts["nodes taken away"] += 1
        self._taken_at[platform] = self._environment.loop.time()
        cloud, name = self._clouds[platform], node["metadata"]["name"]
        # A machine that was created again may still be missing in an earlier answer of the cloud.
        born = (parse_time(node["metadata"]["creationTimestamp"]) - EPOCH).total_seconds()
        if name in cloud.machines and cloud.back_at[name] <= born + 1.0:
            said = f"the manager of {platform} deletes node {name}, but its machine exists"
            self._environment.violate(Violation("node_deletions", said))

    def are_due(self, calm_seconds: float) -> bool:
        """In the calm phase: whether nodes without machines are still to be deleted, within a limit."""
        due = [name for platform in self._clouds for name in self._due(platform)]
        if due and calm_seconds > _PATIENCE_SECONDS:
            raise Violation("node_deletions", f"node {due[0]} still exists, but its machine is gone")
        return bool(due)

    def _due(self, platform: str) -> list[str]:
        """Return the node without a machine, if it is one of several and no other was deleted just before."""
        cloud = self._clouds[platform]
        own = [
            node
            for node in self._commits.of(NODES).values()
            if str(node["spec"].get("providerID", "")).startswith(f"{platform}://")
        ]
        missing = [node for node in own if node["metadata"]["name"] not in cloud.machines]
        taken_at = self._taken_at.get(platform, -_AT_ONCE_SECONDS)
        if len(missing) != 1 or len(own) < 2 or self._environment.loop.time() - taken_at < _AT_ONCE_SECONDS:
            return []
        return [] if is_ready(missing[0]) else [missing[0]["metadata"]["name"]]
