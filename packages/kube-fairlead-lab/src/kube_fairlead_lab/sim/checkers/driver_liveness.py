"""No event is claimed for a dead driver, and a claim without a deadline does not wait for one for ever."""

from __future__ import annotations

from typing import Any, Final

from kube_fairlead.api.time import parse_time
from kube_fairlead_lab.sim.actors.agents import DRIVER_LOST
from kube_fairlead_lab.sim.actors.drivers import DriverHost
from kube_fairlead_lab.sim.clock import EPOCH
from kube_fairlead_lab.sim.commits import EVENTS, Commit, Commits
from kube_fairlead_lab.sim.environment import Environment, Violation

__all__ = ["DriverLiveness"]

_LOOK_SECONDS: Final = 5.0
# The last answer of a driver counts for some seconds, a probe takes up to ten, and then the claim is written.
_KNOWN_SECONDS: Final = 25.0
_SLACK_SECONDS: Final = 40.0  # for a driver that has just registered, and for some writes


class DriverLiveness:
    """Records which drivers run. A socket without a process does not count."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._commits = commits
        self._hosts: dict[str, list[DriverHost]] = {}
        commits.listeners.append(self._committed)

    def watch(self, node: str, host: DriverHost) -> None:
        """Add a driver of a node."""
        self._hosts.setdefault(node, []).append(host)

    def _committed(self, commit: Commit) -> None:
        if commit.table != EVENTS or commit.after is None or not _is_claimed(commit.after):
            return
        if commit.before is not None and _is_claimed(commit.before):
            return
        dead_for = self._dead_for(commit.after)
        if dead_for is not None and dead_for > _KNOWN_SECONDS:
            driver = commit.after["status"]["driver"]
            raise Violation(
                "drivers", f"event {commit.key} is claimed for {driver}, which is dead for {dead_for:.0f} s"
            )

    async def audit(self) -> None:
        """Check periodically that no claim without a deadline outlives its driver for long."""
        limit = DRIVER_LOST.total_seconds() + _SLACK_SECONDS
        while True:
            await self._environment.clock.sleep(_LOOK_SECONDS)
            for key, event in self._commits.of(EVENTS).items():
                if not _is_claimed(event) or "sla" in event["status"]:
                    continue
                claimed = (parse_time(event["status"]["claimTime"]) - EPOCH).total_seconds()
                waited = min(self._dead_for(event) or 0.0, self._environment.loop.time() - claimed)
                if waited > limit:
                    what = f"event {key} has no deadline and is still Claimed {waited:.0f} s after its driver died"
                    self._environment.violate(Violation("drivers", what))

    def _dead_for(self, event: dict[str, Any]) -> float | None:
        """How long the driver of a claim has been dead while the node's agents were healthy; None if it is not so."""
        node, now = event["spec"]["bindingNode"], self._environment.loop.time()
        host = next((one for one in self._hosts.get(node, ()) if one.name == event["status"].get("driver")), None)
        if host is None or host.died_at is None:
            return None
        agents = [name for name in (f"agent-{node}", f"agent-{node}-twin") if name in self._environment.actors]
        since = host.died_at
        for agent in agents:
            well_since = self._environment.well_since(agent)
            if well_since is None:
                return None
            since = max(since, well_since)
        return now - since


def _is_claimed(event: dict[str, Any]) -> bool:
    return bool(event.get("status", {}).get("claimStatus") == "Claimed")
