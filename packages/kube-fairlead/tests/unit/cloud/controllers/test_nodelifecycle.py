from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from kube_fairlead.api.core_v1 import ConfigMap, Namespace, Node, Taint
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.cloud import wellknown
from kube_fairlead.cloud.controllers.nodelifecycle import NodeLifecycleController
from kube_fairlead.cloud.decisions.lifecycle import Limits
from kube_fairlead.cloud.errors import CloudRefused, CloudUnavailable
from kube_fairlead.cloud.providers.fake import FakeCloud
from kube_fairlead.cloud.unannounced_deletions import UnannouncedDeletions
from tests.unit.cloud.world import UNINITIALIZED, World, node

SHUTDOWN = wellknown.SHUTDOWN_TAINT


async def cluster(world: World, cloud: FakeCloud, *names: str, platform: str = "aws") -> None:
    for name in names:
        cloud.add(name, f"{platform}://{name}")
        await world.create(node(name, f"{platform}://{name}"))


async def test_a_node_goes_with_its_machine(world: World) -> None:
    cloud = FakeCloud("aws")
    await cluster(world, cloud, "n1", "n2")
    context = world.context(cloud, "aws")
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
        cloud.remove("n1")
        await advance(30)
        assert await world.names() == {"n1", "n2"}  # still Ready: nobody asks the cloud
        assert cloud.calls == []
        await world.set_ready("n1", "Unknown")
        await advance(6)
        assert await world.names() == {"n2"}
    [event] = await world.events("DeletingNode")
    assert event["note"] == "Deleting node n1 because it does not exist in the cloud provider"
    assert [call.name for call in cloud.calls] == ["describe", "exists"]


async def test_foreign_and_unknown_nodes_are_left_alone(world: World) -> None:
    cloud = FakeCloud("aws")
    await cluster(world, cloud, "n1")
    await world.create(node("foreign", "gce://x", ready="False"))
    await world.create(node("annotated", platform="gce", ready="Unknown"))
    await world.create(node("unknown", ready=None))
    await world.create(node("malformed", "aws:/x", ready="False"))
    await world.create(node("foreign-ready", "gce://y", taints=[SHUTDOWN]))
    context = world.context(cloud, "aws")
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
        await advance(60)
    assert world.written == []
    assert cloud.calls == []


async def test_a_machine_that_the_list_forgot_is_not_gone(world: World) -> None:
    cloud = FakeCloud("aws")
    await cluster(world, cloud, "n1", "n2")
    cloud.forgotten.add("n1")
    await world.set_ready("n1", "False")
    context = world.context(cloud, "aws")
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
        await advance(60)
    assert await world.names() == {"n1", "n2"}
    assert cloud.count("exists") > 1


@pytest.mark.parametrize("failure", [CloudUnavailable("down"), CloudRefused("no such credentials")])
async def test_an_outage_deletes_nothing(world: World, failure: Exception) -> None:
    cloud = FakeCloud("aws")
    await cluster(world, cloud, "n1", "n2")
    await world.set_ready("n1", "False")
    cloud.remove("n1")
    cloud.failure = failure  # type: ignore[assignment]  # both are CloudErrors
    context = world.context(cloud, "aws")
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
        await advance(300)
    assert world.written == []


async def test_shut_down_machines_are_tainted_until_they_are_ready_again(world: World) -> None:
    cloud = FakeCloud("aws")
    await cluster(world, cloud, "n1")
    cloud.add("n1", "aws://n1", shutdown=True)
    await world.set_ready("n1", "Unknown")
    context = world.context(cloud, "aws")
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
        assert (await world.get()).spec.taints == (SHUTDOWN,)
        await advance(60)
        assert len(world.written) == 1
        await world.set_ready("n1", "True")
        await advance(6)
        assert (await world.get()).spec.taints == ()


async def test_all_nodes_missing_stops_until_an_operator_confirms(world: World) -> None:
    cloud = FakeCloud("aws")
    await cluster(world, cloud, "n1", "n2")
    for name in ("n1", "n2"):
        cloud.remove(name)
        await world.set_ready(name, "Unknown")
    context = world.context(cloud, "aws")
    limits = Limits(vanishing_share=1.0)
    async with world.running(NodeLifecycleController(context, limits=limits), informers=[context.nodes]) as advance:
        await advance(60)
        assert await world.names() == {"n1", "n2"}
        assert cloud.count("exists") == 0
        events = await world.events("NodeDeletionStopped")
        assert {event["regarding"]["name"] for event in events} == {"n1", "n2"}
        assert "knows none of its 2 nodes" in events[0]["note"]
        await world.patch("n1", {"metadata": {"annotations": {wellknown.ANNOTATION_CONFIRM_DELETION: "true"}}})
        await advance(6)
        assert await world.names() == {"n2"}
        await advance(60)
        assert await world.names() == {"n2"}


