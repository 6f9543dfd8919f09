from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.election import NotLeading
from kube_fairlead.manager.reconciling import reconcile


class Bench:
    """A queue under reconciliation."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.metrics = PrometheusMetrics()
        self.queue: WorkQueue[str] = WorkQueue(self.clock, SeededRandomness(1))
        self.stopping = asyncio.Event()
        self.done: list[str] = []

    def run(self, handle: Callable[[str], Awaitable[float | None]], workers: int = 1) -> Awaitable[None]:
        return reconcile(
            self.queue,
            handle,
            name="test",
            stopping=self.stopping,
            clock=self.clock,
            metrics=self.metrics,
            workers=workers,
        )

    async def slow(self, key: str) -> None:
        await self.clock.sleep(5)
        self.done.append(key)


async def run(work: Awaitable[None]) -> None:
    await work


async def test_workers_finish_what_they_have_and_take_nothing_new() -> None:
    bench = Bench()
    for key in "abcd":
        bench.queue.add(key)
    async with tasks.TaskScope("test") as scope:
        running = scope.start(run(bench.run(bench.slow, workers=2)), name="run")
        await bench.clock.advance(1)
        bench.stopping.set()
        await bench.clock.advance(3.9)
        assert not running.done()
        await bench.clock.advance(0.2)
        assert running.done()
    assert bench.done == ["a", "b"]


async def test_idle_workers_end_at_once() -> None:
    bench = Bench()
    async with tasks.TaskScope("test") as scope:
        running = scope.start(run(bench.run(bench.slow, workers=3)), name="run")
        await bench.clock.settle()
        bench.stopping.set()
        await bench.clock.settle()
        assert running.done()


async def test_a_failed_key_comes_back_later_and_later() -> None:
    bench = Bench()
    tries: list[float] = []

    async def failing(_key: str) -> None:
        tries.append(bench.clock.monotonic())
        if len(tries) < 4:
            raise LookupError("not yet")

    bench.queue.add("a")
    async with tasks.TaskScope("test") as scope:
        scope.start(run(bench.run(failing)), name="run")
        await bench.clock.advance(10)
        bench.stopping.set()
    assert tries == pytest.approx([0, 0.005, 0.015, 0.035])
    text = bench.metrics.exposition().decode()
    assert 'fairlead_reconcile_total{controller="test",result="error"} 3.0' in text
    assert 'fairlead_reconcile_total{controller="test",result="success"} 1.0' in text


async def test_a_key_may_ask_to_be_looked_at_again() -> None:
    bench = Bench()
    seen: list[float] = []

    async def again(_key: str) -> float:
        seen.append(bench.clock.monotonic())
        return 60

    bench.queue.add("a")
    async with tasks.TaskScope("test") as scope:
        scope.start(run(bench.run(again)), name="run")
        await bench.clock.advance(150)
        bench.stopping.set()
    assert seen == [0, 60, 120]


async def test_a_lost_lease_ends_it() -> None:
    bench = Bench()

    async def refused(_key: str) -> None:
        raise NotLeading("over")

    bench.queue.add("a")
    with pytest.RaisesGroup(NotLeading):
        await bench.run(refused, workers=2)


async def test_cancelling_ends_it() -> None:
    bench = Bench()
    bench.queue.add("a")
    async with tasks.TaskScope("test") as scope:
        running = scope.start(run(bench.run(bench.slow)), name="run")
        await bench.clock.advance(1)
        await tasks.cancel_and_wait(running)
    assert bench.done == []
    assert bench.queue.is_shut_down
    assert tasks.live_tasks() == ()
