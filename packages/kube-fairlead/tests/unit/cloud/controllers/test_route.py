from __future__ import annotations

import ipaddress

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.reserved import ANNOTATION_PLATFORM
from kube_fairlead.cloud.controllers.node import NodeController
from kube_fairlead.cloud.controllers.route import RouteController
from kube_fairlead.cloud.errors import CloudRefused, CloudUnavailable
from kube_fairlead.cloud.provider import Route
from kube_fairlead.cloud.providers.fake import FakeCloud
from tests.unit.cloud.world import World, node

CLUSTER = [ipaddress.ip_network("10.244.0.0/16")]


def controller(world: World, cloud: FakeCloud, *platforms: str) -> tuple[RouteController, list[object]]:
    context = world.context(cloud, *platforms)
    return RouteController(context, cluster_cidrs=CLUSTER), [context.nodes]


def route(cidr: str, target: str, **more: bool) -> Route:
    return Route(destination_cidr=cidr, target_node=target, **more)  # type: ignore[arg-type]  # only `blackhole`


def table(cloud: FakeCloud) -> set[tuple[str, str]]:
    return {(entry.target_node, entry.destination_cidr) for entry in cloud.table}


async def test_owned_nodes_get_routes_and_the_condition(world: World) -> None:
    cloud = FakeCloud("aws")
    cloud.add("n1", "aws://1")
    await world.create(node("n1", "aws://1", pod_cidrs=["10.244.1.0/24"]))
    await world.create(node("foreign", "gce://2", pod_cidrs=["10.244.2.0/24"]))
    await world.create(node("unknown", pod_cidrs=["10.244.3.0/24"]))
    routes, informers = controller(world, cloud, "aws")
    async with world.running(routes, informers=informers) as advance:  # type: ignore[arg-type]  # informers they are
        await advance(30)
        condition = (await world.get("n1")).condition("NetworkUnavailable")
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", "RouteCreated")
        assert condition.message == "RouteController created a route"
    assert table(cloud) == {("n1", "10.244.1.0/24")}
    assert world.written == ["PATCH /api/v1/nodes/n1/status"]


async def test_routes_of_foreign_nodes_survive_even_their_removal(world: World) -> None:
    cloud = FakeCloud("aws")
    cloud.add("n1", "aws://1")
    await world.create(node("n1", "aws://1", pod_cidrs=["10.244.1.0/24"]))
    await world.create(node("foreign", "gce://2", pod_cidrs=["10.244.2.0/24"]))
    # Somebody leads traffic for the other cloud through a machine of ours, and through something that is no node.
    cloud.table = [route("10.244.2.0/24", "n1"), route("10.244.7.0/24", "vpn"), route("10.244.2.128/25", "")]
    routes, informers = controller(world, cloud, "aws")
    async with world.running(routes, informers=informers) as advance:  # type: ignore[arg-type]  # informers they are
        await advance(30)
        await world.admin.of(type(await world.get("n1"))).delete("foreign")
        await advance(30)
    assert table(cloud) == {
        ("n1", "10.244.1.0/24"),
        ("n1", "10.244.2.0/24"),
        ("vpn", "10.244.7.0/24"),
        ("", "10.244.2.128/25"),
    }
    assert cloud.count("delete_route") == 0


async def test_routes_of_our_own_nodes_go_with_them(world: World) -> None:
    cloud = FakeCloud("aws")
    cloud.add("n1", "aws://1")
    made = await world.create(node("n1", "aws://1", pod_cidrs=["10.244.1.0/24"]))
    # A dead end does not say whose it was, unless it is in the way.
    cloud.table = [route("10.244.9.0/24", "", blackhole=True), route("10.244.1.0/24", "", blackhole=True)]
    routes, informers = controller(world, cloud, "aws")
    async with world.running(routes, informers=informers) as advance:  # type: ignore[arg-type]  # informers they are
        await advance(5)
        assert table(cloud) == {("n1", "10.244.1.0/24"), ("", "10.244.9.0/24")}
        await world.admin.of(type(made)).delete("n1")
        await advance(20)
    assert table(cloud) == {("", "10.244.9.0/24")}


async def test_a_range_that_passed_to_anothers_node_is_not_ours_any_more(world: World) -> None:
    cloud = FakeCloud("aws")
    cloud.add("n1", "aws://1")
    made = await world.create(node("n1", "aws://1", pod_cidrs=["10.244.5.0/24"]))
    routes, informers = controller(world, cloud, "aws")
    async with world.running(routes, informers=informers) as advance:  # type: ignore[arg-type]  # informers they are
        await advance(1)
        await world.admin.of(type(made)).delete("n1")
        await world.create(node("foreign", "gce://2", pod_cidrs=["10.244.5.0/24"]))
        cloud.table = [route("10.244.5.0/24", "router")]  # the administrator leads it there
        await advance(60)
        await world.admin.of(type(made)).delete("foreign")
        await advance(60)
    assert table(cloud) == {("router", "10.244.5.0/24")}


async def test_a_range_that_nobody_has_any_more_is_forgotten(world: World) -> None:
    cloud = FakeCloud("aws")
    cloud.add("n1", "aws://1")
    made = await world.create(node("n1", "aws://1", pod_cidrs=["10.244.5.0/24"]))
    routes, informers = controller(world, cloud, "aws")
    async with world.running(routes, informers=informers) as advance:  # type: ignore[arg-type]  # informers they are
        await advance(1)
        await world.admin.of(type(made)).delete("n1")
        await advance(30)
        assert table(cloud) == set()
        cloud.table = [route("10.244.5.0/24", "router")]  # the administrator's, for something that is no node
        await advance(60)
    assert table(cloud) == {("router", "10.244.5.0/24")}


