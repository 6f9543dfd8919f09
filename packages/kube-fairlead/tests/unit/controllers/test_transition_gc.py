"""The collector of transitions on the embedded API server."""

from __future__ import annotations

import contextlib
import datetime as dt

from kube_fairlead.api import wire
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleTransition
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.controllers.transition_gc import transition_gc
from kube_fairlead.lifecycle import offers
from tests.unit.controllers.stage import a_node, a_transition, an_event, running
from tests.unit.election.world import World


def collecting(world: World) -> contextlib.AbstractAsyncContextManager[PrometheusMetrics]:
    return running(world, transition_gc(dt.timedelta(hours=1)))


async def names(world: World) -> list[str]:
    return sorted(one.name for one in (await world.admin.of(LifecycleTransition).list()).items)


async def mark(world: World, name: str) -> None:
    """As an agent that published it now."""
    transitions = world.admin.of(LifecycleTransition)
    driver = (await transitions.get(name)).spec.driver
    annotations = offers.published_annotations(driver, world.clock.now())
    await transitions.patch(name, MergePatch({"metadata": {"annotations": annotations}}))


async def copy(world: World, name: str) -> None:
    transitions = world.admin.of(LifecycleTransition)
    (original,) = (await transitions.list()).items[:1]
    await transitions.create(
        wire.replace(
            LifecycleTransition(),
            metadata=wire.replace(original.metadata, name=name, uid="", resource_version=""),
            spec=original.spec,
        )
    )


async def test_only_what_no_driver_offers_goes(world: World) -> None:
    await a_transition(world)
    (users,) = await names(world)
    for name in ("left", "offered"):
        await copy(world, name)
        await mark(world, name)
    async with collecting(world):
        await world.clock.advance(3500)
        await mark(world, "offered")
        await world.clock.advance(200)
        assert await names(world) == sorted([users, "offered"])
        await world.clock.advance(3600)
        assert await names(world) == [users]


async def test_what_an_event_uses_stays_until_that_has_ended(world: World) -> None:
    await a_transition(world)
    (name,) = await names(world)
    await mark(world, name)
    await a_node(world, "n")
    await an_event(world, "e", "n")
    async with collecting(world):
        await world.clock.advance(4000)
        assert await names(world) == [name]
        await world.admin.of(LifecycleEvent).delete("e")
        await world.clock.advance(1)
        assert await names(world) == []
