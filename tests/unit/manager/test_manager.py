"""Managers on the embedded API server: controllers that come and go with terms, and leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from fairlead.api import core_v1, wire
from fairlead.api.apiextensions_v1 import CustomResourceDefinition
from fairlead.api.meta import ObjectMeta
from fairlead.base import tasks
from fairlead.base.gates import FeatureGates
from fairlead.base.metrics import PrometheusMetrics
from fairlead.base.randomness import SeededRandomness
from fairlead.client.client import Client
from fairlead.client.informer import Handler, Informer
from fairlead.client.transport import Request, Response, StreamedResponse
from fairlead.client.workqueue import WorkQueue
from fairlead.election import LeadershipLost, Lock, TermOverrun
from fairlead.manager import Context, Controller, GroupPlan, Manager, ManagerOptions, ServedDefinition
from fairlead.manager.running import ControllersLeaked
from fairlead.testing.manifests import custom_resource_definition
from tests.unit.election.world import LOCK, Network, World


class OneTransport:
    """Lets every term have a client of its own over one network, which is closed only at the end."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.was_used = False
        self.is_open = True

    async def send(self, request: Request) -> Response:
        self.was_used = True
        return await self._network.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamedResponse]:
        self.was_used = True
        return self._network.stream(request)

    async def close(self) -> None:
        self.is_open = False


@dataclasses.dataclass
class Replica:
    manager: Manager
    task: asyncio.Task[None]
    network: Network
    metrics: PrometheusMetrics
    overruns: list[TermOverrun]
    transports: list[OneTransport]

    @property
    def leads(self) -> list[str]:
        return [group.lock.name for group in self.manager.groups if group.leadership.term is not None]


class Site:
    """Starts replicas of one manager, and ends them all."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._tasks = tasks.TaskSet("site", on_failure=lambda _: None)
        self.replicas: dict[str, Replica] = {}

    def start(
        self,
        name: str,
        *controllers: Controller,
        groups: dict[str, tuple[Controller, ...]] | None = None,
        gates: str = "",
        leader_elect: bool = True,
        shutdown_timeout_seconds: float = 10,
    ) -> Replica:
        world = self.world
        network = world.network_of(world.client(name))
        transports: list[OneTransport] = []

        def connect() -> Client:
            transports.append(OneTransport(network))
            return Client(transports[-1], clock=world.clock, randomness=SeededRandomness(f"{name}/{len(transports)}"))

        plans = groups or {LOCK.name: controllers}
        options = ManagerOptions(
            component="test-manager",
            identity=name,
            groups=tuple(
                GroupPlan(lock=Lock("kube-system", lock), controllers=members, connect=connect)
                for lock, members in plans.items()
            ),
            leader_elect=leader_elect,
            gates=FeatureGates.parse(gates),
            shutdown_timeout_seconds=shutdown_timeout_seconds,
            watchdog=False,
        )
        metrics, overruns = PrometheusMetrics(), list[TermOverrun]()
        manager = Manager(
            options,
            clock=world.clock,
            randomness=SeededRandomness(name),
            metrics=metrics,
            on_overrun=overruns.append,
        )
        task = self._tasks.start(manager.run(), name=name)
        self.replicas[name] = Replica(manager, task, network, metrics, overruns, transports)
        return self.replicas[name]

    async def until_leads(self, replica: Replica, count: int = 1) -> None:
        await self.world.until(lambda: len(replica.leads) >= count)
        await self.world.clock.settle()

    async def close(self) -> None:
        async with tasks.TaskScope("site") as scope:
            await self.world.until(scope.start(self._tasks.close(), name="close").done)


@pytest.fixture
async def site(world: World) -> AsyncIterator[Site]:
    site = Site(world)
    yield site
    await site.close()


def config_map(name: str) -> core_v1.ConfigMap:
    return core_v1.ConfigMap(metadata=ObjectMeta(name=name))


class Copier:
    """A controller as they are written: for every ConfigMap `x` there must be a Secret `x`."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0

    def controller(self, name: str = "copier") -> Controller:
        return Controller(name=name, run=self.run)

    async def run(self, context: Context) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        queue: WorkQueue[str] = context.queue()
        maps = context.client.of(core_v1.ConfigMap)
        informer = Informer(maps, namespace="default", field_selector="metadata.name!=kube-root-ca.crt")
        informer.add_handler(Handler(on_add=lambda found: queue.add(found.name)))

        async def copy(name: str) -> None:
            secret = core_v1.Secret(metadata=ObjectMeta(name=name))
            with contextlib.suppress(Exception):
                await context.client.of(core_v1.Secret).create(secret, namespace="default")

        try:
            async with informer.running():
                await context.reconcile(queue, copy)
        finally:
            self.running -= 1


async def copied(world: World) -> set[str]:
    return {secret.name for secret in (await world.admin.of(core_v1.Secret).list(namespace="default")).items}


