"""Group commit: when a commit begins. At once for one writer, a moment later for many."""

from __future__ import annotations

import asyncio

from kube_fairlead.base.clock import Clock

__all__ = ["GroupCommit"]

_MOST_SECONDS = 0.01
_LEAST_SECONDS = 0.0005  # below this duration, waiting gains nothing


class GroupCommit:
    """Waits for writers that write again as soon as they get their response.

    A commit costs the same for one write as for fifty. If each commit began as soon as the last one ended, many writers
    would split into two halves that wait for each other. So a commit waits until as many writes are queued as the last
    commit left behind or finished, and at most half of that commit's duration. A single writer never waits.
    """

    def __init__(self, clock: Clock | None) -> None:
        self._clock = clock
        self._expected = 0
        self._patience_seconds = 0.0
        self._enough = asyncio.Event()

    def arrived(self, waiting: int) -> None:
        """Note one more waiting write."""
        if waiting >= self._expected:
            self._enough.set()

    async def wait(self, waiting: int) -> None:
        """Return when the next commit should begin."""
        if self._clock is None or waiting >= self._expected or self._patience_seconds < _LEAST_SECONDS:
            return
        self._enough.clear()
        try:
            async with self._clock.timeout(self._patience_seconds):
                await self._enough.wait()
        except TimeoutError:
            pass

    def begin(self) -> float:
        """Note that a commit begins."""
        return 0.0 if self._clock is None else self._clock.monotonic()

    def end(self, began: float, *, answered: int, waiting: int) -> None:
        """Note that a commit has ended, while other writes wait for the next one."""
        if self._clock is not None:
            crowd = answered + waiting
            self._expected = crowd if crowd > 2 else 0
            self._patience_seconds = min((self._clock.monotonic() - began) / 2, _MOST_SECONDS)
