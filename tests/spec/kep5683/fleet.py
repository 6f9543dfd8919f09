"""Agents inside the test's own process, on a real control plane: each is stopped at one chosen request.

Every node of a fleet stands at another step of its event when something happens to all of them. So one outage, or one
round of deaths, covers every step there is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from kube_fairlead.agent.agent import Agent, AgentOptions
from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import (
    LifecycleEvent,
    LifecycleEventSpec,
    LifecycleTransition,
    LifecycleTransitionSpec,
)
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION, FINALIZER_CLAIMED
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.claimant.driver_directory import Registration
from kube_fairlead.claimant.leased_engine import LEASE_TIMING
from kube_fairlead.client import errors
from kube_fairlead.client.client import Client
from kube_fairlead.client.transport import Request, Response, StreamedResponse, Transport
from kube_fairlead.client.watch import Change, ChangeType
from kube_fairlead.driverapi.memory_channel import MemoryChannel
from kube_fairlead.drivers import sdk
from kube_fairlead.drivers.sdk.service import Service
from kube_fairlead.election import Timing
from tests.unit.claimant.test_crashes import STEPS, is_step
from tests.unit.claimant.world import DRIVER, OFFERED, Deed, NoChannels, When

__all__ = ["CASES", "SHORT_LEASE", "Fleet", "fleet_on"]

CASES: Final[tuple[tuple[int, When], ...]] = tuple(
    (number, when) for number in range(len(STEPS)) for when in ("before", "after")
)
SHORT_LEASE: Final = Timing(lease_duration_seconds=20.0, renew_deadline_seconds=2.0, retry_period_seconds=0.5)
"""For agents that are killed: their last attempts to give the Lease back end soon."""

_SECONDS: Final = 90.0


class Gate:
    """A transport that stops once, before or after a chosen step, until it is told to go on or is dead."""

    def __init__(self, inner: Transport, number: int, when: When) -> None:
        self.inner = inner
        self.reached = asyncio.Event()
        self.dead = False
        self._go = asyncio.Event()
        self._number = number
        self._when = when
        self._steps = 0

    def go_on(self) -> None:
        self._go.set()

    def die(self) -> None:
        """As kill -9: from now on nothing goes through."""
        self.dead = True
        self._go.set()

    async def send(self, request: Request) -> Response:
        self._check_alive()
        self._steps += is_step(request)
        is_here = is_step(request) and self._steps == self._number + 1
        if is_here and self._when == "before":
            await self._stand()
        response = await self.inner.send(request)
        if is_here and self._when == "after":
            await self._stand()
            raise errors.ConnectionBroken("the answer was lost")
        return response

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamedResponse]:
        self._check_alive()
        async with self.inner.stream(request) as response:
            yield response

    async def close(self) -> None:
        """The connection is the fleet's."""

    async def _stand(self) -> None:
        self.reached.set()
        await self._go.wait()
        self._check_alive()

    def _check_alive(self) -> None:
        if self.dead:
            raise errors.ConnectionBroken("dead")


class Watchful(Deed):
    """Looks at the event through the API before it starts: were claim and finalizer stored?"""

    def __init__(self, admin: Client) -> None:
        super().__init__()
        self.too_early: list[str] = []
        self._admin = admin

    async def start(self, work: sdk.Work) -> None:
        event = await self._admin.of(LifecycleEvent).get(work.event_name)
        if event.claim_status != "Claimed" or FINALIZER_CLAIMED not in event.metadata.finalizers:
            self.too_early.append(work.event_name)
        await super().start(work)


class Outpost:
    """One node, its driver, and its agent: one life of it after the other."""

    def __init__(self, fleet: Fleet, number: int, when: When) -> None:
        self.name = f"{fleet.name}-{number}-{when}"
        self.driver = Watchful(fleet.admin)
        self.gate = Gate(fleet.agents.transport, number, when)
        self.states: list[str] = []
        self.reasons: list[str] = []
        self._channel = MemoryChannel(Service(self.driver, RealClock()))
        self._fleet = fleet
        self._task: asyncio.Task[None] | None = None

    def start_agent(self, *, gated: bool) -> None:
        client = self._fleet.agents
        if gated:
            client = client.with_transport(lambda _inner: self.gate)
        options = AgentOptions(node_name=self.name, identity=f"{self.name}_id", timing=self._fleet.timing)
        agent = Agent(client, options, NoChannels(), DiscardedMetrics())
        agent.directory.add(
            Registration(driver=DRIVER, endpoint="", owner=0, channel=self._channel, transitions=(OFFERED,))
        )
        self._task = self._fleet.scope.start(_survive(agent), name=self.name)

    def kill_agent(self) -> None:
        self.gate.die()
        if self._task is not None:
            self._task.cancel()

    @property
    def is_over(self) -> bool:
        # Two watches tell of it, and either may be behind.
        return self.states[-1:] == ["gone"] and self.reasons[-1:] == [OFFERED.end]

    def assert_ended_well(self) -> None:
        for seen, whole in (
            (self.states, ["Pending", "Claimed", "Succeeded", "gone"]),
            (self.reasons, [OFFERED.start, OFFERED.end]),
        ):
            expected = [state for state in whole if state in seen] if self._fleet.is_lossy else whole
            assert seen == expected, self.name
        assert self.driver.effects == [f"start {self.name}", f"end {self.name}"], self.name
        assert self.driver.too_early == [], self.name


