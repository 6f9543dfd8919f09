"""Maintenance takes no more nodes out of service than it may, and puts none back that is not Ready."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fairlead.sim.cast.maintainers import LIMITS
from fairlead.sim.commits import NODES, Commits, is_ready
from fairlead.sim.stage import Stage, Violation

__all__ = ["Maintenance"]

_STALE_SECONDS: Final = 5.0  # what changed since the last look cannot be known


class Maintenance:
    """Knows which nodes are in service, and since when."""

    def __init__(self, stage: Stage, commits: Commits) -> None:
        self._stage = stage
        self._commits = commits

    def begins(self, node: str, active: Sequence[str], zones: dict[str, str]) -> None:
        """The node, those that are worked on and those that are out of service anyway are within both limits."""
        self._stage.counts["nodes maintained"] += 1
        if not self._has_been(node, in_service=True):
            return  # it takes nothing away
        out = {other for other in zones if self._has_been(other, in_service=False)} | set(active)
        out.discard(node)
        in_zone = {other for other in out if zones[other] == zones[node]}
        if len(out) >= LIMITS.max_unavailable or len(in_zone) >= LIMITS.per_zone:
            what = f"{node} is taken out of service beside {sorted(out)}, {sorted(in_zone)} of them in its zone"
            self._stage.violate(Violation("maintenance", what))

    def returns(self, node: str) -> None:
        """It is Ready, as far as can be known."""
        if self._has_been(node, ready=False):
            self._stage.violate(Violation("maintenance", f"{node} is put back into service, and is not Ready"))

    def _has_been(self, name: str, *, in_service: bool | None = None, ready: bool | None = None) -> bool:
        """Whether that was so all the time since a moment ago."""
        commits = self._commits.of_object(NODES, name)
        since = self._stage.loop.time() - _STALE_SECONDS
        before = [commit.after for commit in commits if commit.at <= since][-1:]
        states = [*before, *(commit.after for commit in commits if commit.at > since)]
        if in_service is not None:
            return bool(states) and all(_is_in_service(state) == in_service for state in states)
        return bool(states) and all(is_ready(state) == ready for state in states)


def _is_in_service(node: dict[str, Any] | None) -> bool:
    return node is not None and is_ready(node) and not node.get("spec", {}).get("unschedulable", False)