async def test_too_many_at_once_stops_and_one_after_the_other_counts_as_at_once(world: World) -> None:
    cloud = FakeCloud("aws")
    names = [f"n{number:02}" for number in range(20)]
    await cluster(world, cloud, *names)
    context = world.context(cloud, "aws")
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
        for name in names[:3]:
            cloud.remove(name)
            await world.set_ready(name, "False")
        await advance(30)
        assert len(await world.names()) == 20
        cloud.add(names[2], f"aws://{names[2]}")
        await advance(6)
        assert len(await world.names()) == 18
        cloud.remove(names[2])
        await advance(200)
        assert len(await world.names()) == 18
        await advance(200)
        assert len(await world.names()) == 17


async def test_announced_departures_are_no_surprise(world: World) -> None:
    cloud = FakeCloud("aws")
    names = [f"n{number}" for number in range(10)]
    await cluster(world, cloud, *names)
    taint = {"key": wellknown.TAINT_TO_BE_DELETED, "effect": "NoSchedule"}
    for name in names[:5]:
        cloud.remove(name)
        await world.set_ready(name, "False")
        await world.patch(name, {"spec": {"taints": [taint]}})
    context = world.context(cloud, "aws")
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
        await advance(6)
        assert await world.names() == set(names[5:])


async def test_a_node_that_waits_for_initialisation_is_not_asked_about(world: World) -> None:
    cloud = FakeCloud("aws")
    await cluster(world, cloud, "n2")
    await world.create(node("n1", "aws://n1", ready=None, taints=[UNINITIALIZED]))
    context = world.context(cloud, "aws")
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
        await advance(110)
        assert cloud.calls == []
        await advance(20)
        assert await world.names() == {"n2"}


async def test_without_an_id_a_node_may_be_tainted_in_a_single_cloud_but_never_deleted(world: World) -> None:
    cloud = FakeCloud()
    await cluster(world, cloud, "n2")
    await world.create(node("n1", ready="False"))
    await world.create(node("n3", ready="False"))
    cloud.add("n3", "aws://n3", shutdown=True)
    context = world.context(cloud)
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
        await advance(60)
        assert await world.names() == {"n1", "n2", "n3"}
        assert (await world.get("n3")).spec.taints == (SHUTDOWN,)


async def test_a_node_that_is_the_clouds_by_annotation_alone_is_left_alone(world: World) -> None:
    """The cloud has a machine of its name, which is shut down: that is no proof that it is this node's."""
    cloud = FakeCloud("aws")
    cloud.add("n1", "aws://n1", shutdown=True)
    await world.create(node("n1", platform="aws", ready="False"))
    await world.create(node("n2", platform="aws", taints=[SHUTDOWN]))
    context = world.context(cloud, "aws")
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
        await advance(60)
    assert world.written == []
    assert cloud.calls == []


async def test_ids_that_the_cloud_could_not_have_given_are_not_missing(world: World) -> None:
    # A single cloud, as before there was ownership, with two machines that are not in it: they are nobody's surprise.
    cloud = FakeCloud("aws")
    await cluster(world, cloud, "n1", "n2", "n3")
    for name in ("metal-1", "metal-2"):
        await world.create(node(name, f"metal://{name}", ready="False"))
    cloud.remove("n1")
    await world.set_ready("n1", "False")
    context = world.context(cloud)
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
        await advance(10)
        assert await world.names() == {"n2", "n3", "metal-1", "metal-2"}
    assert await world.events("NodeDeletionStopped") == []
    assert not any("metal" in about for call in cloud.calls for about in call.about)


async def test_other_taints_stay(world: World) -> None:
    cloud = FakeCloud("aws")
    cloud.add("n1", "aws://n1", shutdown=True)
    mine = Taint(key="mine", value="x", effect="NoExecute")
    await world.create(node("n1", "aws://n1", ready="False", taints=[mine]))
    context = world.context(cloud, "aws")
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]):
        # Setting NoExecute adds the time; only the keys are ours to compare.
        assert [taint.key for taint in (await world.get()).spec.taints] == ["mine", SHUTDOWN.key]


async def test_the_next_leader_knows_what_vanished_before_its_term(world: World) -> None:
    cloud = FakeCloud("aws")
    names = [f"n{number:02}" for number in range(20)]
    await cluster(world, cloud, *names)
    for term in range(5):
        for name in names[2 * term : 2 * term + 2]:
            cloud.remove(name)
            await world.set_ready(name, "False")
        context = world.context(cloud, "aws")
        async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
            await advance(6)
    assert len(await world.names()) == 18
    record = await world.admin.of(ConfigMap).get("ccm-vanished", namespace="kube-system")
    assert [text.split()[1] for text in record.data.values()] == ["n00", "n01"]


