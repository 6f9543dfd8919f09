"""An API server, a node, a driver and agents that can be killed at any request: all in one process, on virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import pathlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Literal

from kube_fairlead.agent.agent import Agent, AgentOptions
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import (
    LifecycleEvent,
    LifecycleEventSpec,
    LifecycleTransition,
    LifecycleTransitionSpec,
)
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.claimant.driver_directory import Registration
from kube_fairlead.client import errors
from kube_fairlead.client.client import Client
from kube_fairlead.client.inprocess import InProcessTransport
from kube_fairlead.client.transport import Request, Response, StreamedResponse, Transport
from kube_fairlead.client.watch import Change, ChangeType
from kube_fairlead.driverapi.channels import DriverChannel, RegistrationChannel
from kube_fairlead.driverapi.errors import DriverGone
from kube_fairlead.driverapi.memory_channel import MemoryChannel
from kube_fairlead.driverapi.messages import OfferedTransition, Progress, Reached, Work
from kube_fairlead.drivers import sdk
from kube_fairlead.drivers.sdk.service import Service
from kube_fairlead.lifecycle.facts import Settings
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.server import ApiServer
from tests.inprocess import serving

NODE = "node-1"
DRIVER = "example.com/reboot"
OFFERED = OfferedTransition(name="reboot", start="Rebooting", end="Rebooted")
When = Literal["before", "after"]


class Deed(sdk.Driver):
    """A driver whose work can be watched, held up and refused. Its effects are what must not happen twice."""

    name = DRIVER
    transitions = (OFFERED,)

    def __init__(self, on_start: Callable[[sdk.Work], None] = lambda _work: None) -> None:
        self.effects: list[str] = []
        self.calls: list[str] = []
        self.works: list[sdk.Work] = []
        self.refusal: dict[str, str] = {}
        self.hold = {"start": asyncio.Event(), "end": asyncio.Event()}
        for event in self.hold.values():
            event.set()
        self.answering = asyncio.Event()
        self.answering.set()
        self.progress: list[Progress] = []
        self.on_start = on_start
        self.under_way = 0
        self.most_at_once = 0

    def hold_questions(self) -> None:
        """As a process that is stopped: it accepts connections and answers nothing."""
        self.answering.clear()

    def answer_questions(self) -> None:
        """As a process that continues."""
        self.answering.set()

    async def start(self, work: sdk.Work) -> None:
        await self._do("start", work)

    async def end(self, work: sdk.Work, report: sdk.Report) -> None:
        for progress in self.progress:
            report(progress)
        await self._do("end", work)

    async def _do(self, step: str, work: sdk.Work) -> None:
        self.works.append(work)
        self.calls.append(f"{step} {work.event_name}")
        if step == "start":
            self.on_start(work)
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        try:
            await self.hold[step].wait()
        finally:
            self.under_way -= 1
        if step in self.refusal:
            raise sdk.Refused(self.refusal[step])
        self.effects.append(f"{step} {work.event_name}")


class Line(MemoryChannel):
    """A channel to a driver that can be cut: calls that are under way end as when the driver's process dies."""

    def __init__(self, driver: Deed, clock: VirtualClock) -> None:
        super().__init__(Service(driver, clock))
        self.heal_after_seconds: float | None = None
        self._driver = driver
        self._clock = clock
        self._cut = asyncio.Event()

    def break_off(self) -> None:
        """The driver's process dies."""
        self.connected = False
        self._cut.set()
        self._cut = asyncio.Event()

    async def get_transitions(self, node_name: str) -> Sequence[OfferedTransition]:
        if not self.connected and self.heal_after_seconds is not None:
            await self._clock.sleep(self.heal_after_seconds)
            self.connected = True
        await self._driver.answering.wait()
        return await super().get_transitions(node_name)

    async def start(self, work: Work, *, timeout_seconds: float | None = None) -> Reached:
        return await self._until_cut(super().start(work, timeout_seconds=timeout_seconds))

    async def end(
        self, work: Work, on_progress: Callable[[Progress], None], *, timeout_seconds: float | None = None
    ) -> Reached:
        return await self._until_cut(super().end(work, on_progress, timeout_seconds=timeout_seconds))

    async def _until_cut(self, call: Coroutine[Any, Any, Reached]) -> Reached:
        async with tasks.TaskScope("line", on_exit=tasks.OnExit.CANCEL) as scope:
            cut = scope.start(self._cut.wait(), name="cut")
            answer = scope.start(_outcome(call), name="call")
            await asyncio.wait([cut, answer], return_when=asyncio.FIRST_COMPLETED)
            if cut.done():
                raise DriverGone("the driver is not connected")
            result = answer.result()
            if isinstance(result, Exception):
                raise result
            return result


