"""The clock of one simulated machine: it can be wrong, drift and jump."""

from __future__ import annotations

import asyncio
import datetime as dt
from contextlib import AbstractAsyncContextManager
from typing import Final

from kube_fairlead.base.timeouts import timeout
from kube_fairlead_lab.sim.loop import SimLoop

__all__ = ["EPOCH", "SimClock"]

EPOCH: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class SimClock:
    """The time as processes of one machine see it. `rate` is the number of its seconds per true second."""

    def __init__(self, loop: SimLoop, *, rate: float = 1.0, offset_seconds: float = 0.0) -> None:
        self._loop = loop
        self.rate = rate
        self.offset_seconds = offset_seconds

    @property
    def is_about_right(self) -> bool:
        """Whether it is within a second of the true time, drift aside."""
        return abs(self.offset_seconds) <= 1.0

    def now(self) -> dt.datetime:
        """Return the time of day on this machine."""
        return EPOCH + dt.timedelta(seconds=self._loop.time() * self.rate + self.offset_seconds)

    def monotonic(self) -> float:
        """Seconds since the start, by this clock."""
        return self._loop.time() * self.rate

    async def sleep(self, seconds: float) -> None:
        """Wait this number of seconds, by this clock."""
        await asyncio.sleep(seconds / self.rate)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Raise TimeoutError when the block takes longer, by this clock."""
        return timeout(None if seconds is None else seconds / self.rate)

    def jump(self, seconds: float) -> None:
        """Set the clock forward or back."""
        self.offset_seconds += seconds
