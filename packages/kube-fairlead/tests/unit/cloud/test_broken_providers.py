"""The whole manager on a provider that breaks its protocol: nothing is deleted, nothing ends, and it comes back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from kube_fairlead.api.core_v1 import Node, Service, ServicePort, ServiceSpec
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base import tasks
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.cloud.assembly import CloudManager, CloudSettings
from kube_fairlead.cloud.cluster import Cluster
from kube_fairlead.cloud.errors import CloudUnavailable
from kube_fairlead.cloud.providers.fake import FakeCloud
from tests.unit.cloud.world import UNINITIALIZED, World, node
from tests.unit.cloud.wrong import RIGHT, answering, methods, raising

NAMES = sorted({method.__name__ for method in methods()})
# What decides whether a node is deleted.
OF_DELETION = {"describe", "exists", "which_exist", "recognises"}
# What a provider answers without its cloud.
AT_ONCE = {"recognises", "get_load_balancer_name"}
# What promises to return nothing.
CHANGES = {method.__name__ for method, answer in RIGHT.items() if answer is None}
BREAKAGES: list[Callable[[], Awaitable[Any]]] = [
    answering({"n1": None}),
    raising(ValueError("bad")),
    raising(SystemExit(3)),
    raising(asyncio.CancelledError()),
]


class Breakable(FakeCloud):
    """A cloud one of whose methods can be broken."""

    def __init__(self) -> None:
        super().__init__("aws", name="aws")
        self.zones = self
        self.broken = ""
        self.how: Callable[[], Awaitable[Any]] = answering(None)
        self.asked = 0  # of the broken method

    def __getattribute__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "__dict__").get("broken"):
            self.asked += 1
            return self._breaks_at_once if name in AT_ONCE else self._breaks
        return super().__getattribute__(name)

    async def _breaks(self, *_arguments: object) -> Any:
        return await self.how()

    def _breaks_at_once(self, *_arguments: object) -> Any:
        made = self.how()
        assert asyncio.iscoroutine(made)
        try:
            made.send(None)
        except StopIteration as answer:
            return answer.value


class AboutMany(Breakable):
    """One that can say of many machines at once whether they are gone."""

    async def which_exist(self, nodes: Mapping[str, Node]) -> Mapping[str, bool]:
        return {one: await self.exists(one, node) for one, node in nodes.items()}


def service(name: str) -> Service:
    port = ServicePort(port=80, protocol="TCP")
    return Service(
        metadata=ObjectMeta(name=name, namespace="default"), spec=ServiceSpec(type="LoadBalancer", ports=(port,))
    )


async def join(world: World, cloud: FakeCloud, number: int, **more: Any) -> None:
    name = f"n{number}"
    cloud.add(name)
    await world.create(node(name, pod_cidrs=[f"10.244.{number}.0/24"], taints=[UNINITIALIZED], **more))


@pytest.mark.parametrize("broken", NAMES)
async def test_a_provider_that_breaks_its_protocol(world: World, broken: str) -> None:
    cloud = AboutMany() if broken == "which_exist" else Breakable()
    settings = CloudSettings(controllers=["*", "route", "service"], cluster_cidr="10.244.0.0/16")
    manager = CloudManager(cloud, frozenset({"aws"}), settings)
    for number in range(1, 5):
        await join(world, cloud, number)
    await world.admin.of(Service).create(service("old"))
    stopping = asyncio.Event()
    async with tasks.TaskScope("test") as scope:
        running = scope.start(manager.run(world.manager, DiscardedMetrics(), stopping), name="manager")
        await world.clock.advance(20)
        assert len(cloud.table) == 4
        assert cloud.balancers == {"default/old": ("n1", "n2", "n3", "n4")}
        cloud.broken = broken
        # Something to do for every method: machines and nodes that come and go, Services that come and go.
        cloud.remove("n1")
        await world.set_ready("n1", "Unknown")
        await world.admin.of(Node).delete("n2")
        await join(world, cloud, 9)
        await world.admin.of(Service).create(service("new"))
        await world.admin.of(Service).delete("old", namespace="default")
        for how in (answering(False if broken in CHANGES else None), *BREAKAGES):
            cloud.how, before = how, cloud.asked
            await world.clock.advance(70)
            assert not running.done()
            if broken in OF_DELETION:
                assert "n1" in await world.names()
            assert cloud.asked > 0
            # At most as the pauses allow: they grow to a minute. To look at an id's form is no question to the cloud.
            assert broken in AT_ONCE or cloud.asked - before <= 12
        cloud.broken = ""
        # The slowest to come back is a Service, whose own pauses grow to five minutes.
        await world.clock.advance(400)
        assert await world.names() == {"n3", "n4", "n9"}
        assert (await world.get("n9")).spec.provider_id == "aws://n9"
        assert {route.target_node for route in cloud.table} == {"n3", "n4", "n9"}
        assert {key: set(names) for key, names in cloud.balancers.items()} == {"default/new": {"n3", "n4", "n9"}}
        stopping.set()


@pytest.mark.parametrize("empty", [True, False])
async def test_questions_about_nothing_end_no_pause(world: World, empty: bool) -> None:
    """Nothing is missing, and the machines that are asked about cannot be told: the pauses grow all the same."""
    cloud = AboutMany()
    asked: list[float] = []

    async def down() -> Any:
        asked.append(world.clock.monotonic())
        raise CloudUnavailable("down")

    cloud.broken, cloud.how = "describe", down
    await world.create(node("n1", "aws://n1", ready="False"))
    if not empty:
        await world.create(node("n2", taints=[UNINITIALIZED]))
    settings = CloudSettings(controllers=["cloud-node-lifecycle", *([] if empty else ["cloud-node"])])
    manager = CloudManager(cloud, frozenset({"aws"}), settings)
    stopping = asyncio.Event()
    async with tasks.TaskScope("test") as scope:
        scope.start(manager.run(world.manager, DiscardedMetrics(), stopping), name="manager")
        await world.clock.advance(1200)
        stopping.set()
    assert 18 <= len(asked) <= 30  # one a minute, once the pauses have grown


class Unsteady(FakeCloud):
    """A cloud whose block fails when it is entered, in a task of its own, or when it is left."""

    def __init__(self, failures: list[BaseException | None], *, when: str) -> None:
        super().__init__("aws", name="aws")
        self.failures = failures
        self.when = when
        self.fail = asyncio.Event()
        self.entered = 0

    def running(self, cluster: Cluster) -> Any:
        del cluster
        return None if self.when == "promise" and self._next() else self._block()

    def _next(self) -> BaseException | None:
        return self.failures.pop(0) if self.failures else None

    @contextlib.asynccontextmanager
    async def _block(self) -> AsyncIterator[None]:
        self.entered += 1
        if self.when == "enter" and (failure := self._next()):
            raise failure
        async with asyncio.TaskGroup() as group:  # as an author of a plug-in would
            task = group.create_task(self._background())
            try:
                yield
            finally:
                task.cancel()
                if self.when == "leave" and (failure := self._next()):
                    raise failure

    async def _background(self) -> None:
        await self.fail.wait()
        self.fail.clear()
        if self.when == "background" and (failure := self._next()):
            raise failure


@pytest.mark.parametrize("when", ["promise", "enter", "background", "leave"])
async def test_a_block_that_fails_is_entered_again(world: World, when: str) -> None:
    cloud = Unsteady([ValueError("one"), RuntimeError("two"), KeyError("three")], when=when)
    cloud.add("n1")
    await world.create(node("n1", taints=[UNINITIALIZED]))
    manager = CloudManager(cloud, frozenset({"aws"}), CloudSettings())
    stopping = asyncio.Event()
    async with tasks.TaskScope("test") as scope:
        running = scope.start(manager.run(world.manager, DiscardedMetrics(), stopping), name="manager")
        for _ in range(3):
            await world.clock.advance(15)
            cloud.fail.set()
        await world.clock.advance(15)
        assert not running.done()
        assert (await world.get("n1")).spec.provider_id == "aws://n1"
        cloud.add("n2")
        await world.create(node("n2", taints=[UNINITIALIZED]))
        await world.clock.advance(15)
        assert (await world.get("n2")).spec.provider_id == "aws://n2"
        stopping.set()
        await world.clock.advance(10)
    assert cloud.entered == {"promise": 1, "enter": 4, "background": 4, "leave": 1}[when]
    assert tasks.live_tasks("cloud-controller-manager") == ()


async def test_a_failure_of_our_own_is_not_the_providers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = Unsteady([], when="never")
    manager = CloudManager(cloud, frozenset({"aws"}), CloudSettings())

    def broken(*_arguments: object) -> list[Any]:
        raise LookupError("ours")

    monkeypatch.setattr(manager, "_make", broken)
    with pytest.raises(LookupError, match="ours"):
        await manager.run(world.manager, DiscardedMetrics(), asyncio.Event())
    assert cloud.entered == 1
