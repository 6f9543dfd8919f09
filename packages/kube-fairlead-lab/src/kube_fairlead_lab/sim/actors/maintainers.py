"""Users who maintain nodes as `fairlead maintain` does: drain, work, wait for Ready, uncordon.

The simulation cannot import the command line, so its loop is repeated here. The decisions which node may be next and
when a node is back are the product's: `lifecycle.drain.rollout`.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.lifecycle_v1alpha1 import TERMINAL, ClaimStatus
from kube_fairlead.api.reserved import LIFECYCLE_GROUP, NODE_DRAIN, NODE_UNCORDON
from kube_fairlead.base import tasks
from kube_fairlead.client import errors
from kube_fairlead.client.client import Client
from kube_fairlead.lifecycle.drain import rollout
from kube_fairlead_lab.sim.commits import EVENTS, Commits, claim_status
from kube_fairlead_lab.sim.environment import Environment

__all__ = ["LIMITS", "Maintainer", "MaintenanceObserver"]

LIMITS: Final = rollout.Limits(max_unavailable=2, per_zone=1)
_EVENTS: Final = GroupVersionResource(LIFECYCLE_GROUP, "v1alpha1", "lifecycleevents")
_LOOK_SECONDS: Final = 2.0
_PATIENCE_SECONDS: Final = 240.0
_MIN_READY: Final = dt.timedelta(seconds=4)


class MaintenanceObserver(Protocol):
    """Observes what a maintenance does to nodes."""

    def begins(self, node: str, active: Sequence[str], zones: dict[str, str], *, looked_at: float) -> None:
        """A node is about to be drained, beside `active` ones. `zones` has all nodes of the maintenance."""
        ...

    def returns(self, node: str, *, looked_at: float) -> None:
        """A node is about to be uncordoned."""
        ...


class Maintainer:
    """One maintenance of some nodes. `disturb` is the work on a node."""

    def __init__(
        self,
        environment: Environment,
        commits: Commits,
        client: Client,
        observer: MaintenanceObserver,
        disturb: Callable[[str], Awaitable[None]],
        number: int,
    ) -> None:
        self._environment = environment
        self._commits = commits
        self._client = client
        self._observer = observer
        self._disturb = disturb
        self._number = number
        self._failed = False

    async def run(self, names: Sequence[str]) -> None:
        """Maintain these nodes; after a failure or the time limit no further node is started."""
        self._environment.trace.add("user", f"maintains {', '.join(names)}")
        ends = self._environment.clock.monotonic() + _PATIENCE_SECONDS
        waiting, active = list(names), list[str]()
        zones: dict[str, str] = {}

        async def of(name: str) -> None:
            if not await self._maintain(name, ends):
                self._failed = True
            active.remove(name)

        async with tasks.TaskScope("maintenance") as scope:
            while (waiting and not self._failed) or active:
                if self._environment.clock.monotonic() >= ends:
                    waiting.clear()
                looked_at = self._environment.clock.monotonic()
                with contextlib.suppress(api_errors.ApiError, errors.ClientError):
                    found = {node.name: node for node in (await self._client.of(Node).list_all()).items}
                    if not zones:
                        zones = {name: _zone(found.get(name)) for name in names}
                    out = [name for name in names if name not in found or rollout.is_unavailable(found[name])]
                    may_begin = () if self._failed else waiting
                    for name in rollout.startable(may_begin, active, zones, LIMITS, unavailable=out):
                        self._observer.begins(name, tuple(active), zones, looked_at=looked_at)
                        waiting.remove(name)
                        active.append(name)
                        scope.start(of(name), name=name)
                await self._environment.clock.sleep(_LOOK_SECONDS)

    async def _maintain(self, name: str, ends: float) -> bool:
        if not await self._run_transition(NODE_DRAIN.name, name, ends):
            return False
        await self._disturb(name)
        readiness = rollout.Readiness()
        while True:
            looked_at = self._environment.clock.monotonic()
            if looked_at >= ends:
                return False
            with contextlib.suppress(api_errors.ApiError, errors.ClientError):
                try:
                    node: Node | None = await self._client.of(Node).get(name)
                except api_errors.NotFound:
                    node = None
                readiness = readiness.seen(node, self._environment.clock.now())
                moment = readiness.fit_at(_MIN_READY)
                if moment is not None and self._environment.clock.now() >= moment:
                    break
            await self._environment.clock.sleep(_LOOK_SECONDS)
        self._observer.returns(name, looked_at=looked_at)
        return await self._run_transition(NODE_UNCORDON.name, name, ends)

    async def _run_transition(self, transition: str, node: str, ends: float) -> bool:
        name = f"m-{self._number}-{transition}-{node}"
        spec = {"transitionName": transition, "bindingNode": node}
        body: dict[str, Any] = {"kind": "LifecycleEvent", "metadata": {"name": name}, "spec": spec}
        try:
            await self._client.of(_EVENTS).create({"apiVersion": f"{LIFECYCLE_GROUP}/v1alpha1", **body})
        except (api_errors.ApiError, errors.ClientError):
            return False
        last = ClaimStatus.PENDING
        while self._environment.clock.monotonic() < ends:
            event = self._commits.of(EVENTS).get(name)
            if event is None:
                break
            last = claim_status(event)
            if last in TERMINAL:
                break
            await self._environment.clock.sleep(_LOOK_SECONDS / 4)
        commits = [one.after for one in self._commits.of_object(EVENTS, name) if one.after is not None]
        return bool(commits) and claim_status(commits[-1]) is ClaimStatus.SUCCEEDED


def _zone(node: Node | None) -> str:
    return "" if node is None else node.metadata.labels.get(rollout.ZONE_LABEL, "")
