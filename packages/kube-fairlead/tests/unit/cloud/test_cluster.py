"""What a provider is given to read of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kube_fairlead.api.core_v1 import Node, Secret, Service, ServicePort, ServiceSpec
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client.client import Client
from kube_fairlead.client.errors import ServerUnreachable
from kube_fairlead.client.inprocess import InProcessTransport
from kube_fairlead.client.retry import NEVER
from kube_fairlead.client.transport import Request, Response
from kube_fairlead.client.watch import ChangeType
from kube_fairlead.cloud.assembly import CloudManager, CloudSettings
from kube_fairlead.cloud.cluster import ReadOnlyCluster
from kube_fairlead.cloud.errors import CloudRefused, CloudUnavailable
from kube_fairlead.cloud.provider import Instance, InstanceQuery
from kube_fairlead.cloud.providers.fake import FakeCloud
from kube_fairlead_apiserver.attributes import UserInfo
from tests.unit.cloud.world import UNINITIALIZED, World, node


async def test_nodes_services_and_secrets(world: World) -> None:
    await world.create(node("n1", "aws://1", labels={"rack": "7"}))
    await world.create(node("n2", "aws://2"))
    spec = ServiceSpec(ports=(ServicePort(port=80, protocol="TCP"),))
    await world.admin.of(Service).create(Service(metadata=ObjectMeta(name="web", namespace="default"), spec=spec))
    token = Secret(metadata=ObjectMeta(name="token", namespace="default"), string_data={"token": "t"})
    await world.admin.of(Secret).create(token)
    cluster = ReadOnlyCluster(world.manager)
    assert [one.name for one in await cluster.nodes.list(label_selector="rack=7")] == ["n1"]
    found = await cluster.nodes.get("n2")
    assert found is not None
    assert found.spec.provider_id == "aws://2"
    assert await cluster.nodes.get("n3") is None
    assert [one.name for one in await cluster.services.list()] == ["kubernetes", "web"]
    secret = await cluster.secrets.get("token", namespace="default")
    assert secret is not None
    assert secret.data == {"token": "dA=="}


async def test_a_watch_begins_with_what_there_is(world: World) -> None:
    await world.create(node("n1"))
    cluster = ReadOnlyCluster(world.manager)
    async with cluster.nodes.watch() as changes:
        first = await anext(changes)
        assert (first.type, first.object.name) == (ChangeType.ADDED, "n1")
        await world.admin.of(Node).delete("n1")
        last = await anext(changes)
        assert (last.type, last.object.name) == (ChangeType.DELETED, "n1")


async def test_what_is_not_granted_is_refused(world: World) -> None:
    who = UserInfo(name="stranger", groups=("system:authenticated",))
    transport = InProcessTransport(world.server.app, clock=world.clock, extensions={"fairlead": {"user": who}})
    async with Client(transport, clock=world.clock, randomness=SeededRandomness(1)) as client:
        cluster = ReadOnlyCluster(client)
        with pytest.raises(CloudRefused, match=r"cannot get secrets token: .*cannot get resource"):
            await cluster.secrets.get("token", namespace="default")
        with pytest.raises(CloudRefused, match="cannot list nodes"):
            await cluster.nodes.list()
        async with cluster.nodes.watch() as changes:
            with pytest.raises(CloudRefused, match="cannot watch nodes"):
                await anext(changes)
    with pytest.raises(CloudRefused, match="cannot list nodes"):
        await ReadOnlyCluster(world.manager).nodes.list(label_selector="=,=")


class Silent:
    """A server that nobody reaches."""

    async def send(self, request: Request) -> Response:
        raise ServerUnreachable(f"no route for {request.path}")

    def stream(self, request: Request) -> Any:
        raise ServerUnreachable(f"no route for {request.path}")

    async def close(self) -> None:
        """Nothing to close."""


async def test_what_is_not_answered_is_no_answer() -> None:
    client = Client(Silent(), clock=RealClock(), randomness=SeededRandomness(1)).with_retry(NEVER)
    with pytest.raises(CloudUnavailable, match=r"cannot list services: no route"):
        await ReadOnlyCluster(client).services.list()


class Reader(FakeCloud):
    """A cloud that knows its machines by a label, and looks at the cluster to see which are there."""

    async def describe(self, queries: Sequence[InstanceQuery]) -> Mapping[InstanceQuery, Instance]:
        assert self.cluster is not None
        self.seen = [one.name for one in await self.cluster.nodes.list()]
        by_rack = {one.node.metadata.labels["rack"]: one for one in queries}
        machine = self.machines["rack-7"]
        return {by_rack["7"]: machine} if "7" in by_rack else {}


async def test_a_provider_gets_the_node_and_the_cluster(world: World) -> None:
    cloud = Reader("aws", name="aws")
    cloud.add("rack-7", "aws://7")
    await world.create(node("n1", taints=[UNINITIALIZED], labels={"rack": "7"}))
    manager = CloudManager(cloud, frozenset({"aws"}), CloudSettings(controllers=["cloud-node"]))
    stopping = asyncio.Event()
    async with tasks.TaskScope("test") as scope:
        scope.start(manager.run(world.manager, DiscardedMetrics(), stopping), name="manager")
        await world.clock.advance(5)
        assert (await world.get("n1")).spec.provider_id == "aws://7"
        assert cloud.seen == ["n1"]
        stopping.set()
