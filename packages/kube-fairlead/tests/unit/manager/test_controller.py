"""A controller reconciles under a lease: without the lease its loop ends."""

from __future__ import annotations

import asyncio
import types
from typing import Any, cast

import pytest

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.gates import FeatureGates
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.election import NotLeading
from kube_fairlead.manager.controller import Context
from kube_fairlead.manager.health import HealthChecks


def context(**changed: Any) -> Context:
    outside = types.SimpleNamespace(clock=VirtualClock(), randomness=SeededRandomness(1))
    made: dict[str, Any] = {
        "name": "test",
        "client": cast("Any", outside),
        "recorder": cast("Any", None),
        "stopping": asyncio.Event(),
        "metrics": PrometheusMetrics(),
        "gates": FeatureGates(),
        "health": HealthChecks(),
    }
    return Context(**{**made, **changed})


async def test_a_lost_lease_is_noticed_before_the_next_key() -> None:
    reconciled: list[str] = []

    def lost() -> None:
        if reconciled:
            raise NotLeading("over")

    async def handle(key: str) -> None:
        reconciled.append(key)

    here = context(check=lost)
    queue: WorkQueue[str] = here.queue()
    for key in "ab":
        queue.add(key)
    with pytest.RaisesGroup(NotLeading):
        await here.reconcile(queue, handle)
    assert reconciled == ["a"]
    assert queue.is_shut_down


async def test_a_refused_write_ends_the_loop() -> None:
    async def handle(_key: str) -> None:
        raise NotLeading("over")

    here = context()
    queue: WorkQueue[str] = here.queue()
    queue.add("a")
    with pytest.RaisesGroup(NotLeading):
        await here.reconcile(queue, handle)
