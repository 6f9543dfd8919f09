from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import LoadBalancerStatus, Node, Service, ServicePort, ServiceSpec
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import ANNOTATION_PLATFORM
from kube_fairlead.client import patches
from kube_fairlead.cloud import wellknown
from kube_fairlead.cloud.controllers.service import ServiceController
from kube_fairlead.cloud.errors import CloudRefused, CloudUnavailable, NotReadyYet
from kube_fairlead.cloud.providers.fake import Call, FakeCloud
from tests.unit.cloud.world import World, node


def service(name: str = "web", **spec: Any) -> Service:
    ports = (ServicePort(name="http", port=80, protocol="TCP", node_port=0 if "type" in spec else 30080),)
    return Service(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=ServiceSpec(**{"type": "LoadBalancer", "ports": ports, **spec}),
    )


@contextlib.asynccontextmanager
async def running(
    world: World, cloud: FakeCloud, *platforms: str
) -> AsyncIterator[Callable[[float], Coroutine[Any, Any, None]]]:
    context, services = world.context(cloud, *platforms), world.services()
    async with world.running(ServiceController(context, services), informers=[context.nodes, services]) as advance:
        yield advance


async def test_a_service_gets_a_load_balancer_to_owned_nodes_only(world: World) -> None:
    cloud = FakeCloud("aws", name="aws")
    cloud.add("n1", "aws://1")
    await world.create(node("n1", "aws://1", ready="False"))  # the cloud's own health checks decide
    await world.create(node("foreign", "gce://2"))
    await world.create(node("unknown"))
    await world.admin.of(Service).create(service())
    async with running(world, cloud, "aws") as advance:
        await advance(1)
        done = await world.admin.of(Service).get("web")
        assert cloud.balancers == {"default/web": ("n1",)}
        assert done.status.load_balancer.ingress[0].hostname == "web.aws.example"
        assert done.metadata.finalizers == (wellknown.FINALIZER_LOAD_BALANCER,)
        assert done.metadata.annotations[wellknown.ANNOTATION_LOAD_BALANCER_PROVIDER] == "aws"
        cloud.add("n2", "aws://2")
        await world.create(node("n2", "aws://2"))
        await world.create(node("foreign-2", "gce://3"))
        await advance(1)
        assert cloud.balancers == {"default/web": ("n1", "n2")}
        await world.patch("n1", {"metadata": {"labels": {wellknown.LABEL_EXCLUDE_FROM_LOAD_BALANCERS: ""}}})
        await advance(1)
        assert cloud.balancers == {"default/web": ("n2",)}
        reasons = {event["reason"] for event in await world.events()}
    assert reasons == {"EnsuringLoadBalancer", "EnsuredLoadBalancer", "UpdatedLoadBalancer"}


async def test_deleting_the_service_deletes_the_load_balancer_first(world: World) -> None:
    cloud = FakeCloud("aws", name="aws")
    cloud.add("n1", "aws://1")
    await world.create(node("n1", "aws://1"))
    await world.admin.of(Service).create(service())
    async with running(world, cloud, "aws") as advance:
        await advance(1)
        await world.admin.of(Service).delete("web")
        await advance(1)
        assert cloud.balancers == {}
        with pytest.raises(api_errors.NotFound):
            await world.admin.of(Service).get("web")


async def test_a_service_that_no_longer_wants_one_loses_it(world: World) -> None:
    cloud = FakeCloud("aws", name="aws")
    cloud.add("n1", "aws://1")
    await world.create(node("n1", "aws://1"))
    await world.admin.of(Service).create(service())
    async with running(world, cloud, "aws") as advance:
        await advance(1)
        patch = patches.MergePatch({"spec": {"type": "ClusterIP"}})
        await world.admin.of(Service).patch("web", patch)
        await advance(1)
        done = await world.admin.of(Service).get("web")
    assert cloud.balancers == {}
    assert done.metadata.finalizers == ()
    assert done.status.load_balancer.ingress == ()
    assert wellknown.ANNOTATION_LOAD_BALANCER_PROVIDER not in done.metadata.annotations


