"""The loop of every controller: take a key from the queue, reconcile it, take the next.

When the loop is asked to stop, a worker takes no new key and finishes the one it has. No call to the API server is cut
short, so nothing is written after the lease was released to another process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, Literal, TypeVar

from kube_fairlead.base import logs, tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.base.workqueue import QueueShutDown, WorkQueue

__all__ = ["reconcile"]

_K = TypeVar("_K", bound=Hashable)

_log = logs.get_logger(__name__)


async def reconcile(
    queue: WorkQueue[_K],
    handle: Callable[[_K], Awaitable[float | None]],
    *,
    name: str,
    clock: Clock,
    stopping: asyncio.Event | None = None,
    metrics: Metrics | None = None,
    workers: int = 1,
    fatal: tuple[type[Exception], ...] = (),
    expected: tuple[type[Exception], ...] = (Exception,),
    expected_level: Literal["debug", "warning"] = "warning",
) -> None:
    """Reconcile a queue's keys until asked to stop, or until cancelled.

    Args:
        queue: is shut down at the end.
        handle: reconciles one key. It may return the seconds after which the key is reconciled again. After a failure
            the key is retried with backoff.
        name: the controller's name, for tasks, logs and metrics.
        clock: measures how long a key takes.
        stopping: the request to stop; without one the loop runs until it is cancelled.
        metrics: counts keys and their durations; without it nothing is counted.
        workers: how many keys are reconciled at once.
        fatal: exceptions that end the loop, such as a lost lease.
        expected: exceptions that are logged in one line. Any other exception is a bug and is logged with its traceback.
        expected_level: the log level of expected exceptions.

    Raises:
        ExceptionGroup: of the fatal exceptions.
    """
    loop = _Loop(queue, handle, name, clock, stopping, metrics, fatal, expected, expected_level)
    async with tasks.TaskScope(f"reconcile/{name}", on_exit=tasks.OnExit.WAIT) as scope:
        shutting = scope.start(_shut_down_when(stopping, queue), name="stop")
        running = [scope.start(loop.work(), name=f"worker-{number}") for number in range(workers)]
        await asyncio.wait(running)
        shutting.cancel()


async def _shut_down_when(stopping: asyncio.Event | None, queue: WorkQueue[_K]) -> None:
    try:
        await (stopping or asyncio.Event()).wait()
    finally:
        queue.shut_down()


class _Loop(Generic[_K]):
    """What the workers of one loop share."""

    def __init__(
        self,
        queue: WorkQueue[_K],
        handle: Callable[[_K], Awaitable[float | None]],
        name: str,
        clock: Clock,
        stopping: asyncio.Event | None,
        metrics: Metrics | None,
        fatal: tuple[type[Exception], ...],
        expected: tuple[type[Exception], ...],
        expected_level: Literal["debug", "warning"],
    ) -> None:
        self._queue = queue
        self._handle = handle
        self._name = name
        self._clock = clock
        self._stopping = stopping
        self._fatal = fatal
        self._expected = expected
        self._log_expected = _log.debug if expected_level == "debug" else _log.warning
        self._count = self._seconds = None
        if metrics is not None:
            self._count = metrics.counter(
                "fairlead_reconcile_total", "Keys reconciled by controllers.", ["controller", "result"]
            )
            self._seconds = metrics.histogram(
                "fairlead_reconcile_duration_seconds", "Time that one key took to reconcile.", ["controller"]
            )

    def _is_stopping(self) -> bool:
        return self._stopping is not None and self._stopping.is_set()

    async def work(self) -> None:
        """Reconcile one key after another."""
        while not self._is_stopping():
            try:
                key = await self._queue.get()
            except QueueShutDown:
                return
            try:
                if self._is_stopping():
                    return
                begun = self._clock.monotonic()
                result = await self._reconcile(key)
                if self._count is not None and self._seconds is not None:
                    self._count.labels(controller=self._name, result=result).inc()
                    self._seconds.labels(controller=self._name).observe(self._clock.monotonic() - begun)
            finally:
                self._queue.done(key)

    async def _reconcile(self, key: _K) -> str:
        try:
            again = await self._handle(key)
        except self._fatal:
            raise
        except self._expected as failure:
            error = f"{type(failure).__name__}: {failure}"
            self._log_expected("reconcile failed; retrying", controller=self._name, key=str(key), error=error)
        except Exception:  # noqa: BLE001 - a bug in one controller ends neither the process nor the other keys
            _log.exception("reconcile failed; retrying", controller=self._name, key=str(key))
        else:
            self._queue.forget(key)
            if again is None:
                return "success"
            self._queue.add_after(key, again)
            return "requeue"
        self._queue.add_rate_limited(key)
        return "error"
