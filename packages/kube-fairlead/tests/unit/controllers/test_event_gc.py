"""The collector on the embedded API server."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, NodeLifecycleRecord
from kube_fairlead.base import tasks
from kube_fairlead.base.gates import FeatureGates
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.controllers.event_gc import event_gc
from kube_fairlead.lifecycle.garbage_collection import Retention
from kube_fairlead.manager import Context, HealthChecks
from tests.unit.controllers.stage import a_node, a_transition, an_event, claim, running
from tests.unit.election.world import World


def collecting(world: World) -> contextlib.AbstractAsyncContextManager[PrometheusMetrics]:
    return running(world, event_gc(Retention(keep=dt.timedelta(minutes=1)), workers=2))


async def state(world: World, name: str) -> str:
    try:
        return (await world.admin.of(LifecycleEvent).get(name)).status.claim_status
    except api_errors.NotFound:
        return "gone"


async def recorded(world: World, node: str) -> list[tuple[str, str, str]]:
    try:
        record = await world.admin.of(NodeLifecycleRecord).get(node)
    except api_errors.NotFound:
        return []
    return [(entry.event_name, entry.result, entry.node_uid) for entry in record.entries]


async def test_events_of_a_node_that_goes_away_fail_and_are_collected(world: World) -> None:
    await a_transition(world)
    gone, stays = await a_node(world, "gone"), await a_node(world, "stays")
    await an_event(world, "e1", "gone", claim(world, gone))
    await an_event(world, "e2", "stays", claim(world, stays))
    async with collecting(world) as metrics:
        await world.clock.advance(600)
        assert [await state(world, name) for name in ("e1", "e2")] == ["Claimed", "Claimed"]
        await world.admin.of(Node).delete("gone")
        await world.clock.advance(1)
        failed = await world.admin.of(LifecycleEvent).get("e1")
        assert failed.status.claim_status == "Failed"
        assert failed.status.message == f"node gone with uid {gone.uid} no longer exists"
        assert failed.metadata.finalizers == ()
        await world.clock.advance(58)
        assert await state(world, "e1") == "Failed"
        await world.clock.advance(3)
        assert [await state(world, name) for name in ("e1", "e2")] == ["gone", "Claimed"]
        assert await recorded(world, "gone") == [("e1", "Failed", gone.uid)]
        assert await recorded(world, "stays") == []
    assert 'fairlead_events_collected_total{action="Delete"} 1.0' in metrics.exposition().decode()


async def test_a_node_of_the_same_name_is_another_node(world: World) -> None:
    await a_transition(world)
    first = await a_node(world, "n")
    await an_event(world, "e", "n", claim(world, first))
    async with collecting(world):
        await world.admin.of(Node).delete("n")
        await a_node(world, "n")
        await world.clock.advance(1)
        assert await state(world, "e") == "Failed"


async def test_an_event_for_a_node_that_never_comes_fails(world: World) -> None:
    await a_transition(world)
    await an_event(world, "e", "nowhere")
    async with collecting(world):
        await world.clock.advance(290)
        assert await state(world, "e") == "Pending"
        await world.clock.advance(20)
        assert await state(world, "e") == "Failed"
        # A user may delete an event that nothing holds at any moment: its entry is there already.
        assert await recorded(world, "nowhere") == [("e", "Failed", "")]
        await world.clock.advance(70)
        assert await state(world, "e") == "gone"


async def test_it_ends_at_once_when_asked_before_it_could_begin(world: World) -> None:
    client = world.client("gc")
    world.network_of(client).cut()
    stopping = asyncio.Event()
    context = Context(
        name="event-gc",
        client=client,
        recorder=EventRecorder(client, controller="test", instance="test"),
        stopping=stopping,
        metrics=PrometheusMetrics(),
        gates=FeatureGates(),
        health=HealthChecks(),
    )

    async def run() -> None:
        await event_gc(Retention()).run(context)

    async with tasks.TaskScope("test") as scope:
        running = scope.start(run(), name="gc")
        await world.clock.advance(30)
        assert not running.done()
        stopping.set()
        await world.clock.settle()
        assert running.done()
