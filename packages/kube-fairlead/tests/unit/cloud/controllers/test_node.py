from __future__ import annotations

import pytest

from kube_fairlead.api.core_v1 import Node, NodeAddress, Taint
from kube_fairlead.cloud import wellknown
from kube_fairlead.cloud.controllers.node import NodeController
from kube_fairlead.cloud.errors import CloudUnavailable
from kube_fairlead.cloud.providers.fake import FakeCloud
from tests.unit.cloud.world import UNINITIALIZED, World, node

ADDRESSES = (
    NodeAddress(type="InternalIP", address="10.0.0.1"),
    NodeAddress(type="InternalIP", address="10.0.0.2"),
    NodeAddress(type="ExternalIP", address="192.0.2.1"),
)


async def test_a_new_node_is_initialised(world: World) -> None:
    cloud = FakeCloud("aws")
    cloud.add(
        "n1",
        "aws:///z/i-1",
        instance_type="m5",
        zone="z",
        region="r",
        addresses=ADDRESSES,
        additional_labels={"example.com/rack": "7", "evil.kubernetes.io/x": "y", "kept": "cloud"},
    )
    other = Taint(key="mine", effect="NoExecute")
    await world.create(
        node(taints=[UNINITIALIZED, other], labels={"kept": "admin"}, addresses={"Hostname": "n1.example"})
    )
    context = world.context(cloud, "aws")
    async with world.running(NodeController(context), informers=[context.nodes]) as advance:
        await advance(1)
        done = await world.get()
    assert done.spec.provider_id == "aws:///z/i-1"
    assert [taint.key for taint in done.spec.taints] == ["mine"]
    labels = done.metadata.labels
    assert labels == {
        "kept": "admin",
        "example.com/rack": "7",
        wellknown.LABEL_PLATFORM: "aws",
        wellknown.LABEL_INSTANCE_TYPE: "m5",
        wellknown.LABEL_INSTANCE_TYPE_BETA: "m5",
        wellknown.LABEL_ZONE: "z",
        wellknown.LABEL_ZONE_BETA: "z",
        wellknown.LABEL_REGION: "r",
        wellknown.LABEL_REGION_BETA: "r",
    }
    assert done.status.addresses == (*ADDRESSES, NodeAddress(type="Hostname", address="n1.example"))
    [event] = await world.events("Synced")
    assert event["note"] == "Node synced successfully"
    assert event["reportingController"] == "cloud-node-controller"


async def test_without_platforms_there_is_no_platform_label(world: World) -> None:
    cloud = FakeCloud()
    cloud.add("n1", "fake://1")
    await world.create(node(taints=[UNINITIALIZED]))
    context = world.context(cloud)
    async with world.running(NodeController(context), informers=[context.nodes]):
        assert (await world.get()).spec.provider_id == "fake://1"
        assert wellknown.LABEL_PLATFORM not in (await world.get()).metadata.labels


async def test_foreign_and_unknown_nodes_are_not_written(world: World) -> None:
    cloud = FakeCloud("aws")
    cloud.add("foreign", "aws:///z/i-1")  # a machine of the same name here changes nothing
    await world.create(node("foreign", "gce://p/z/foreign", taints=[UNINITIALIZED]))
    await world.create(node("annotated", platform="on-prem", taints=[UNINITIALIZED]))
    await world.create(node("malformed", "aws:/x", platform="aws", taints=[UNINITIALIZED]))
    await world.create(node("unknown", taints=[UNINITIALIZED]))
    await world.create(node("self-managed"))
    context = world.context(cloud, "aws")
    async with world.running(NodeController(context), informers=[context.nodes]) as advance:
        await advance(700)
    assert world.written == []
    assert {name for call in cloud.calls for name in call.about} == {"unknown"}


