"""Offered transitions stay published, others are removed, and a user's own stay unchanged."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from kube_fairlead.api import wire
from kube_fairlead.api.reserved import ANNOTATION_OFFERED_AT, ANNOTATION_PUBLISHED_BY
from kube_fairlead.api.time import parse_time
from kube_fairlead.claimant.transition_publisher import as_spec
from kube_fairlead_apiserver.routing import RequestInfo
from kube_fairlead_lab.sim.actors.drivers import DriverHost
from kube_fairlead_lab.sim.checkers.requests import GrantedRequests
from kube_fairlead_lab.sim.commits import EVENTS, TRANSITIONS, Commit, Commits
from kube_fairlead_lab.sim.environment import Environment, Violation
from kube_fairlead_lab.sim.loop import Process

__all__ = ["Offers"]

_RESOURCE: Final = TRANSITIONS.partition(".")[0]
_LOOK_SECONDS: Final = 5.0
_KEPT_SECONDS: Final = 20.0  # a deleted transition is published again within this time, if its agents are healthy
_REPLACED_SECONDS: Final = 160.0  # a rejected driver is probed again after two minutes at most
_NEW_SECONDS: Final = 10.0  # an agent may not have seen a younger event when it replaces its transition


class Offers(GrantedRequests[str]):
    """Records the offers of registered drivers, and the author of each transition."""

    def __init__(self, environment: Environment, commits: Commits) -> None:
        self._environment = environment
        self._commits = commits
        self._hosts: list[DriverHost] = []
        self._used_at: dict[str, float] = {}  # by transition: when an event with it was last seen
        commits.listeners.append(self._committed)

    def watch(self, host: DriverHost) -> None:
        """Add a driver."""
        self._hosts.append(host)

    def asked(self, who: str, info: RequestInfo) -> str | None:
        """Return the problem if an agent or manager deletes a transition that an event uses."""
        if info.resource != _RESOURCE or info.verb != "delete" or who == "user":
            return None
        now = self._environment.loop.time()
        for key, event in self._commits.of(EVENTS).items():
            is_old = self._commits.of_object(EVENTS, key)[0].at < now - _NEW_SECONDS
            if event["spec"]["transitionName"] == info.name and is_old and "completionTime" not in event["status"]:
                return f"{who} deletes transition {info.name}, which event {key} uses"
        return None

    def granted(self, what: str) -> None:
        """Such a request must not be accepted."""
        self._environment.violate(Violation("offers", what))

    def _committed(self, commit: Commit) -> None:
        if commit.table == EVENTS:
            named = (commit.after or commit.before or {})["spec"]["transitionName"]
            self._used_at[named] = commit.at
        if commit.table != TRANSITIONS or commit.before is None or _is_published(commit.before):
            return
        if commit.after is None or commit.after["spec"] != commit.before["spec"]:
            raise Violation("offers", f"transition {commit.key}, which a user made, was changed")

    async def audit(self) -> None:
        """Check periodically that offered transitions are published."""
        while True:
            await self._environment.clock.sleep(_LOOK_SECONDS)
            for name in sorted(self._surely_offered()):
                if name in self._commits.of(TRANSITIONS):
                    continue
                commits = self._commits.of_object(TRANSITIONS, name)
                if commits and self._environment.loop.time() - commits[-1].at > _KEPT_SECONDS:
                    self._environment.violate(
                        Violation("offers", f"transition {name} is offered but not published again")
                    )
            self._check_replaced()

    def _check_replaced(self) -> None:
        """Check that a changed offer is published soon after the last event that uses it has ended."""
        since = self._environment.loop.time() - _REPLACED_SECONDS
        used = {event["spec"]["transitionName"] for event in self._commits.of(EVENTS).values()}
        agents = [name for name in self._environment.actors if name.startswith("agent-node-")]
        well_since = [self._environment.well_since(name) for name in agents]
        if not all(well is not None and well < since for well in well_since):
            return
        for host in self._hosts:
            for offered in host.offered if host.died_at is None and host.began_at < since else ():
                stored = self._commits.of(TRANSITIONS).get(offered.name)
                is_free = offered.name not in used and self._used_at.get(offered.name, 0.0) < since
                if stored is None or not is_free or not _is_published(stored):
                    continue
                if stored["spec"] != wire.to_dict(as_spec(offered, host.name)):
                    what = f"transition {offered.name} differs from its driver's offer, and no event uses it"
                    self._environment.violate(Violation("offers", what))

    def _surely_offered(self) -> set[str]:
        """Offered by drivers that are registered with a healthy agent for long enough."""
        since = self._environment.loop.time() - _KEPT_SECONDS
        found: set[str] = set()
        for host in self._hosts:
            if host.died_at is None and host.began_at < since:
                agents = [process for process, process_run in host.registered.items() if process_run == host.lives]
                if any(self._is_well(process, since) for process in agents):
                    found.update(offered.name for offered in host.offered)
        return found

    def _is_well(self, process: Process, since: float) -> bool:
        well_since = self._environment.well_since(process.name.partition("#")[0])
        return process.is_alive and well_since is not None and well_since < since

    @property
    def is_over(self) -> bool:
        """Whether the published transitions are the offered ones."""
        return not self._wrong()

    def at_end(self) -> None:
        """Check that the published transitions are the offered ones."""
        if wrong := self._wrong():
            raise Violation("offers", wrong)

    def _wrong(self) -> str:
        wanted = {one.name: as_spec(one, host.name) for host in self._hosts for one in host.offered}
        stored = self._commits.of(TRANSITIONS)
        for name, spec in wanted.items():
            if name not in stored:
                return f"transition {name} is offered but does not exist"
            if stored[name]["spec"] != wire.to_dict(spec):
                return f"transition {name} is {stored[name]['spec']}, but the offer is {wire.to_dict(spec)}"
        now = self._environment.clock.now()
        left = [name for name, one in stored.items() if name not in wanted and _is_published(one, until=now)]
        return f"transition {left[0]} exists, but no driver offers it" if left else ""


def _is_published(transition: dict[str, Any], *, until: dt.datetime | None = None) -> bool:
    """Return whether an agent published it, and last renewed it before `until` by its own clock."""
    annotations = transition["metadata"].get("annotations", {})
    if ANNOTATION_PUBLISHED_BY not in annotations:
        return False
    return until is None or parse_time(annotations[ANNOTATION_OFFERED_AT]) <= until
