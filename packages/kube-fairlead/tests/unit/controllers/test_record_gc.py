"""What shortens records, on the embedded API server."""

from __future__ import annotations

import contextlib
import datetime as dt

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import NodeLifecycleRecord, PodOutcome, RecordEntry
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.controllers.record_gc import record_gc
from kube_fairlead.lifecycle import records
from tests.unit.controllers.stage import a_node, running
from tests.unit.election.world import World


def collecting(world: World, gone_nodes: int = 2) -> contextlib.AbstractAsyncContextManager[PrometheusMetrics]:
    return running(world, record_gc(records.RecordRetention(entries=dt.timedelta(hours=10), gone_nodes=gone_nodes)))


async def add(world: World, node: str, *hours: float) -> None:
    """A record whose entries were completed so many hours from now."""
    now = world.clock.now()
    entries = tuple(
        RecordEntry(
            event_uid=f"{node}-{number}",
            event_name="e",
            transition_name="t",
            result="Succeeded",
            completion_time=now + dt.timedelta(hours=number),
            pods=(PodOutcome(name="web", uid="1"),),
        )
        for number in sorted(hours, reverse=True)
    )
    await world.admin.of(NodeLifecycleRecord).create(
        NodeLifecycleRecord(metadata=ObjectMeta(name=node), entries=entries)
    )


async def left(world: World) -> dict[str, int]:
    return {one.name: len(one.entries) for one in (await world.admin.of(NodeLifecycleRecord).list()).items}


async def test_entries_go_in_time_and_what_is_left_is_whole(world: World) -> None:
    await a_node(world, "n")
    await add(world, "n", 0, 5)
    async with collecting(world):
        await world.clock.advance(9.9 * 3600)
        assert await left(world) == {"n": 2}
        await world.clock.advance(0.2 * 3600)
        record = await world.admin.of(NodeLifecycleRecord).get("n")
        assert [entry.event_uid for entry in record.entries] == ["n-5"]
        assert [pod.name for pod in record.entries[0].pods] == ["web"]
        assert record.dropped_entries == 1
        await world.clock.advance(5 * 3600)
        assert await left(world) == {}


async def test_records_of_nodes_that_come_and_go_are_bounded(world: World) -> None:
    for number in range(4):
        await a_node(world, f"n{number}")
        await add(world, f"n{number}", number)
    async with collecting(world):
        await world.clock.advance(60)
        assert len(await left(world)) == 4
        for number in range(4):
            await world.admin.of(Node).delete(f"n{number}")
        await world.clock.advance(60)
        assert await left(world) == {"n2": 1, "n3": 1}
