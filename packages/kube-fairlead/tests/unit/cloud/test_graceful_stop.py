from __future__ import annotations

import asyncio

from kube_fairlead.api.core_v1 import Service, ServicePort, ServiceSpec
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base import tasks
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.cloud.assembly import CloudManager, CloudSettings
from kube_fairlead.cloud.errors import CloudUnavailable
from kube_fairlead.cloud.providers.fake import FakeCloud
from tests.unit.cloud.world import UNINITIALIZED, World, node

ALL = CloudSettings(controllers=["*", "route", "service"], cluster_cidr="10.244.0.0/16")


async def populate(world: World) -> None:
    await world.create(node("new", taints=[UNINITIALIZED], pod_cidrs=["10.244.1.0/24"]))
    await world.create(node("old", "aws://old", ready="False", pod_cidrs=["10.244.2.0/24"]))
    port = ServicePort(port=80, protocol="TCP", node_port=30080)
    web = ServiceSpec(type="LoadBalancer", ports=(port,))
    await world.admin.of(Service).create(Service(metadata=ObjectMeta(name="web", namespace="default"), spec=web))


async def test_what_is_in_hand_is_finished_and_nothing_else_is_begun(world: World) -> None:
    cloud = FakeCloud("aws", clock=world.clock, latency_seconds=4)
    cloud.add("new")
    cloud.add("old")
    await populate(world)
    stopping = asyncio.Event()
    async with tasks.TaskScope("test") as scope:
        manager = CloudManager(cloud, frozenset({"aws"}), ALL)
        run = scope.start(manager.run(world.manager, DiscardedMetrics(), stopping), name="manager")
        await world.clock.advance(5)  # which nodes are its own has been asked
        begun = list(cloud.calls)
        stopping.set()
        await world.clock.advance(1)
        assert not run.done()  # a load balancer is being made; questions were given up
        assert cloud.balancers == {}
        await world.clock.advance(3)
        assert run.done()
    assert cloud.balancers == {"default/web": ("old",)}
    assert cloud.calls == begun
    assert tasks.live_tasks("cloud-controller-manager") == ()


async def test_an_outage_does_not_hold_up_the_end(world: World) -> None:
    cloud = FakeCloud("aws")
    cloud.failure = CloudUnavailable("down")
    await populate(world)
    stopping = asyncio.Event()
    async with tasks.TaskScope("test") as scope:
        manager = CloudManager(cloud, frozenset({"aws"}), ALL)
        run = scope.start(manager.run(world.manager, DiscardedMetrics(), stopping), name="manager")
        await world.clock.advance(600)
        stopping.set()
        await world.clock.advance(3)
        assert run.done()


async def test_an_api_server_that_is_out_of_reach_does_not_hold_up_the_end(world: World) -> None:
    stopping = asyncio.Event()
    await world.manager.close()
    async with tasks.TaskScope("test") as scope:
        manager = CloudManager(FakeCloud("aws"), frozenset({"aws"}), ALL)
        run = scope.start(manager.run(world.manager, DiscardedMetrics(), stopping), name="manager")
        await world.clock.advance(60)
        stopping.set()
        await world.clock.advance(3)
        assert run.done()
