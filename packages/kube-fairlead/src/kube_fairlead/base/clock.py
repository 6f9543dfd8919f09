"""Injectable time: the real clock, and a virtual one that moves only on request."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import heapq
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from kube_fairlead.base import timeouts

__all__ = ["Clock", "ClockStalled", "RealClock", "VirtualClock"]

# On Linux the clock that includes suspend: the holder of a Lease must notice that the machine was suspended.
_COUNTS_SLEEP: int | None = getattr(time, "CLOCK_BOOTTIME", None)
# A healthy program goes quiet after a few dozen turns of the loop; one that never does is spinning.
_TURNS_BEFORE_STALLED = 100_000
# Other event loops (uvloop) do not show what is ready to run; then this many turns must do.
_TURNS_WITHOUT_SIGHT = 200


class Clock(Protocol):
    """What a component may know about time, and how it waits."""

    def now(self) -> dt.datetime:
        """Wall time, aware, in UTC. May jump; never subtract two of these to measure a wait."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment. Never jumps back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait. Zero or less lets other tasks run once."""
        ...

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Cancel the block and raise TimeoutError when it takes longer; None means no limit."""
        ...


class ClockStalled(RuntimeError):
    """Raised when virtual time cannot move because the tasks never stop being ready to run."""


class RealClock:
    """The machine's clock."""

    def now(self) -> dt.datetime:
        """Wall time, in UTC."""
        return dt.datetime.now(dt.UTC)

    def monotonic(self) -> float:
        """Seconds since an arbitrary start, those spent asleep included where the system counts them."""
        return time.monotonic() if _COUNTS_SLEEP is None else time.clock_gettime(_COUNTS_SLEEP)

    async def sleep(self, seconds: float) -> None:
        """Wait that long."""
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Raise TimeoutError when the block takes longer."""
        return timeouts.timeout(seconds)


class VirtualClock:
    """A clock that stands still until `advance` moves it.

    Guarantees:
    1. Sleepers wake in the order of their deadlines; equal deadlines wake in the order they began to wait.
    2. When a sleeper wakes, the clock shows its deadline exactly, and everything that its waking makes ready has run
       before the clock moves on.
    3. `advance` returns when all tasks wait for something again.
    """

    def __init__(self, start: dt.datetime | None = None) -> None:
        self._start = start or dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        if self._start.tzinfo is None:
            raise ValueError("start must be an aware datetime")
        self._elapsed = 0.0
        self._order = itertools.count()
        # The heap orders the timers; one that was cancelled is only gone from `_waiting`.
        self._heap: list[tuple[float, int]] = []
        self._waiting: dict[int, Callable[[], object]] = {}

    def now(self) -> dt.datetime:
        """Wall time, in UTC."""
        return (self._start + dt.timedelta(seconds=self._elapsed)).astimezone(dt.UTC)

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was moved that far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wakened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._call_at(self._elapsed + seconds, lambda: _wake(wakened))
        try:
            await wakened
        finally:
            self._waiting.pop(timer, None)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Raise TimeoutError when the clock moves further than that before the block ends."""
        return self._timeout(seconds)

    @contextlib.asynccontextmanager
    async def _timeout(self, seconds: float | None) -> AsyncIterator[None]:
        # asyncio's own Timeout distinguishes its cancellation from others'; only its trigger is replaced.
        loop = asyncio.get_running_loop()
        async with timeouts.timeout(None) as real:
            if seconds is None:
                yield
                return
            if seconds <= 0:
                real.reschedule(loop.time())
                yield
                return
            timer = self._call_at(self._elapsed + seconds, lambda: real.reschedule(loop.time()))
            try:
                yield
            finally:
                self._waiting.pop(timer, None)

    def set_back(self, by: dt.timedelta) -> None:
        """Set the time of day back; a negative amount sets it forward. The monotonic clock is not affected."""
        self._start -= by

    @property
    def sleepers(self) -> int:
        """How many sleeps and timeouts wait for this clock."""
        return len(self._waiting)

    @property
    def next_deadline(self) -> float | None:
        """When the next sleeper wakes, on the monotonic scale; None when there is no sleeper."""
        while self._heap and self._heap[0][1] not in self._waiting:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    async def advance(self, seconds: float) -> None:
        """Move forward, waking every sleeper on the way at its own moment."""
        if seconds < 0:
            raise ValueError("time cannot go backwards")
        target = self._elapsed + seconds
        await self.settle()
        while (deadline := self.next_deadline) is not None and deadline <= target:
            self._fire_next()
            await self.settle()
        self._elapsed = target

    async def advance_to_next(self) -> bool:
        """Jump to the next sleeper's deadline and wake it; False when there is no sleeper."""
        await self.settle()
        if self.next_deadline is None:
            return False
        self._fire_next()
        await self.settle()
        return True

    async def settle(self) -> None:
        """Let every task run that can, without moving the clock."""
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        if ready is None:
            for _ in range(_TURNS_WITHOUT_SIGHT):
                await asyncio.sleep(0)
            return
        for _ in range(_TURNS_BEFORE_STALLED):
            await asyncio.sleep(0)
            if not ready:
                return
        raise ClockStalled(f"tasks are still busy after {_TURNS_BEFORE_STALLED} turns of the loop")

    def _call_at(self, deadline: float, callback: Callable[[], object]) -> int:
        number = next(self._order)
        heapq.heappush(self._heap, (deadline, number))
        self._waiting[number] = callback
        return number

    def _fire_next(self) -> None:
        deadline, number = heapq.heappop(self._heap)
        self._elapsed = max(self._elapsed, deadline)
        self._waiting.pop(number)()


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
