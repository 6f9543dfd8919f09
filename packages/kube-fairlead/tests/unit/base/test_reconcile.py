from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.base.reconcile import reconcile
from kube_fairlead.base.workqueue import WorkQueue


class LeaseLost(Exception):
    """Ends the loop."""


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
            fatal=(LeaseLost,),
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
        raise LeaseLost("over")

    bench.queue.add("a")
    with pytest.RaisesGroup(LeaseLost):
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


async def test_without_a_request_to_stop_it_runs_until_it_is_cancelled() -> None:
    bench = Bench()
    bench.queue.add("a")
    async with tasks.TaskScope("test") as scope:
        running = scope.start(run(reconcile(bench.queue, bench.slow, name="test", clock=bench.clock)), name="run")
        await bench.clock.advance(60)
        assert bench.done == ["a"]
        assert not running.done()
        await tasks.cancel_and_wait(running)
    assert bench.queue.is_shut_down
    assert tasks.live_tasks() == ()


@pytest.mark.parametrize(
    ("failure", "levels"),
    [(LookupError("not yet"), ["DEBUG"]), (ZeroDivisionError("a bug"), ["ERROR"])],
    ids=["expected", "bug"],
)
async def test_an_expected_failure_is_one_line_and_a_bug_has_a_traceback(
    failure: Exception, levels: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    failures = [failure]

    async def failing(key: str) -> None:
        if key == "a" and failures:
            raise failures.pop()
        bench.done.append(key)

    for key in "ab":
        bench.queue.add(key)
    with caplog.at_level("DEBUG", logger="fairlead"):
        async with tasks.TaskScope("test") as scope:
            loop = reconcile(
                bench.queue,
                failing,
                name="test",
                clock=bench.clock,
                stopping=bench.stopping,
                expected=(LookupError,),
                expected_level="debug",
            )
            scope.start(run(loop), name="run")
            await bench.clock.advance(1)
            bench.stopping.set()
    assert bench.done == ["b", "a"]
    logged = [record for record in caplog.records if record.getMessage().startswith("reconcile failed")]
    assert [record.levelname for record in logged] == levels
    assert [bool(record.exc_info) for record in logged] == [level == "ERROR" for level in levels]


async def test_by_default_every_failure_is_a_warning_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()

    async def failing(_key: str) -> None:
        bench.stopping.set()
        raise LookupError("not yet")

    bench.queue.add("a")
    with caplog.at_level("DEBUG", logger="fairlead"):
        await bench.run(failing)
    logged = [record for record in caplog.records if record.getMessage().startswith("reconcile failed")]
    assert [(record.levelname, bool(record.exc_info)) for record in logged] == [("WARNING", False)]
