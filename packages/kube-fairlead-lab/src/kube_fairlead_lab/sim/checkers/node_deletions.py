"""A cloud's manager takes a node away when its machine is gone, and never before, whatever the cloud says meanwhile."""

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

_AT_ONCE_SECONDS: Final = 330.0  # so long a node that node_deletions counts against the next
# A leader's lease, a call that is never answered, and the pause that follows a cloud's silence.
_PATIENCE_SECONDS: Final = 330.0


class NodeDeletions(GrantedRequests[tuple[str, dict[str, Any]]]):
    """Knows which machines there really are."""

    def __init__(self, environment: Environment, commits: Commits, clouds: Mapping[str, SimCloud]) -> None:
        self._environment = environment
        self._commits = commits
        self._clouds = clouds
        self._taken_at: dict[str, float] = {}  # by cloud: when its manager last deleted a node

    def asked(self, who: str, info: RequestInfo) -> tuple[str, dict[str, Any]] | None:
        """Whose manager is about to delete a node, and the node as it is stored now."""
        if info.resource != NODES or info.verb != "delete" or not who.startswith("ccm-"):
            return None
        node = self._commits.of(NODES).get(info.name)
        return None if node is None else (who.split("-")[1], node)

    def granted(self, what: tuple[str, dict[str, Any]]) -> None:
        """Its machine must be gone."""
        platform, node = what
        self._environment.counts["nodes taken away"] += 1
        self._taken_at[platform] = self._environment.loop.time()
        cloud, name = self._clouds[platform], node["metadata"]["name"]
        # One that was brought back may still seem gone to whoever asked before that; the same node is there again.
        born = (parse_time(node["metadata"]["creationTimestamp"]) - EPOCH).total_seconds()
        if name in cloud.machines and cloud.back_at[name] <= born + 1.0:
            said = f"the manager of {platform} takes node {name} away, and its machine is there"
            self._environment.violate(Violation("node_deletions", said))

    def are_due(self, calm_seconds: float) -> bool:
        """In the calm: whether nodes whose machines are gone are still to be taken away. Not for ever."""
        due = [name for platform in self._clouds for name in self._due(platform)]
        if due and calm_seconds > _PATIENCE_SECONDS:
            raise Violation("node_deletions", f"node {due[0]} is still there, and its machine is gone")
        return bool(due)

    def _due(self, platform: str) -> list[str]:
        """The one that is gone, where it is one of several, and none has node_deletions just before."""
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
