from __future__ import annotations

import asyncio

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node, Service, ServicePort, ServiceSpec
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base import tasks
from kube_fairlead.base.metrics import DiscardedMetrics, PrometheusMetrics
from kube_fairlead.cloud.assembly import CONTROLLERS, CloudManager, CloudSettings, enabled_controllers
from kube_fairlead.cloud.errors import ProviderError
from kube_fairlead.cloud.providers.fake import FakeCloud
from kube_fairlead.election import Lock, Term, guarded
from tests.unit.cloud.world import UNINITIALIZED, World, node

NODE, LIFECYCLE, ROUTE, SERVICE = [known.name for known in CONTROLLERS]


@pytest.mark.parametrize(
    ("asked", "hybrid", "expected"),
    [
        (["*"], False, [NODE, LIFECYCLE, ROUTE, SERVICE]),
        (["*"], True, [NODE, LIFECYCLE]),
        (["*", "service"], True, [NODE, LIFECYCLE, SERVICE]),
        (["*", "node-route-controller", "service-lb-controller"], True, [NODE, LIFECYCLE, ROUTE, SERVICE]),
        (["*", "-cloud-node-lifecycle"], True, [NODE]),
        (["*", "-route", "-service"], False, [NODE, LIFECYCLE]),
        (["cloud-node"], False, [NODE]),
        (["service", "-service"], False, [SERVICE]),  # the first counts
        (["-service", "service"], False, []),
        ([], False, []),
    ],
)
def test_which_controllers_run(asked: list[str], hybrid: bool, expected: list[str]) -> None:
    assert enabled_controllers(asked, hybrid=hybrid) == expected


def test_an_unknown_controller_is_refused() -> None:
    with pytest.raises(ProviderError, match="--controllers: -nonsense is not known; known are cloud-node-controller"):
        enabled_controllers(["*", "-nonsense"], hybrid=True)


def test_what_cannot_work_is_refused_at_the_start() -> None:
    cloud = FakeCloud("aws", name="tiny")
    with pytest.raises(ProviderError, match="node-route-controller needs --cluster-cidr"):
        CloudManager(cloud, frozenset(), CloudSettings())
    cloud.routes = None
    with pytest.raises(
        ProviderError, match=r"cloud provider tiny does not support routes; .*=\*,-node-route-controller"
    ):
        CloudManager(cloud, frozenset(), CloudSettings(cluster_cidr="10.0.0.0/8"))
    off = CloudManager(cloud, frozenset(), CloudSettings(configure_cloud_routes=False))
    assert off.controllers == [NODE, LIFECYCLE, SERVICE]
    cloud.instances = None
    with pytest.raises(ProviderError, match="does not support instances"):
        CloudManager(cloud, frozenset({"aws"}), CloudSettings())


async def test_the_whole_manager(world: World) -> None:
    cloud, metrics = FakeCloud("aws", name="aws"), PrometheusMetrics()
    cloud.add("n1")
    cloud.add("n2")
    settings = CloudSettings(controllers=["*", "route", "service"], cluster_cidr="10.244.0.0/16")
    manager = CloudManager(cloud, frozenset({"aws"}), settings)
    for name, cidr in (("n1", "10.244.1.0/24"), ("n2", "10.244.2.0/24")):
        await world.create(node(name, taints=[UNINITIALIZED], pod_cidrs=[cidr]))
    await world.create(node("foreign", "gce://f", ready="False", pod_cidrs=["10.244.3.0/24"]))
    port = ServicePort(port=80, protocol="TCP", node_port=30080)
    web = Service(
        metadata=ObjectMeta(name="web", namespace="default"), spec=ServiceSpec(type="LoadBalancer", ports=(port,))
    )
    await world.admin.of(Service).create(web)
    stopping = asyncio.Event()
    async with tasks.TaskScope("test") as scope:
        scope.start(manager.run(world.manager, metrics, stopping), name="manager")
        await world.clock.advance(15)
        assert cloud.balancers == {"default/web": ("n1", "n2")}
        assert len(cloud.table) == 2
        assert 'fairlead_cloud_nodes{ownership="Owned",platform="aws"} 2.0' in metrics.exposition().decode()
        cloud.remove("n1")
        await world.set_ready("n1", "Unknown")
        await world.clock.advance(20)
        with pytest.raises(api_errors.NotFound):
            await world.admin.of(Node).get("n1")
        assert cloud.balancers == {"default/web": ("n2",)}
        assert [route.target_node for route in cloud.table] == ["n2"]
        stopping.set()
    assert not any("foreign" in path for path in world.written)
    assert tasks.live_tasks("cloud-controller-manager") == ()


async def test_a_manager_that_cannot_rely_on_its_lease_changes_nothing_in_the_cloud(world: World) -> None:
    reliable = True
    term = Term(Lock("kube-system", "ccm"), identity="x", number=0, clock=world.clock, is_reliable=lambda: reliable)
    cloud = FakeCloud("aws", name="aws")
    settings = CloudSettings(controllers=["route"], cluster_cidr="10.244.0.0/16")
    manager = CloudManager(cloud, frozenset({"aws"}), settings)
    cloud.add("n1", "aws://1")
    await world.create(node("n1", "aws://1", pod_cidrs=["10.244.1.0/24"]))
    failures: list[BaseException] = []
    owned = tasks.TaskSet("test", on_failure=failures.append)
    owned.start(
        manager.run(guarded(world.manager, term), DiscardedMetrics(), term.stopping, check=term.check), name="manager"
    )
    await world.clock.advance(1)
    assert len(cloud.table) == 1
    reliable = False  # it slept past its lease, and nobody has told the controllers yet
    await world.admin.of(Node).delete("n1")
    await world.clock.advance(30)
    assert cloud.count("delete_route") == 0
    assert len(cloud.table) == 1
    assert len(failures) == 1
