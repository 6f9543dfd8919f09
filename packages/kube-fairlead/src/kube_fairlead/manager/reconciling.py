"""The loop of a controller: take a key, make things right for it, take the next. And how that loop ends.

Asked to stop, a worker takes nothing new and finishes what it has in hand: no call to the API server is cut short, so
nothing is written after the lease was given to somebody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from kube_fairlead.base import logs, tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.base.workqueue import QueueShutDown, WorkQueue
from kube_fairlead.election import NotLeading

__all__ = ["reconcile"]

_K = TypeVar("_K", bound=Hashable)

_log = logs.get_logger(__name__)


async def reconcile(
    queue: WorkQueue[_K],
    handle: Callable[[_K], Awaitable[float | None]],
    *,
    name: str,
    stopping: asyncio.Event,
    clock: Clock,
    metrics: Metrics,
    workers: int = 1,
) -> None:
    """Work on a queue's keys until asked to stop.

    Args:
        queue: is shut down at the end.
        handle: makes things right for one key. It may return seconds after which to look again; when it fails, the
            key comes back, each time later.
        name: the controller's.
        stopping: the request to stop.
        clock: for measuring.
        metrics: for counting.
        workers: how many keys at once.

    Raises:
        NotLeading: the lease is lost; nothing more can be done.
    """
    async with tasks.TaskScope(f"reconcile/{name}", on_exit=tasks.OnExit.WAIT) as scope:
        shutting = scope.start(_shut_down_when(stopping, queue), name="stop")
        running = [
            scope.start(_work(queue, handle, name, stopping, clock, metrics), name=f"worker-{number}")
            for number in range(workers)
        ]
        await asyncio.wait(running)
        shutting.cancel()


async def _shut_down_when(stopping: asyncio.Event, queue: WorkQueue[_K]) -> None:
    try:
        await stopping.wait()
    finally:
        queue.shut_down()


async def _work(
    queue: WorkQueue[_K],
    handle: Callable[[_K], Awaitable[float | None]],
    name: str,
    stopping: asyncio.Event,
    clock: Clock,
    metrics: Metrics,
) -> None:
    count = metrics.counter("fairlead_reconcile_total", "Keys that controllers worked on.", ["controller", "result"])
    seconds = metrics.histogram(
        "fairlead_reconcile_duration_seconds", "How long controllers worked on a key.", ["controller"]
    )
    while not stopping.is_set():
        try:
            key = await queue.get()
        except QueueShutDown:
            return
        try:
            if stopping.is_set():
                return
            begun = clock.monotonic()
            await _handle(queue, handle, key, lambda result: count.labels(controller=name, result=result).inc())
            seconds.labels(controller=name).observe(clock.monotonic() - begun)
        finally:
            queue.done(key)


async def _handle(
    queue: WorkQueue[_K], handle: Callable[[_K], Awaitable[float | None]], key: _K, count: Callable[[str], None]
) -> None:
    try:
        again = await handle(key)
    except NotLeading:
        raise
    except Exception as failure:  # noqa: BLE001 - whatever it is, this key comes back and the others go on
        count("error")
        _log.warning("reconciling failed", key=str(key), error=f"{type(failure).__name__}: {failure}")
        queue.add_rate_limited(key)
        return
    queue.forget(key)
    count("success" if again is None else "requeue")
    if again is not None:
        queue.add_after(key, again)