async def test_without_platforms_orphans_go_as_before(world: World) -> None:
    cloud = FakeCloud()
    cloud.add("n1", "aws://1")
    await world.create(node("n1", "aws://1", pod_cidrs=["10.244.1.0/24"]))
    cloud.table = [route("10.244.7.0/24", "vpn"), route("192.168.0.0/24", "vpn")]
    routes, informers = controller(world, cloud)
    async with world.running(routes, informers=informers) as advance:  # type: ignore[arg-type]  # informers they are
        await advance(15)
    assert table(cloud) == {("n1", "10.244.1.0/24"), ("vpn", "192.168.0.0/24")}


async def test_a_route_that_cannot_be_made_is_told(world: World) -> None:
    class Broken(FakeCloud):
        async def create_route(self, *arguments: object) -> None:
            raise CloudUnavailable("route table is full")

    cloud = Broken("aws")
    cloud.add("n1", "aws://1")
    await world.create(node("n1", "aws://1", pod_cidrs=["10.244.1.0/24"]))
    routes, informers = controller(world, cloud, "aws")
    async with world.running(routes, informers=informers) as advance:  # type: ignore[arg-type]  # informers they are
        await advance(30)
        condition = (await world.get("n1")).condition("NetworkUnavailable")
        assert condition is not None
        assert (condition.status, condition.reason) == ("True", "NoRouteCreated")
        [event] = await world.events("FailedToCreateRoute")
    assert "10.244.1.0/24 for node n1: route table is full" in event["note"]


async def test_a_list_that_fails_changes_nothing(world: World) -> None:
    cloud = FakeCloud("aws")
    cloud.add("n1", "aws://1")
    await world.create(node("n1", "aws://1", pod_cidrs=["10.244.1.0/24"]))
    cloud.failure = CloudUnavailable("down")
    routes, informers = controller(world, cloud, "aws")
    async with world.running(routes, informers=informers) as advance:  # type: ignore[arg-type]  # informers they are
        await advance(60)
    assert world.written == []
    assert {call.name for call in cloud.calls} == {"describe"}


async def test_an_annotation_moves_no_route(world: World) -> None:
    """A machine of nobody's is said to be this cloud's: the administrator's route to its pods stays as it is."""
    cloud = FakeCloud("aws")
    cloud.add("n1", "aws://1")
    cloud.add("gpu", "aws://2")  # of the same name, in the cloud
    await world.create(node("n1", "aws://1", pod_cidrs=["10.244.1.0/24"]))
    await world.create(node("gpu", pod_cidrs=["10.244.9.0/24"]))
    await world.create(node("lying", "aws://nobody", pod_cidrs=["10.244.8.0/24"]))
    cloud.table = [route("10.244.9.0/24", "router"), route("10.244.8.0/24", "router")]
    before = await world.get("gpu")
    context = world.context(cloud, "aws")
    routes, labels = RouteController(context, cluster_cidrs=CLUSTER), NodeController(context)
    async with world.running(routes, labels, informers=[context.nodes]) as advance:
        await advance(30)
        kept = {("n1", "10.244.1.0/24"), ("router", "10.244.9.0/24"), ("router", "10.244.8.0/24")}
        assert table(cloud) == kept
        await world.patch("gpu", {"metadata": {"annotations": {ANNOTATION_PLATFORM: "aws"}}})
        await advance(300)
        assert table(cloud) == kept
        await world.patch("gpu", {"metadata": {"annotations": {ANNOTATION_PLATFORM: None}}})
        await advance(60)
        assert table(cloud) == kept
        after = await world.get("gpu")
        assert (after.spec, after.status, after.metadata.labels) == (before.spec, before.status, before.metadata.labels)
        await world.admin.of(Node).delete("gpu")
        await world.admin.of(Node).delete("lying")
        await advance(60)
    assert table(cloud) == kept
    assert cloud.count("delete_route") == 0
    assert {about for call in cloud.calls if call.name == "create_route" for about in call.about} == {
        "n1",
        "10.244.1.0/24",
    }
    assert not any("gpu" in path or "lying/status" in path for path in world.written)


async def test_an_id_that_the_cloud_does_not_know_is_asked_about_later_and_later(world: World) -> None:
    cloud = FakeCloud("aws")
    await world.create(node("lying", "aws://nobody", pod_cidrs=["10.244.8.0/24"]))
    routes, informers = controller(world, cloud, "aws")
    async with world.running(routes, informers=informers) as advance:  # type: ignore[arg-type]  # informers they are
        await advance(1800)
        assert 6 <= cloud.count("describe") <= 14
        assert cloud.count("list_routes") >= 170
        cloud.add("lying", "aws://nobody")
        await advance(310)
    assert table(cloud) == {("lying", "10.244.8.0/24")}


async def test_a_route_that_is_refused_is_tried_later_and_later(world: World) -> None:
    class Full(FakeCloud):
        async def create_route(self, *arguments: object) -> None:
            await self._called("create_route")
            raise CloudRefused("route table is full")

        async def delete_route(self, *arguments: object) -> None:
            await self._called("delete_route")
            raise CloudRefused("it is locked")

    for platforms in (("aws",), ()):
        cloud = Full("aws")
        cloud.add("n1", "aws://1")
        if platforms:
            await world.create(node("n1", "aws://1", pod_cidrs=["10.244.1.0/24"]))
        cloud.table = [route("10.244.1.0/24", "elsewhere")]
        routes, informers = controller(world, cloud, *platforms)
        async with world.running(routes, informers=informers) as advance:  # type: ignore[arg-type]  # informers
            await advance(1800)
        assert 8 <= cloud.count("create_route") <= 14
        assert 8 <= cloud.count("delete_route") <= 14
        assert cloud.count("list_routes") >= 170
