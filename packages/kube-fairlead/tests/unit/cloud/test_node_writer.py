from __future__ import annotations

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import NodeCondition
from kube_fairlead.cloud.decisions.initialisation import Initialise
from kube_fairlead.cloud.node_writer import InvariantBroken, NodeWriter
from tests.unit.cloud.world import World, node

CHANGE = Initialise(labels={"a": "b"}, taints=(), provider_id="")


async def test_a_foreign_node_is_refused_before_anything_is_sent(world: World) -> None:
    foreign = await world.create(node("foreign", "gce://1"))
    unknown = await world.create(node("unknown"))
    claimed = await world.create(node("claimed", platform="aws"))
    writer = NodeWriter(world.manager, {"aws"})
    for one in (foreign, unknown, claimed):
        for write in (
            writer.set_labels(one, {"a": "b"}),
            writer.set_taints(one, ()),
            writer.set_addresses(one, ()),
            writer.set_condition(one, NodeCondition(type="X", status="True")),
            writer.delete(one),
        ):
            with pytest.raises(InvariantBroken, match="not written"):
                await write
    with pytest.raises(InvariantBroken):
        await writer.initialise(foreign, CHANGE)
    assert world.written == []
    await writer.initialise(unknown, CHANGE)
    await writer.initialise(claimed, CHANGE)


async def test_a_node_that_has_changed_is_not_written(world: World) -> None:
    judged = await world.create(node("n1", "aws://1"))
    await world.admin.of(type(judged)).delete("n1")
    await world.create(node("n1", "gce://1"))
    writer = NodeWriter(world.manager, {"aws"})
    for write in (
        writer.initialise(judged, CHANGE),
        writer.set_labels(judged, {"a": "b"}),
        writer.set_taints(judged, ()),
        writer.set_addresses(judged, ()),
        writer.set_condition(judged, NodeCondition(type="X", status="True")),
        writer.delete(judged),
    ):
        with pytest.raises(api_errors.Conflict):
            await write
    assert (await world.get("n1")).metadata.labels == {}


async def test_another_node_of_the_same_name_is_not_deleted(world: World) -> None:
    judged = await world.create(node("n1", "aws://1"))
    await world.admin.of(type(judged)).delete("n1")
    await world.create(node("n1", "aws://1"))
    with pytest.raises(api_errors.Conflict):
        await NodeWriter(world.manager, {"aws"}).delete(judged)
