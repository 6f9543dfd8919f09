"""The stall reporter on the embedded API server."""

from __future__ import annotations

import datetime as dt

import pytest

from kube_fairlead.api import core_v1, wire
from kube_fairlead.api.coordination_v1 import Lease, LeaseSpec
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, Progress
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import NAMESPACE_NODE_LEASE
from kube_fairlead.controllers.stall import stall
from kube_fairlead.lifecycle.stalls import StallLimits
from tests.unit.controllers.stage import a_node, a_transition, an_event, claim, running
from tests.unit.election.world import World

PATIENCE = StallLimits(
    pending=dt.timedelta(minutes=10), claimed=dt.timedelta(minutes=20), terminating=dt.timedelta(minutes=30)
)


async def told(world: World, name: str) -> list[str]:
    """What the Events about a LifecycleEvent say."""
    page = await world.admin.of(core_v1.Event).list(namespace="default")
    return [one.message for one in page.items if one.involved_object.name == name and one.reason == "Stalled"]


def stalled(exposition: bytes, stage: str) -> float:
    line = f'fairlead_stalled_events{{stage="{stage}"}} '
    return next(float(text.removeprefix(line)) for text in exposition.decode().splitlines() if text.startswith(line))


async def an_agent(world: World, node: str) -> None:
    spec = LeaseSpec(holder_identity="agent", lease_duration_seconds=40, renew_time=world.clock.now())
    await world.admin.of(core_v1.Namespace).create(core_v1.Namespace(metadata=ObjectMeta(name=NAMESPACE_NODE_LEASE)))
    await world.admin.of(Lease).create(Lease(metadata=ObjectMeta(name=node, namespace=NAMESPACE_NODE_LEASE), spec=spec))


async def test_what_is_pending_for_too_long_is_told_once_in_a_while(world: World) -> None:
    await a_transition(world)
    await a_node(world, "n")
    await an_event(world, "e", "n")
    async with running(world, stall(PATIENCE)) as metrics:
        await world.clock.advance(590)
        assert await told(world, "e") == []
        assert stalled(metrics.exposition(), "Pending") == 0
        await world.clock.advance(20)
        (note,) = await told(world, "e")
        assert note.startswith("Pending since ")
        assert note.endswith(f"the node has no claimant: there is no Lease {NAMESPACE_NODE_LEASE}/n")
        assert stalled(metrics.exposition(), "Pending") == 1
        await world.clock.advance(900)
        events = (await world.admin.of(core_v1.Event).list(namespace="default")).items
        series = [one.series for one in events if one.reason == "Stalled"]
        assert len(series) == 1
        assert series[0] is not None
        assert (series[0].count or 0) >= 3
        await world.admin.of(LifecycleEvent).delete("e")
        await world.clock.advance(1)
        assert stalled(metrics.exposition(), "Pending") == 0
        assert 'fairlead_stalls_total{stage="Pending"} 1.0' in metrics.exposition().decode()


async def test_what_is_claimed_for_too_long_is_told_with_its_progress_and_what_waits_for_it(world: World) -> None:
    await a_transition(world)
    node = await a_node(world, "n")
    status = wire.replace(claim(world, node), progress=Progress(done=3, total=10, unit="pods"))
    await an_event(world, "first", "n", status)
    await an_event(world, "second", "n")
    async with running(world, stall(PATIENCE)) as metrics:
        await world.clock.advance(1180)
        assert await told(world, "first") == []
        assert (await told(world, "second"))[0].endswith("event first is carried out on the node first")
        await world.clock.advance(30)
        (note,) = await told(world, "first")
        assert "driver x.example.com/y has not reached the start state" in note
        assert "it is at 3 of 10 pods" in note
        assert stalled(metrics.exposition(), "Claimed") == 1
        # Progress is no news, however often it comes.
        events = world.admin.of(LifecycleEvent)
        for done in range(4, 8):
            event = await events.get("first")
            progress = Progress(done=done, total=10, unit="pods")
            await events.update_status(wire.replace(event, status=wire.replace(event.status, progress=progress)))
            await world.clock.advance(1)
        assert await told(world, "first") == [note]
    # A follower knows of none.
    assert stalled(metrics.exposition(), "Claimed") == 0


@pytest.mark.parametrize("agent", [True, False])
async def test_what_is_terminating_for_too_long_says_who_holds_it(world: World, agent: bool) -> None:
    await a_transition(world)
    node = await a_node(world, "n")
    if agent:
        await an_agent(world, "n")
    await an_event(world, "e", "n", claim(world, node))
    await world.admin.of(LifecycleEvent).delete("e")
    async with running(world, stall(PATIENCE)) as metrics:
        await world.clock.advance(1810)
        notes = await told(world, "e")
        assert any("Terminating since" in note and "its transition is carried out first: " in note for note in notes)
        silent = "agent does not renew its Lease" if agent else "the node has no claimant"
        assert all(silent in note for note in notes)
        assert stalled(metrics.exposition(), "Terminating") == 1
        assert stalled(metrics.exposition(), "Claimed") == 0