async def test_classes_of_their_own_and_other_types_are_left_alone(world: World) -> None:
    cloud = FakeCloud("aws", name="aws")
    cloud.add("n1", "aws://1")
    await world.create(node("n1", "aws://1"))
    await world.admin.of(Service).create(service("classy", load_balancer_class="example.com/metal"))
    await world.admin.of(Service).create(service("plain", type="ClusterIP"))
    async with running(world, cloud, "aws") as advance:
        await advance(100)
    assert cloud.calls == []
    assert world.written == []


async def test_of_two_managers_the_second_leaves_the_service_alone(world: World) -> None:
    first, second = FakeCloud("aws", name="aws"), FakeCloud("hcloud", name="hcloud")
    first.add("n1", "aws://1")
    second.add("n2", "hcloud://2")
    await world.create(node("n1", "aws://1"))
    await world.create(node("n2", "hcloud://2"))
    await world.admin.of(Service).create(service())
    async with running(world, first, "aws") as advance, running(world, second, "hcloud"):
        await advance(60)
        await world.admin.of(Service).delete("web")
        await advance(60)
    clouds = sorted([first, second], key=lambda cloud: len(cloud.calls))
    assert clouds[0].calls == []
    assert clouds[1].count("ensure_load_balancer") == 1
    assert clouds[1].count("ensure_load_balancer_deleted") == 1


async def test_failures_are_told_and_tried_again(world: World) -> None:
    cloud = FakeCloud("aws", name="aws")
    cloud.failure = CloudUnavailable("out of addresses")
    await world.admin.of(Service).create(service())
    async with running(world, cloud, "aws") as advance:
        await advance(1)
        [event] = await world.events("SyncLoadBalancerFailed")
        assert event["note"] == "Error syncing load balancer: out of addresses"
        assert await world.events("UnAvailableLoadBalancer")
        cloud.failure = None
        await advance(30)
        assert cloud.balancers == {"default/web": ()}


async def test_not_ready_yet_is_polled(world: World) -> None:
    cloud = FakeCloud("aws", name="aws")
    cloud.failure = NotReadyYet("it is being made", retry_after_seconds=3)
    await world.admin.of(Service).create(service())
    async with running(world, cloud, "aws") as advance:
        await advance(10)
        assert cloud.count("ensure_load_balancer") == 4
        assert await world.events("SyncLoadBalancerFailed") == []


async def test_a_finalizer_taken_by_force_leaves_nothing_behind(world: World) -> None:
    cloud = FakeCloud("aws", name="aws")
    await world.admin.of(Service).create(service())
    async with running(world, cloud, "aws") as advance:
        await advance(1)
        await world.admin.of(Service).patch("web", patches.MergePatch({"metadata": {"finalizers": None}}))
        await world.admin.of(Service).delete("web")
        await advance(1)
    assert cloud.balancers == {}


async def test_nodes_that_change_in_other_ways_do_not_disturb(world: World) -> None:
    cloud = FakeCloud("aws", name="aws")
    cloud.add("n1", "aws://1")
    await world.create(node("n1", "aws://1"))
    await world.admin.of(Service).create(service())
    async with running(world, cloud, "aws") as advance:
        await advance(1)
        await world.set_ready("n1", "Unknown")
        await world.admin.of(Node).patch("n1", patches.MergePatch({"spec": {"unschedulable": True}}))
        await advance(200)
    assert cloud.count("update_load_balancer") == 0
    assert cloud.count("ensure_load_balancer") == 1


async def test_nodes_that_come_while_a_load_balancer_is_made_become_targets(world: World) -> None:
    class Slow(FakeCloud):
        async def ensure_load_balancer(
            self, cluster_name: str, service: Service, nodes: Sequence[Node]
        ) -> LoadBalancerStatus:
            await world.clock.sleep(4)
            return await super().ensure_load_balancer(cluster_name, service, nodes)

    cloud = Slow("aws", name="aws")
    cloud.add("n1", "aws://1")
    await world.create(node("n1", "aws://1"))
    await world.admin.of(Service).create(service())
    async with running(world, cloud, "aws") as advance:
        await advance(1)
        cloud.add("n2", "aws://2")
        await world.create(node("n2", "aws://2"))
        await advance(1)
        assert cloud.count("update_load_balancer") == 0  # never two at once for one Service
        await advance(5)
        assert cloud.balancers == {"default/web": ("n1", "n2")}