async def _outcome(call: Coroutine[Any, Any, Reached]) -> Reached | Exception:
    try:
        return await call
    except Exception as error:  # noqa: BLE001 - it is raised where the answer is waited for
        return error


class Mortal:
    """A transport that dies at a request of its choice: from then on nothing goes through."""

    def __init__(self, inner: Transport, clock: VirtualClock) -> None:
        self.inner = inner
        self.clock = clock
        self.fate: Callable[[Request, When], bool] = lambda _request, _when: False
        self.died = asyncio.Event()
        self.is_down = False  # the server's fault; it may come back
        self.writes: list[str] = []
        self._went_down = asyncio.Event()

    def go_down(self) -> None:
        """The server is gone, and with it every connection."""
        self.is_down = True
        self._went_down.set()
        self._went_down = asyncio.Event()

    async def send(self, request: Request) -> Response:
        self._meet(request, "before")
        if self.is_down:
            await self.clock.sleep(0.05)
            raise errors.ServerUnreachable("the server is down")
        response = await self.inner.send(request)
        if request.method != "GET":
            self.writes.append(f"{request.method} {request.path} {response.status}")
        self._meet(request, "after")
        if self.is_down:
            raise errors.ConnectionBroken("the server went down before it answered")
        return response

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamedResponse]:
        if self.died.is_set() or self.is_down:
            raise errors.ServerUnreachable("the server is down")
        went_down = self._went_down
        async with self.inner.stream(request) as response:
            yield _Breakable(response, went_down)

    async def close(self) -> None:
        await self.inner.close()

    def _meet(self, request: Request, when: When) -> None:
        if self.fate(request, when):
            self.died.set()
        if self.died.is_set():
            raise errors.ConnectionBroken("dead")


class _Breakable:
    """An answer without end, until the server goes down."""

    def __init__(self, inner: StreamedResponse, went_down: asyncio.Event) -> None:
        self._inner = inner
        self._went_down = went_down
        self.status = inner.status
        self.headers = inner.headers

    async def read(self) -> bytes:
        return await self._inner.read()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with contextlib.aclosing(self._inner.chunks()) as chunks:
            while True:
                chunk = asyncio.ensure_future(anext(chunks, None))
                down = asyncio.ensure_future(self._went_down.wait())
                try:
                    await asyncio.wait([chunk, down], return_when=asyncio.FIRST_COMPLETED)
                    if down.done():
                        raise errors.ConnectionBroken("the server went down")
                    got = chunk.result()
                finally:
                    for waiting in (chunk, down):
                        waiting.cancel()
                    await asyncio.wait([chunk, down])
                if got is None:
                    return
                yield got


class NoChannels:
    """For agents whose drivers are all inside the process."""

    def registration(self, path: str) -> RegistrationChannel:
        raise NotImplementedError(path)

    def driver(self, path: str) -> DriverChannel:
        raise NotImplementedError(path)


@dataclasses.dataclass(eq=False)
class RunningAgent:
    """One life of an agent."""

    agent: Agent
    transport: Mortal
    task: asyncio.Task[None]

    async def kill(self) -> None:
        """As kill -9: the agent sends nothing more."""
        self.transport.died.set()
        await self.stop()

    async def stop(self) -> None:
        """As SIGTERM. Time passes meanwhile."""
        self.task.cancel()
        while not self.task.done():
            await self.transport.clock.advance(0.01)