async def test_what_cannot_be_written_down_is_not_deleted(world: World) -> None:
    cloud = FakeCloud("aws")
    names = [f"n{number}" for number in range(4)]
    await cluster(world, cloud, *names)
    for name in names[:2]:
        cloud.remove(name)
        await world.set_ready(name, "False")
    confirmed = {wellknown.ANNOTATION_CONFIRM_DELETION: "true"}
    await world.patch("n1", {"metadata": {"annotations": confirmed}})
    context = world.context(cloud, "aws")
    unannounced_deletions = UnannouncedDeletions(world.manager, namespace="nowhere", name="ccm-vanished")
    context = dataclasses.replace(context, unannounced_deletions=unannounced_deletions)
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
        await advance(30)
        assert await world.names() == {"n0", "n2", "n3"}  # but the one that an operator confirmed went
        await world.admin.of(Namespace).create(Namespace(metadata=ObjectMeta(name="nowhere")))
        await advance(30)
        assert await world.names() == {"n2", "n3"}


async def test_a_deletion_that_did_not_come_about_is_not_counted_twice(world: World) -> None:
    cloud = FakeCloud("aws")
    await cluster(world, cloud, "n1", "n2")
    gone = await world.get("n1")
    cloud.remove("n1")
    await world.set_ready("n1", "False")
    context = world.context(cloud, "aws")
    await context.unannounced_deletions.add([gone], world.clock.now())  # and then the leader crashed
    context = world.context(cloud, "aws")
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
        await advance(6)
        assert await world.names() == {"n2"}


async def test_many_that_are_missing_are_one_question_where_the_cloud_can(world: World) -> None:
    class Able(FakeCloud):
        async def which_exist(self, nodes: Mapping[str, Node]) -> Mapping[str, bool]:
            await self._called("which_exist", nodes)
            known = {one.provider_id for one in self.machines.values()}
            return {one: one in known for one in nodes if one != "aws://n2"}  # about that one it is silent

    cloud = Able("aws")
    names = [f"n{number}" for number in range(10)]
    await cluster(world, cloud, *names)
    for name in names[:4]:
        cloud.remove(name)
        await world.set_ready(name, "False")
    cloud.add("n3", "aws://n3")
    cloud.forgotten.add("n3")
    context = world.context(cloud, "aws")
    controller = NodeLifecycleController(context, limits=Limits(vanishing_share=0.5))
    async with world.running(controller, informers=[context.nodes]):
        assert await world.names() == set(names[2:])
    assert [call.name for call in cloud.calls] == ["describe", "which_exist"]


async def test_a_follower_says_nothing_of_what_vanished(world: World) -> None:
    cloud, metrics = FakeCloud("aws"), PrometheusMetrics()
    await cluster(world, cloud, "n1")
    cloud.remove("n1")
    await world.set_ready("n1", "False")
    context = world.context(cloud, "aws", metrics=metrics)
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
        assert 'fairlead_cloud_vanished_nodes{provider="fake"} 1.0' in metrics.exposition().decode()
        context.stopping.set()
        await advance(1)
        assert "fairlead_cloud_vanished_nodes{" not in metrics.exposition().decode()


async def test_a_node_that_is_there_again_does_not_count_as_vanished(world: World) -> None:
    """It was written down, and then the API server refused to delete it; meanwhile its machine is back."""
    cloud = FakeCloud("aws")
    names = [f"n{number}" for number in range(10)]
    await cluster(world, cloud, *names)
    context = world.context(cloud, "aws")
    await context.unannounced_deletions.add([await world.get("n0")], world.clock.now())
    cloud.remove("n1")
    await world.set_ready("n1", "False")
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
        await advance(6)
        assert await world.names() == set(names) - {"n1"}


async def test_the_limit_is_told_with_those_that_went_before(world: World) -> None:
    cloud = FakeCloud("aws")
    names = [f"n{number}" for number in range(10)]
    await cluster(world, cloud, *names)
    context = world.context(cloud, "aws")
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
        for name in names[:2]:
            cloud.remove(name)
            await world.set_ready(name, "False")
            await advance(6)
        [event] = await world.events("NodeDeletionStopped")
    assert event["regarding"]["name"] == "n1"
    assert event["note"].startswith(
        "2 of 10 nodes vanished from the cloud within five minutes (1 of them deleted already), more than 1: none is"
    )


async def test_the_last_node_goes_when_it_was_announced_and_its_id_is_gone(world: World) -> None:
    cloud = FakeCloud("aws")
    await cluster(world, cloud, "n1")
    cloud.forgotten.add("n1")  # the list lacks it, and its machine is still there
    await world.set_ready("n1", "False")
    await world.patch("n1", {"spec": {"taints": [{"key": wellknown.TAINT_TO_BE_DELETED, "effect": "NoSchedule"}]}})
    context = world.context(cloud, "aws")
    async with world.running(NodeLifecycleController(context), informers=[context.nodes]) as advance:
        await advance(30)
        assert await world.names() == {"n1"}
        cloud.remove("n1")
        await advance(6)
        assert await world.names() == set()
    assert await world.events("NodeDeletionStopped") == []
