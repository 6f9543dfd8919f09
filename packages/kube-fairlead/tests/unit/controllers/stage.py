"""Controllers as they run in a term, on the embedded API server, and what they look after."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import (
    FrozenTransition,
    LifecycleEvent,
    LifecycleEventSpec,
    LifecycleEventStatus,
    LifecycleTransition,
    LifecycleTransitionSpec,
)
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import FINALIZER_CLAIMED
from kube_fairlead.base import tasks
from kube_fairlead.base.gates import FeatureGates
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.manager import Context, Controller, HealthChecks
from tests.unit.election.world import World


@contextlib.asynccontextmanager
async def running(
    world: World, controller: Controller, *, seed: int = 1, lock: str = ""
) -> AsyncIterator[PrometheusMetrics]:
    """The controller runs as in a term, and ends when asked to. Chance is the same for those of the same seed."""
    client, metrics, stopping = world.client(controller.name, seed=seed), PrometheusMetrics(), asyncio.Event()
    recorder = EventRecorder(client, controller="test", instance="test")
    context = Context(
        name=controller.name,
        client=client,
        recorder=recorder,
        stopping=stopping,
        metrics=metrics,
        gates=FeatureGates(),
        health=HealthChecks(),
        workers=2,
        lock=lock,
    )

    async def run() -> None:
        await controller.run(context)

    async with recorder.running(), tasks.TaskScope("test") as scope:
        scope.start(run(), name=controller.name)
        await world.clock.advance(1)
        yield metrics
        stopping.set()


async def a_node(world: World, name: str) -> Node:
    return await world.admin.of(Node).create(Node(metadata=ObjectMeta(name=name)))


async def an_event(world: World, name: str, node: str, status: LifecycleEventStatus | None = None) -> LifecycleEvent:
    events = world.admin.of(LifecycleEvent)
    finalizers = (FINALIZER_CLAIMED,) if status is not None else ()
    made = await events.create(
        LifecycleEvent(
            metadata=ObjectMeta(name=name, finalizers=finalizers),
            spec=LifecycleEventSpec(transition_name="t", binding_node=node),
        )
    )
    return made if status is None else await events.update_status(wire.replace(made, status=status))


async def a_transition(world: World) -> None:
    spec = LifecycleTransitionSpec(start="a", end="b", driver="x.example.com/y", all_nodes=True)
    await world.admin.of(LifecycleTransition).create(LifecycleTransition(metadata=ObjectMeta(name="t"), spec=spec))


def claim(world: World, node: Node, *, by: str = "") -> LifecycleEventStatus:
    return LifecycleEventStatus(
        claim_status="Claimed",
        driver="x.example.com/y",
        claimed_by=by or f"node/{node.name}",
        node_uid=node.uid,
        transition=FrozenTransition(uid="u", start="a", end="b") if by else None,
        claim_time=world.clock.now(),
    )