async def test_targets_that_could_not_be_set_are_not_taken_for_set(world: World) -> None:
    cloud = FakeCloud("aws", name="aws")
    cloud.add("n1", "aws://1")
    await world.create(node("n1", "aws://1"))
    await world.admin.of(Service).create(service())
    async with running(world, cloud, "aws") as advance:
        await advance(1)
        cloud.failure = CloudRefused("not now")
        cloud.add("n2", "aws://2")
        await world.create(node("n2", "aws://2"))
        await advance(30)
        assert cloud.balancers == {"default/web": ("n1",)}
        [event] = await world.events("UpdateLoadBalancerFailed")
        assert "total number of nodes: 2" in event["note"]
        cloud.failure = None
        await advance(100)
        assert cloud.balancers == {"default/web": ("n1", "n2")}


async def test_a_removal_that_stopped_half_way_is_taken_up_again(world: World) -> None:
    groups = ["group"]

    class Parts(FakeCloud):
        async def ensure_load_balancer_deleted(self, cluster_name: str, service: Service) -> None:
            is_first = service.key in self.balancers
            await super().ensure_load_balancer_deleted(cluster_name, service)
            if is_first:
                raise NotReadyYet("a group is still in use", retry_after_seconds=10)
            groups.clear()

    cloud = Parts("aws", name="aws")
    await world.admin.of(Service).create(service())
    async with running(world, cloud, "aws") as advance:
        await advance(1)
        await world.admin.of(Service).delete("web")
        await advance(5)
        assert (await world.admin.of(Service).get("web")).deleting  # held as long as there is something left
        await advance(20)
        with pytest.raises(api_errors.NotFound):
            await world.admin.of(Service).get("web")
    assert groups == []


async def test_a_service_that_another_manager_may_hold_is_not_let_go(world: World) -> None:
    cloud = FakeCloud("aws", name="aws")
    await world.admin.of(Service).create(service())
    held = patches.MergePatch({"metadata": {"finalizers": [wellknown.FINALIZER_LOAD_BALANCER]}})
    await world.admin.of(Service).patch("web", held)  # by a manager that does not note itself
    await world.admin.of(Service).delete("web")
    async with running(world, cloud, "aws") as advance:
        await advance(60)
    assert (await world.admin.of(Service).get("web")).metadata.finalizers == (wellknown.FINALIZER_LOAD_BALANCER,)
    assert cloud.calls == [Call("get_load_balancer", ("default/web",))]


async def test_a_service_without_a_note_whose_load_balancer_is_in_this_cloud_is_let_go(world: World) -> None:
    """It was made before there were platforms. The cloud itself says whose it is."""
    cloud = FakeCloud("aws", name="aws")
    held = patches.MergePatch({"metadata": {"finalizers": [wellknown.FINALIZER_LOAD_BALANCER]}})
    for name in ("ours", "theirs"):
        await world.admin.of(Service).create(service(name, type="LoadBalancer"))
        await world.admin.of(Service).patch(name, held)
        await world.admin.of(Service).delete(name)
    cloud.balancers["default/ours"] = ("n1",)
    async with running(world, cloud, "aws") as advance:
        await advance(100)
        assert cloud.balancers == {}
        with pytest.raises(api_errors.NotFound):
            await world.admin.of(Service).get("ours")
        assert (await world.admin.of(Service).get("theirs")).metadata.finalizers
    about = [call.about for call in cloud.calls if call.name == "get_load_balancer"]
    assert about.count(("default/theirs",)) == 1