async def test_an_unknown_node_becomes_owned_when_the_cloud_answers_for_it(world: World) -> None:
    cloud = FakeCloud("aws")
    await world.create(node(taints=[UNINITIALIZED]))
    context = world.context(cloud, "aws")
    async with world.running(NodeController(context), informers=[context.nodes]) as advance:
        await advance(10)
        assert world.written == []
        cloud.add("n1", "aws:///z/i-1")
        await advance(60)
        assert (await world.get()).spec.provider_id == "aws:///z/i-1"


async def test_an_answer_of_another_platform_is_refused(world: World) -> None:
    cloud = FakeCloud("aws")
    cloud.add("n1", "gce://p/z/n1")
    await world.create(node(taints=[UNINITIALIZED]))
    context = world.context(cloud, "aws")
    async with world.running(NodeController(context), informers=[context.nodes]) as advance:
        await advance(10)
    assert world.written == []


async def test_many_new_nodes_are_one_question(world: World) -> None:
    cloud = FakeCloud("aws")
    for number in range(50):
        cloud.add(f"n{number}", addresses=ADDRESSES)
        await world.create(node(f"n{number}", taints=[UNINITIALIZED]))
    context = world.context(cloud, "aws")
    async with world.running(NodeController(context, concurrent_syncs=4), informers=[context.nodes]) as advance:
        await advance(1)
        assert all(one.spec.provider_id for one in context.nodes.store)
    assert cloud.count("describe") == 1


async def test_an_outage_delays_and_changes_nothing(world: World) -> None:
    cloud = FakeCloud("aws")
    cloud.add("n1")
    cloud.failure = CloudUnavailable("down")
    await world.create(node(taints=[UNINITIALIZED]))
    context = world.context(cloud, "aws")
    async with world.running(NodeController(context), informers=[context.nodes]) as advance:
        await advance(600)
        assert world.written == []
        assert cloud.count("describe") < 30
        cloud.failure = None
        await advance(120)
        assert (await world.get()).spec.provider_id == "aws://n1"


async def test_addresses_follow_the_cloud_for_owned_nodes_only(world: World) -> None:
    cloud = FakeCloud("aws")
    cloud.add("n1", "aws://1", addresses=ADDRESSES)
    cloud.add("n2", "gce://2", addresses=ADDRESSES)
    await world.create(node("n1", "aws://1", addresses={"InternalIP": "10.0.0.9"}))
    await world.create(node("n2", "gce://2", addresses={"InternalIP": "10.0.0.9"}))
    await world.create(node("n3", "aws://1", taints=[UNINITIALIZED], addresses={"InternalIP": "10.0.0.9"}))
    context = world.context(cloud, "aws")
    async with world.running(NodeController(context), informers=[context.nodes]) as advance:
        assert (await world.get("n1")).status.addresses == ADDRESSES
        cloud.add("n1", "aws://1", addresses=ADDRESSES[:1])
        await advance(299)
        assert (await world.get("n1")).status.addresses == ADDRESSES
        await advance(2)
        assert (await world.get("n1")).status.addresses == ADDRESSES[:1]
    assert (await world.get("n2")).status.addresses[0].address == "10.0.0.9"
    assert not any("n2" in path for path in world.written)


async def test_a_provided_address_must_be_the_clouds(world: World) -> None:
    cloud = FakeCloud("aws")
    cloud.add("n1", addresses=ADDRESSES)
    annotations = {wellknown.ANNOTATION_PROVIDED_NODE_IP: "10.9.9.9"}
    await world.create(node(taints=[UNINITIALIZED], annotations=annotations))
    context = world.context(cloud, "aws")
    async with world.running(NodeController(context), informers=[context.nodes]) as advance:
        await advance(5)
        assert world.written == []
        await world.patch("n1", {"metadata": {"annotations": {wellknown.ANNOTATION_PROVIDED_NODE_IP: "10.0.0.2"}}})
        await advance(60)
        assert (await world.get()).status.addresses == (ADDRESSES[1], ADDRESSES[2])