async def test_controllers_run_in_the_leader_only(site: Site, world: World) -> None:
    copiers = [Copier(), Copier()]
    leader = site.start("a", copiers[0].controller())
    await site.until_leads(leader)
    follower = site.start("b", copiers[1].controller())
    await world.admin.of(core_v1.ConfigMap).create(config_map("x"), namespace="default")
    await world.clock.advance(5)
    assert await copied(world) == {"x"}
    assert [copier.running for copier in copiers] == [1, 0]
    # A follower has its election and nothing else: no informer, no connection of a term.
    assert sum(transport.was_used for transport in follower.transports) == 1
    assert not [task for task in tasks.live_tasks() if task.owner.startswith("informer") and "b" in task.name]


async def test_leadership_moves_and_the_loop_moves_with_it(site: Site, world: World) -> None:
    copiers = {"a": Copier(), "b": Copier()}
    replicas = {}
    for name, copier in copiers.items():
        replicas[name] = site.start(name, copier.controller())
        await world.clock.advance(2)
    for turn in range(6):
        leader, follower = (replicas["a"], replicas["b"]) if turn % 2 == 0 else (replicas["b"], replicas["a"])
        assert leader.leads == [LOCK.name]
        await world.admin.of(core_v1.ConfigMap).create(config_map(f"x{turn}"), namespace="default")
        await world.clock.advance(1)
        assert f"x{turn}" in await copied(world)
        assert leader.manager.step_down() == [str(LOCK)]
        await site.until_leads(follower)
        assert [copier.running for copier in copiers.values()] == [int(turn % 2 == 1), int(turn % 2 == 0)]
    assert all(copier.most == 1 for copier in copiers.values())
    # Every term's connections were closed with it; the elections' are still open.
    for replica in replicas.values():
        connected = [transport for transport in replica.transports if transport.is_open and transport.was_used]
        assert len(connected) == 1 + len(replica.leads)
    text = replicas["a"].metrics.exposition().decode()
    assert 'fairlead_leader_terms_total{name="kube-system/test"} 4.0' in text
    assert 'fairlead_leader_term_ends_total{name="kube-system/test",reason="yield"} 3.0' in text
    assert 'fairlead_leader_election_master_status{name="kube-system/test"} 1.0' in text


async def test_health_comes_and_goes_with_the_term(site: Site, world: World) -> None:
    leader = site.start("a", Copier().controller())
    await site.until_leads(leader)
    follower = site.start("b", Copier().controller())
    await world.clock.advance(1)
    assert leader.manager.live.names == ["ping", "leaderElection", "copier"]
    assert leader.manager.live.report_one("leaderElection").text == "ok: leads, term 0"
    assert follower.manager.live.names == ["ping", "leaderElection"]
    assert follower.manager.live.report("healthz").text == "ok"
    assert follower.manager.live.report_one("leaderElection").text == "ok: follows a"
    assert follower.manager.ready.report("readyz").status == 200
    leader.manager.step_down()
    await site.until_leads(follower)
    assert leader.manager.live.names == ["ping", "leaderElection"]
    assert follower.manager.live.names == ["ping", "leaderElection", "copier"]


async def test_the_lease_gets_events(site: Site, world: World) -> None:
    leader = site.start("a", Copier().controller())
    await site.until_leads(leader)
    await world.clock.advance(5)
    events = (await world.admin.of(core_v1.Event).list(namespace="kube-system")).items
    assert [(event.reason, event.message) for event in events] == [("LeaderElection", "a became leader")]
    assert events[0].involved_object.kind == "Lease"


def leaving(what: Callable[[], Awaitable[object]], left: list[asyncio.Task[object]]) -> Controller:
    async def run(context: Context) -> None:
        async def wait() -> object:
            return await what()

        left.append(asyncio.get_running_loop().create_task(wait(), name="left-behind"))
        await context.stopping.wait()

    return Controller(name="careless", run=run)


async def test_a_task_left_behind_is_named_counted_and_fatal(site: Site, world: World) -> None:
    left: list[asyncio.Task[object]] = []
    replica = site.start("a", leaving(asyncio.Event().wait, left))
    await site.until_leads(replica)
    replica.manager.step_down()
    await world.until(replica.task.done)
    failure = replica.task.exception()
    assert isinstance(failure, ExceptionGroup)
    assert failure.subgroup(ControllersLeaked) is not None
    assert left[0].cancelled()
    assert 'fairlead_leaks_total{kind="task"}' in replica.metrics.exposition().decode()
    # Stopped by force, it is gone, and the lease may go.
    assert (await world.record()).holder == ""


async def test_a_task_that_cannot_be_stopped_keeps_the_lease_until_the_process_ends(site: Site, world: World) -> None:
    over = asyncio.Event()

    async def stubborn() -> None:
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()

    left: list[asyncio.Task[object]] = []
    replica = site.start("a", leaving(stubborn, left))
    await site.until_leads(replica)
    replica.manager.step_down()
    await world.until(lambda: bool(replica.overruns))
    assert any("task left-behind" in name for name in replica.overruns[0].running)
    assert (await world.record()).holder == "a"
    over.set()
    await world.clock.advance(3)


