"""A maintenance drains no more nodes than allowed, and uncordons none that is not Ready."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kube_fairlead_lab.sim.actors.maintainers import LIMITS
from kube_fairlead_lab.sim.commits import NODES, Commits, is_ready
from kube_fairlead_lab.sim.environment import Environment, Violation

__all__ = ["Maintenance"]


class Maintenance:
    """Records which nodes are in service."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._commits = commits

    def begins(self, node: str, active: Sequence[str], zones: dict[str, str], *, looked_at: float) -> None:
        """Check both limits for the node, the active nodes and nodes that are out of service anyway."""
        self._environment.counts["nodes maintained"] += 1
        if not all(map(_is_in_service, self._since(node, looked_at))):
            return  # it is out of service already
        out = {other for other in zones if not any(map(_is_in_service, self._since(other, looked_at)))} | set(active)
        out.discard(node)
        in_zone = {other for other in out if zones[other] == zones[node]}
        if len(out) >= LIMITS.max_unavailable or len(in_zone) >= LIMITS.per_zone:
            what = f"{node} is taken out of service beside {sorted(out)}, {sorted(in_zone)} of them in its zone"
            self._environment.violate(Violation("maintenance", what))

    def returns(self, node: str, *, looked_at: float) -> None:
        """Check that the node is Ready, or was since the last look."""
        if not any(map(is_ready, self._since(node, looked_at))):
            self._environment.violate(Violation("maintenance", f"{node} is put back into service but is not Ready"))

    def _since(self, name: str, moment: float) -> list[dict[str, Any] | None]:
        """Return the states of a node since a moment: the maintainer may have seen any of them."""
        commits = self._commits.of_object(NODES, name)
        before = [commit.after for commit in commits if commit.at <= moment][-1:] or [None]
        return [*before, *(commit.after for commit in commits if commit.at > moment)]


def _is_in_service(node: dict[str, Any] | None) -> bool:
    return node is not None and is_ready(node) and not node.get("spec", {}).get("unschedulable", False)