async def test_a_service_is_let_go_when_the_cloud_says_that_its_load_balancer_is_gone(world: World) -> None:
    class Slow(FakeCloud):
        deleted = False

        async def ensure_load_balancer_deleted(self, cluster_name: str, service: Service) -> None:
            if self.deleted:
                await super().ensure_load_balancer_deleted(cluster_name, service)

    cloud = Slow("aws", name="aws")
    cloud.add("n1", "aws://1")
    await world.create(node("n1", "aws://1"))
    await world.admin.of(Service).create(service())
    async with running(world, cloud, "aws") as advance:
        await advance(1)
        await world.admin.of(Service).delete("web")
        await advance(30)
        assert (await world.admin.of(Service).get("web")).metadata.finalizers
        cloud.deleted = True
        await advance(10)
        with pytest.raises(api_errors.NotFound):
            await world.admin.of(Service).get("web")
        assert not await world.events("SyncLoadBalancerFailed")


async def test_a_note_that_was_taken_off_does_not_leave_a_service_stuck(world: World) -> None:
    cloud = FakeCloud("aws", name="aws")
    await world.admin.of(Service).create(service())
    async with running(world, cloud, "aws") as advance:
        await advance(1)
        await world.admin.of(Service).patch("web", patches.MergePatch({"metadata": {"annotations": None}}))
        await world.admin.of(Service).delete("web")
        await advance(1)
        with pytest.raises(api_errors.NotFound):
            await world.admin.of(Service).get("web")
    assert cloud.balancers == {}


async def test_only_nodes_that_the_cloud_has_confirmed_are_targets(world: World) -> None:
    cloud = FakeCloud("aws", name="aws")
    cloud.add("n1", "aws://1")
    cloud.add("claimed", "aws://2")  # the cloud has a machine of this name: that proves nothing about the node
    await world.create(node("n1", "aws://1"))
    await world.create(node("claimed", platform="aws"))
    await world.create(node("lying", "aws://nobody"))
    await world.admin.of(Service).create(service())
    async with running(world, cloud, "aws") as advance:
        await advance(1)
        assert cloud.balancers == {"default/web": ("n1",)}
        await world.patch("claimed", {"metadata": {"annotations": {ANNOTATION_PLATFORM: None}}})
        await advance(200)
        assert cloud.balancers == {"default/web": ("n1",)}
        assert cloud.count("update_load_balancer") == 0
        cloud.add("late", "aws://nobody")  # the cloud lists it at last
        await advance(400)
        assert cloud.balancers == {"default/web": ("lying", "n1")}
    assert not any("/nodes/" in path for path in world.written)


async def test_a_cloud_that_does_not_say_whose_nodes_they_are_takes_none_away(world: World) -> None:
    """A new leader, and the cloud cannot be asked: the load balancer keeps leading to the nodes that it leads to."""
    cloud = FakeCloud("aws", name="aws")
    cloud.add("n1", "aws://1")
    await world.create(node("n1", "aws://1"))
    await world.admin.of(Service).create(service())
    async with running(world, cloud, "aws") as advance:
        await advance(1)

    async def down(*_arguments: object) -> Any:
        raise CloudRefused("expired credentials")

    cloud.describe = down  # type: ignore[method-assign,assignment]  # load balancers still answer
    async with running(world, cloud, "aws") as advance:
        await advance(300)
        assert cloud.balancers == {"default/web": ("n1",)}
        assert cloud.count("ensure_load_balancer") == 1
        [event] = await world.events("SyncLoadBalancerFailed")
        assert "expired credentials" in event["note"]


async def test_two_managers_of_one_provider_note_themselves_apart(world: World) -> None:
    clouds = [FakeCloud("eu", "us", name="nimbus") for _ in range(2)]
    for cloud, platform in zip(clouds, ("eu", "us"), strict=True):
        cloud.add(platform, f"{platform}://1")
        await world.create(node(platform, f"{platform}://1"))
    await world.admin.of(Service).create(service())
    async with running(world, clouds[0], "eu") as advance:
        await advance(1)
        async with running(world, clouds[1], "us") as also:
            await also(60)
            assert [cloud.balancers for cloud in clouds] == [{"default/web": ("eu",)}, {}]
            done = await world.admin.of(Service).get("web")
            assert done.metadata.annotations[wellknown.ANNOTATION_LOAD_BALANCER_PROVIDER] == "nimbus-eu"
            await world.admin.of(Service).delete("web")
            await also(1)
    assert [cloud.balancers for cloud in clouds] == [{}, {}]
    assert clouds[1].count("ensure_load_balancer_deleted") == 0