async def test_leaks_are_found_after_a_lost_lease_too(site: Site, world: World) -> None:
    left: list[asyncio.Task[object]] = []
    replica = site.start("a", leaving(asyncio.Event().wait, left))
    await site.until_leads(replica)
    replica.network.cut()
    await world.until(replica.task.done)
    failure = replica.task.exception()
    assert isinstance(failure, ExceptionGroup)
    assert failure.subgroup(ControllersLeaked) is not None
    assert left[0].cancelled()


async def test_a_controller_that_fails_ends_the_process_and_frees_the_lease(site: Site, world: World) -> None:
    async def broken(_context: Context) -> None:
        raise LookupError("no such thing")

    replica = site.start("a", Controller(name="broken", run=broken), Copier().controller())
    await world.until(replica.task.done)
    failure = replica.task.exception()
    assert isinstance(failure, ExceptionGroup)
    assert failure.subgroup(LookupError) is not None
    assert (await world.record()).holder == ""


async def test_a_controller_may_end_by_itself(site: Site, world: World) -> None:
    async def once(_context: Context) -> None:
        return

    replica = site.start("a", Controller(name="once", run=once))
    await site.until_leads(replica)
    await world.clock.advance(60)
    assert replica.leads == [LOCK.name]
    assert replica.manager.live.names == ["ping", "leaderElection"]


async def test_stopping_waits_for_calls_that_hang(site: Site, world: World) -> None:
    """KEP-5366: the release waits until the controller has returned, however long the API server takes."""
    replica = site.start("a", Copier().controller(), shutdown_timeout_seconds=60)
    await site.until_leads(replica)
    replica.network.slow = lambda request: 20.0 if request.path.endswith("/secrets") else 0.0
    await world.admin.of(core_v1.ConfigMap).create(config_map("x"), namespace="default")
    await world.clock.advance(1)
    replica.task.cancel()
    await world.clock.advance(15)
    assert (await world.record()).holder == "a"
    assert await copied(world) == set()
    await world.until(replica.task.done)
    assert await copied(world) == {"x"}
    assert (await world.record()).holder == ""


async def test_without_an_election_everything_runs_at_once(site: Site, world: World) -> None:
    copier = Copier()
    replica = site.start("a", copier.controller(), leader_elect=False)
    await world.admin.of(core_v1.ConfigMap).create(config_map("x"), namespace="default")
    await world.clock.advance(1)
    assert await copied(world) == {"x"}
    assert replica.manager.live.names == ["ping", "copier"]
    replica.task.cancel()
    await world.until(replica.task.done)
    assert replica.task.cancelled()
    assert copier.running == 0


async def test_with_the_gate_off_a_lost_lease_ends_the_process(site: Site, world: World) -> None:
    replica = site.start("a", Copier().controller(), gates="GracefulLeaderTransition=false")
    await site.until_leads(replica)
    replica.network.cut()
    await world.until(replica.task.done)
    failure = replica.task.exception()
    assert isinstance(failure, ExceptionGroup)
    assert failure.subgroup(LeadershipLost) is not None


async def test_with_the_gate_off_the_lease_is_left_to_expire(site: Site, world: World) -> None:
    gates = "ControllerManagerReleaseLeaderElectionLockOnExit=false"
    replica = site.start("a", Copier().controller(), gates=gates)
    await site.until_leads(replica)
    replica.task.cancel()
    await world.until(replica.task.done)
    assert (await world.record()).holder == "a"


async def test_locks_are_spread_over_replicas(site: Site, world: World) -> None:
    def groups() -> dict[str, tuple[Controller, ...]]:
        return {f"g{number}": (Copier().controller(f"c{number}"),) for number in range(4)}

    first = site.start("a", groups=groups())
    await site.until_leads(first, 4)
    second = site.start("b", groups=groups())
    await world.clock.advance(120)
    assert len(first.leads) == len(second.leads) == 2
    # When one is gone, the other has them all at once.
    second.task.cancel()
    await world.until(second.task.done)
    await world.clock.advance(1)
    assert len(first.leads) == 4


async def test_a_controller_runs_while_its_resource_is_served(site: Site, world: World) -> None:
    copier = Copier()
    controller = Controller(name="copier", run=copier.run, present=ServedDefinition("widgets.example.com"))
    replica = site.start("a", controller)
    await site.until_leads(replica)
    definitions = world.admin.of(CustomResourceDefinition)
    manifest = custom_resource_definition("widgets", "example.com", kind="Widget")
    for _ in range(3):
        await world.clock.advance(5)
        assert copier.running == 0
        assert replica.manager.live.names == ["ping", "leaderElection"]
        await definitions.create(wire.from_dict(CustomResourceDefinition, manifest))
        await world.clock.advance(5)
        assert copier.running == 1
        assert replica.manager.live.names == ["ping", "leaderElection", "copier"]
        await definitions.delete("widgets.example.com")
    await world.clock.advance(5)
    assert (copier.running, copier.most) == (0, 1)
    assert replica.leads == [LOCK.name]