class Fleet:
    """Nodes that all have the same event to carry out, and a watcher who sees everything."""

    def __init__(self, name: str, admin: Client, agents: Client, scope: tasks.TaskScope, timing: Timing) -> None:
        self.name = name
        self.admin = admin
        self.agents = agents
        self.scope = scope
        self.timing = timing
        self.outposts = {f"{name}-{number}-{when}": Outpost(self, number, when) for number, when in CASES}
        self.is_lossy = False  # whether the watcher may have missed something
        self._changed = asyncio.Event()

    async def deploy(self) -> None:
        """Nodes and events are there, agents run, and each has come to its step."""
        spec = LifecycleTransitionSpec(start=OFFERED.start, end=OFFERED.end, driver=DRIVER, all_nodes=True, sla="10m")
        await self.admin.of(LifecycleTransition).create(
            LifecycleTransition(metadata=ObjectMeta(name=self.name), spec=spec)
        )
        await self._watch()
        for name, outpost in self.outposts.items():
            await self.admin.of(Node).create(Node(metadata=ObjectMeta(name=name)))
            event_spec = LifecycleEventSpec(transition_name=self.name, binding_node=name)
            await self.admin.of(LifecycleEvent).create(LifecycleEvent(metadata=ObjectMeta(name=name), spec=event_spec))
            outpost.start_agent(gated=True)
        async with RealClock().timeout(_SECONDS):
            for outpost in self.outposts.values():
                await outpost.gate.reached.wait()

    async def wait_until_over(self) -> None:
        """Wait until every event is gone and every node says how it ended."""
        try:
            async with RealClock().timeout(_SECONDS):
                while not all(outpost.is_over for outpost in self.outposts.values()):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            left = {
                name: (outpost.states, outpost.reasons)
                for name, outpost in self.outposts.items()
                if not outpost.is_over
            }
            raise AssertionError(f"never came to an end: {left}") from None

    async def clean_up(self) -> None:
        for name in self.outposts:
            await self.admin.of(Node).delete(name)
        await self.admin.of(LifecycleTransition).delete(self.name)

    async def _watch(self) -> None:
        for kind in (LifecycleEvent, Node):
            page = await self.admin.of(kind).list()
            self.scope.start(self._follow(kind, page.resource_version), name=kind.__name__)

    async def _follow(self, kind: type[LifecycleEvent | Node], version: str) -> None:
        while True:
            try:
                async with self.admin.of(kind).follow(resource_version=version) as changes:
                    async for change in changes:
                        if isinstance(change, Change):
                            self._see(change.object, is_gone=change.type is ChangeType.DELETED)
            except api_errors.Expired:
                # A server that was started anew remembers nothing from before: some states may have passed unseen.
                self.is_lossy = True
                page = await self.admin.of(kind).list()
                version = page.resource_version
                for item in page.items:
                    self._see(item)
                if kind is LifecycleEvent:
                    for name in set(self.outposts) - {item.name for item in page.items}:
                        self._note(self.outposts[name].states, "gone")

    def _see(self, item: LifecycleEvent | Node, *, is_gone: bool = False) -> None:
        outpost = self.outposts.get(item.name)
        if outpost is None:
            return
        if isinstance(item, LifecycleEvent):
            self._note(outpost.states, "gone" if is_gone else str(item.claim_status))
        elif (condition := item.condition(CONDITION_LIFECYCLE_TRANSITION)) is not None:
            self._note(outpost.reasons, condition.reason)

    def _note(self, told: list[str], what: str) -> None:
        if told[-1:] != [what]:
            told.append(what)
            self._changed.set()


async def _survive(agent: Agent) -> None:
    # A killed agent fails in whatever it was doing; that is the point.
    with contextlib.suppress(errors.ClientError):
        await agent.run()


@contextlib.asynccontextmanager
async def fleet_on(name: str, admin: Client, agents: Client, timing: Timing = LEASE_TIMING) -> AsyncIterator[Fleet]:
    """A fleet that stands at every step there is."""
    async with tasks.TaskScope(name, on_exit=tasks.OnExit.CANCEL) as scope:
        fleet = Fleet(name, admin, agents, scope, timing)
        await fleet.deploy()
        yield fleet
    await fleet.clean_up()