async def test_labels_of_initialised_nodes_are_kept_right(world: World) -> None:
    labels = {wellknown.LABEL_ZONE_BETA: "z1", wellknown.LABEL_ZONE: "z2", wellknown.LABEL_INSTANCE_TYPE_BETA: "m5"}
    await world.create(node("n1", "aws://1", labels=labels))
    await world.create(node("n2", "gce://2", labels=labels))
    context = world.context(FakeCloud("aws"), "aws")
    async with world.running(NodeController(context), informers=[context.nodes]):
        done = (await world.get("n1")).metadata.labels
    assert done[wellknown.LABEL_ZONE] == "z1"
    assert done[wellknown.LABEL_INSTANCE_TYPE] == "m5"
    assert done[wellknown.LABEL_PLATFORM] == "aws"
    assert (await world.get("n2")).metadata.labels == labels
    assert world.written == ["PATCH /api/v1/nodes/n1"]


async def test_zones_are_asked_for_when_instances_do_not_say(world: World) -> None:
    cloud = FakeCloud("aws")
    cloud.zones = cloud
    cloud.add("n1")
    await world.create(node(taints=[UNINITIALIZED]))
    context = world.context(cloud, "aws")
    async with world.running(NodeController(context), informers=[context.nodes]):
        assert (await world.get()).metadata.labels[wellknown.LABEL_ZONE] == "zone-of-fake"


@pytest.mark.parametrize("provider_id", ["", "aws://another", "gce://another"])
async def test_a_node_that_registers_anew_while_the_cloud_is_asked_does_not_get_the_others_addresses(
    world: World, provider_id: str
) -> None:
    cloud = FakeCloud("aws", clock=world.clock, latency_seconds=2)
    cloud.add("n1", "aws://n1", addresses=ADDRESSES)
    cloud.add("n2", "aws://n2", addresses=ADDRESSES)
    await world.create(node("n1", "aws://n1"))
    await world.create(node("n2", "aws://n2"))
    context = world.context(cloud, "aws")
    async with world.running(NodeController(context), informers=[context.nodes]) as advance:
        await advance(1)  # the cloud is asked about addresses
        await world.admin.of(Node).delete("n1")
        await world.create(node("n1", provider_id))
        await advance(3)
        assert (await world.get("n1")).status.addresses == ()
        assert (await world.get("n2")).status.addresses == ADDRESSES


async def test_a_node_that_no_cloud_knows_is_told_about(world: World) -> None:
    cloud = FakeCloud("aws")
    await world.create(node("stray", taints=[UNINITIALIZED]))
    await world.create(node("lost", "aws://lost", taints=[UNINITIALIZED]))
    await world.create(node("stale", "aws://stale"))
    await world.create(node("foreign", "gce://1", taints=[UNINITIALIZED]))
    await world.create(node("mine"))
    context = world.context(cloud, "aws")
    async with world.running(NodeController(context), informers=[context.nodes]) as advance:
        await advance(100)
        # A new one may come yet, or be another cloud's; one that was initialised is missed at once.
        assert [event["regarding"]["name"] for event in await world.events("NodeNotInCloud")] == ["stale"]
        await advance(300)
        events = {event["regarding"]["name"]: event for event in await world.events("NodeNotInCloud")}
    assert set(events) == {"stray", "lost", "stale"}
    assert all(event["type"] == "Warning" for event in events.values())
    assert (
        "was queried by its name and knows no machine of this node. It waits to be initialised."
        in events["stray"]["note"]
    )
    assert "was queried by id aws://lost and knows no machine" in events["lost"]["note"]
    assert not any("mine" in path or "foreign" in path for path in world.written)


async def test_a_cloud_that_does_not_answer_does_not_know_no_node(world: World) -> None:
    cloud = FakeCloud("aws")
    cloud.failure = CloudUnavailable("down")
    await world.create(node("n1", taints=[UNINITIALIZED]))
    await world.create(node("n2", "aws://2"))
    context = world.context(cloud, "aws")
    async with world.running(NodeController(context), informers=[context.nodes]) as advance:
        await advance(600)
        assert await world.events("NodeNotInCloud") == []
