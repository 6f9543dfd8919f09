"""Serves the protocol for a driver: each step of an event runs once, and is cancelled at the deadline."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.metrics import DiscardedMetrics, Metrics
from kube_fairlead.driverapi.errors import DriverGone
from kube_fairlead.driverapi.messages import OfferedTransition, Progress, Reached, Work
from kube_fairlead.drivers.sdk.driver import Driver

__all__ = ["Service"]

# An agent repeats a finished call only shortly afterwards. 1000 is more than the events of a busy day.
_REMEMBERED: Final = 1000


class Service:
    """Serves the calls for one driver.

    Guarantees:
    1. For one event uid, one call runs at a time: a later one waits until the earlier has returned or is cancelled.
    2. A step that has returned is not run again for the same event uid.
    3. No call runs after the deadline of its work.
    """

    def __init__(self, driver: Driver, clock: Clock, metrics: Metrics | None = None) -> None:
        self._driver = driver
        self._clock = clock
        self._metrics = _CallMetrics(metrics or DiscardedMetrics(), driver.name)
        self._locks: dict[str, asyncio.Lock] = {}
        self._done: dict[tuple[str, str], None] = {}  # an ordered set
        self._waiting = 0

    async def get_transitions(self, node_name: str) -> Sequence[OfferedTransition]:
        """The transitions that the driver offers."""
        return await self._driver.offered(node_name)

    async def start(self, work: Work) -> Reached:
        """Bring the node to the start state, unless that is done."""
        async with self._once(work, "start") as done:
            if not done:
                await self._driver.start(work)
        return Reached(state=work.start, node_name=work.node_name)

    async def end(self, work: Work, on_progress: Callable[[Progress], None]) -> Reached:
        """Bring the node to the end state, unless that is done."""
        async with self._once(work, "end") as done:
            if not done:
                await self._driver.end(work, on_progress)
        return Reached(state=work.end, node_name=work.node_name)

    @contextlib.asynccontextmanager
    async def _once(self, work: Work, step: str) -> AsyncIterator[bool]:
        key = (work.event_uid, step)
        lock = self._locks.setdefault(work.event_uid, asyncio.Lock())
        self._waiting += 1
        try:
            with self._metrics.call(step):
                async with self._until(work), lock:
                    yield key in self._done
                    self._done[key] = None
                    self._forget()
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._locks.clear()

    @contextlib.asynccontextmanager
    async def _until(self, work: Work) -> AsyncIterator[None]:
        if work.deadline is None:
            yield
            return
        seconds = (work.deadline - self._clock.now()).total_seconds()
        if seconds <= 0:
            raise DriverGone("deadline exceeded")
        try:
            async with self._clock.timeout(seconds):
                yield
        except TimeoutError as error:
            # A timeout inside the driver, before the deadline, fails the event; the agent reports the deadline.
            if self._clock.now() < work.deadline:
                raise
            raise DriverGone("deadline exceeded") from error

    def _forget(self) -> None:
        while len(self._done) > _REMEMBERED:
            del self._done[next(iter(self._done))]


class _CallMetrics:
    """Counts the agent's calls by result. An interrupted call is not a failure, because the agent repeats it."""

    def __init__(self, metrics: Metrics, driver: str) -> None:
        self._driver = driver
        self._calls = metrics.counter(
            "fairlead_driver_calls_total", "Calls of the agent, by step and result.", ["driver", "step", "result"]
        )
        self._running = metrics.gauge("fairlead_driver_calls_running", "Calls that are running.", ["driver", "step"])
        for step in ("start", "end"):
            self._running.labels(driver=driver, step=step).set(0)
            for result in ("done", "failed", "interrupted"):
                self._calls.labels(driver=driver, step=step, result=result)

    @contextlib.contextmanager
    def call(self, step: str) -> Iterator[None]:
        """Count one call while the block lasts."""
        running = self._running.labels(driver=self._driver, step=step)
        running.inc()
        result = "interrupted"
        try:
            yield
            result = "done"
        except DriverGone:
            raise
        except Exception:
            result = "failed"
            raise
        finally:
            running.dec()
            self._calls.labels(driver=self._driver, step=step, result=result).inc()
