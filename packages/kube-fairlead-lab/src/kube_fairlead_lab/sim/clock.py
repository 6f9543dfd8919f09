"""The clock of one simulated machine: it may be wrong, run fast or slow, and jump."""

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
    """What processes of one machine see of time. `rate` is how many of its seconds pass in a true one."""

    def __init__(self, loop: SimLoop, *, rate: float = 1.0, offset_seconds: float = 0.0) -> None:
        self._loop = loop
        self.rate = rate
        self.offset_seconds = offset_seconds

    @property
    def is_about_right(self) -> bool:
        """Whether nobody has set it wrong."""
        return abs(self.offset_seconds) <= 1.0

    def now(self) -> dt.datetime:
        """What the machine believes the time to be."""
        return EPOCH + dt.timedelta(seconds=self._loop.time() * self.rate + self.offset_seconds)

    def monotonic(self) -> float:
        """Its seconds since the start."""
        return self._loop.time() * self.rate

    async def sleep(self, seconds: float) -> None:
        """Wait so many of its seconds."""
        await asyncio.sleep(seconds / self.rate)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Raise TimeoutError when the block takes more of its seconds."""
        return timeout(None if seconds is None else seconds / self.rate)

    def jump(self, seconds: float) -> None:
        """Somebody sets the machine's clock."""
        self.offset_seconds += seconds
