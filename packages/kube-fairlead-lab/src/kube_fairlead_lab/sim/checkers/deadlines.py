"""Invariant 4: every claim with a deadline ends in time, plus a bounded slack, where its claimant runs."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from kube_fairlead.api.reserved import NODE_SHUTDOWN
from kube_fairlead.api.time import parse_duration, parse_time
from kube_fairlead_lab.sim.actors.drivers import CENTRAL
from kube_fairlead_lab.sim.clock import EPOCH
from kube_fairlead_lab.sim.commits import EVENTS, NODES, TRANSITIONS, Commit, Commits
from kube_fairlead_lab.sim.environment import Environment, Violation

__all__ = ["Deadlines"]

_LOOK_SECONDS: Final = 5.0
_ROUNDING_SECONDS: Final = 1.0
_ORPHAN_SECONDS: Final = 45.0
# For a restart of an agent, its node's Lease, clock drift, and a few writes over a faulty network.
_SLACK: Final = dt.timedelta(seconds=30)
_LEASE: Final = dt.timedelta(seconds=90)  # where another agent may have held the node's Lease


class Deadlines:
    """Checks the duration of claims, in the chaos and in the calm phase."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._commits = commits
        commits.listeners.append(self._committed)

    def _committed(self, commit: Commit) -> None:
        """Check that a claim has exactly the time of its transition."""
        if (
            commit.table != EVENTS
            or commit.after is None
            or commit.after["spec"]["transitionName"] == NODE_SHUTDOWN.name
        ):
            return
        status, before = commit.after.get("status", {}), (commit.before or {}).get("status", {})
        transition = self._commits.of(TRANSITIONS).get(commit.after["spec"]["transitionName"])
        if status.get("claimStatus") != "Claimed" or before.get("claimStatus") == "Claimed" or transition is None:
            return
        if status["transition"]["uid"] != transition["metadata"]["uid"] or "sla" not in transition["spec"]:
            return  # the transition was replaced just now, or has no deadline
        allowed = parse_duration(transition["spec"]["sla"])
        given = parse_time(status["sla"]) - parse_time(status["claimTime"])
        if abs((given - allowed).total_seconds()) > _ROUNDING_SECONDS:
            raise Violation("4", f"event {commit.key} has {given} by its claim, but {allowed} by its transition")

    def check_orphans(self) -> None:
        """Check that no event stays Claimed on a node that is gone for long."""
        now = self._environment.loop.time()
        for key, event in self._commits.of(EVENTS).items():
            node = event["spec"]["bindingNode"]
            commits = self._commits.of_object(NODES, node)
            is_gone = bool(commits) and commits[-1].after is None and commits[-1].at < now - _ORPHAN_SECONDS
            if is_gone and event.get("status", {}).get("claimStatus") == "Claimed":
                raise Violation(
                    "4", f"event {key} is still Claimed, but node {node} is gone since {commits[-1].at:.0f} s"
                )

    async def audit(self) -> None:
        """Check periodically that no claim exceeds its deadline and the slack while its claimant is healthy."""
        while True:
            await self._environment.clock.sleep(_LOOK_SECONDS)
            for key, event in self._commits.of(EVENTS).items():
                status = event.get("status", {})
                # The end of a shutdown is known after the next boot, or observed by a manager.
                is_shutdown = event["spec"]["transitionName"] == NODE_SHUTDOWN.name
                if status.get("claimStatus") == "Claimed" and "sla" in status and not is_shutdown:
                    self._check_in_time(key, self._claimants(event), status["sla"])

    def _claimants(self, event: dict[str, Any]) -> list[str]:
        """Return the actors that can continue a claim: the node's agents, or the managers."""
        if event["status"].get("driver") == CENTRAL:
            return [name for name in self._environment.actors if name.startswith("manager-")]
        agent = f"agent-{event['spec']['bindingNode']}"
        return [name for name in (agent, f"{agent}-twin") if name in self._environment.actors]

    def _check_in_time(self, key: str, claimants: list[str], deadline: str) -> None:
        # A claimant with a slow clock sets a deadline in the past, so all of them must be healthy.
        well = [self._environment.well_since(name) for name in claimants]
        well_since = [since for since in well if since is not None]
        if len(well_since) < len(well):
            return
        slack = _SLACK if len(claimants) == 1 else _SLACK + _LEASE
        limit = max(parse_time(deadline), EPOCH + dt.timedelta(seconds=max(well_since))) + slack
        if self._environment.clock.now() > limit:
            self._environment.violate(Violation("4", f"event {key} is still Claimed after its deadline {deadline}"))