class World:
    def __init__(self, server: ApiServer, clock: VirtualClock, scope: tasks.TaskScope) -> None:
        self.server = server
        self.clock = clock
        self.scope = scope
        self.admin = self.client(self._in_process("admin", "system:masters"))
        self.events = self.admin.of(LifecycleEvent)
        self.nodes = self.admin.of(Node)
        self.driver = Deed()
        self.service = Service(self.driver, clock)
        self.channel = Line(self.driver, clock)
        self.settings = Settings()
        self.history: list[tuple[str, str]] = []  # (event, what a watcher saw)
        self.reasons: list[str] = []
        self.agents: list[RunningAgent] = []

    def _in_process(self, user: str, *groups: str) -> InProcessTransport:
        who = UserInfo(name=user, groups=(*groups, "system:authenticated"))
        return InProcessTransport(self.server.app, clock=self.clock, extensions={"fairlead": {"user": who}})

    def client(self, transport: Transport) -> Client:
        return Client(transport, clock=self.clock, randomness=SeededRandomness(1))

    async def set_up(self, *, sla: str | None = None) -> None:
        await self.nodes.create(Node(metadata=ObjectMeta(name=NODE, labels={"zone": "a"})))
        await self.offer(OFFERED.name, sla=sla)
        self.scope.start(self._watch(), name="watch")
        await self.clock.settle()

    async def offer(self, name: str, **changes: object) -> None:
        spec = LifecycleTransitionSpec(start=OFFERED.start, end=OFFERED.end, driver=DRIVER, all_nodes=True)
        transition = LifecycleTransition(metadata=ObjectMeta(name=name), spec=wire.replace(spec, **changes))
        await self.admin.of(LifecycleTransition).create(transition)

    def start_agent(
        self, *, identity: str = "agent", registered: bool = True, fate: Callable[[Request, When], bool] | None = None
    ) -> RunningAgent:
        transport = Mortal(self._in_process("agent", "system:masters"), self.clock)
        if fate is not None:
            transport.fate = fate
        options = AgentOptions(node_name=NODE, identity=identity, settings=self.settings)
        agent = Agent(self.client(transport), options, NoChannels(), DiscardedMetrics())
        if registered:
            self.register(agent)
        task = self.scope.start(_survive(agent.run()), name=f"agent-{len(self.agents)}")
        self.agents.append(RunningAgent(agent, transport, task))
        return self.agents[-1]

    def register(self, agent: Agent) -> Registration:
        registration = Registration(driver=DRIVER, endpoint="", owner=0, channel=self.channel, transitions=(OFFERED,))
        agent.directory.add(registration)
        return registration

    def use(self, driver: Deed) -> None:
        """Another driver in place of the first."""
        self.driver = driver
        self.service = Service(driver, self.clock)
        self.channel = Line(driver, self.clock)

    async def create(self, name: str = "e", transition: str = OFFERED.name, **metadata: object) -> LifecycleEvent:
        return await self.events.create(
            LifecycleEvent(
                metadata=wire.replace(ObjectMeta(name=name), **metadata),
                spec=LifecycleEventSpec(transition_name=transition, binding_node=NODE),
            )
        )

    async def node(self) -> Node:
        return await self.nodes.get(NODE)

    def seen(self, name: str = "e") -> list[str]:
        """What a watcher saw of an event, each change once."""
        return [what for event, what in self.history if event == name]

    async def _watch(self) -> None:
        page = await self.events.list()
        nodes = await self.nodes.list()
        async with tasks.TaskScope("watch") as scope:
            scope.start(self._watch_events(page.resource_version), name="events")
            scope.start(self._watch_nodes(nodes.resource_version), name="nodes")

    async def _watch_events(self, version: str) -> None:
        async with self.events.follow(resource_version=version) as changes:
            async for change in changes:
                if not isinstance(change, Change):
                    continue
                item = change.object
                what = "gone" if change.type is ChangeType.DELETED else str(item.claim_status)
                if self.seen(item.name)[-1:] != [what]:
                    self.history.append((item.name, what))

    async def _watch_nodes(self, version: str) -> None:
        async with self.nodes.follow(resource_version=version) as changes:
            async for change in changes:
                if not isinstance(change, Change):
                    continue
                condition = change.object.condition(CONDITION_LIFECYCLE_TRANSITION)
                if condition is not None and self.reasons[-1:] != [condition.reason]:
                    self.reasons.append(condition.reason)


async def _survive(running: object) -> None:
    # A killed agent fails in whatever it was doing; that is the point.
    with contextlib.suppress(errors.ClientError):
        await running  # type: ignore[misc]  # any coroutine


@contextlib.asynccontextmanager
async def a_world(folder: pathlib.Path, *, sla: str | None = None) -> AsyncIterator[World]:
    clock = VirtualClock(dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC))
    async with serving(folder, clock) as server, tasks.TaskScope("agents", on_exit=tasks.OnExit.CANCEL) as agents:
        made = World(server, clock, agents)
        await made.set_up(sla=sla)
        try:
            yield made
        finally:
            for agent in made.agents:
                await agent.stop()
