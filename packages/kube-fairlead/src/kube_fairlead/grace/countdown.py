"""Waits for a deadline that other clients may move."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Coroutine
from typing import Any, TypeVar

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.tasks import TaskSet
from kube_fairlead.grace import grace_period

__all__ = ["Countdown", "DeadlinePassed"]

_T = TypeVar("_T")

# The deadline is wall time, which may jump; no wait is longer than this before it is looked at again.
_LONGEST_SLEEP_SECONDS = 30.0


class DeadlinePassed(Exception):
    """The time that was granted for clean-up is over: what is left is to be forced."""


class Countdown:
    """The time that is left for one object.

    Feed it every newer state of the object (`update`), or let `follow` do so. Waiters are woken when the deadline
    comes, also when it comes earlier than it was when the wait began.

    Invariant: what has expired stays expired. An API server never extends a deadline that it shortened, so a later
    deadline after an expired one is an old state that arrived late.
    """

    def __init__(
        self, clock: Clock, item: grace_period.Object, *, native: bool = False, default_seconds: float | None = None
    ) -> None:
        self._clock = clock
        self._native = native
        self._default_seconds = default_seconds
        self._changed = asyncio.Event()
        self._expired = False
        self.is_gone = False  # the object was removed: its clean-up is no longer needed
        self.grace = grace_period.read(item, native=native)

    @property
    def deadline(self) -> dt.datetime | None:
        """Until when, as known now; None when there is no deadline."""
        return None if self.grace is None else self.grace.deadline_or(self._default_seconds)

    @property
    def remaining(self) -> float | None:
        """Seconds that are left; None when there is no deadline."""
        if self._expired:
            return 0.0
        ends = self.deadline
        return None if ends is None else max(0.0, (ends - self._clock.now()).total_seconds())

    @property
    def is_forced(self) -> bool | None:
        """Whether the deletion was forced (no grace at all); None when that is unknown."""
        return False if self.grace is None else self.grace.forced

    def update(self, item: grace_period.Object) -> None:
        """The object has changed."""
        self.grace = grace_period.read(item, native=self._native)
        self._changed.set()

    def gone(self) -> None:
        """The object was removed."""
        self.is_gone = True
        self._changed.set()

    async def wait(self) -> None:
        """Return when the deadline has come, or the object has gone. Without a deadline, wait for one."""
        while not self.is_gone:
            left = self.remaining
            if left == 0:
                self._expired = True
                return
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with self._clock.timeout(
                    _LONGEST_SLEEP_SECONDS if left is None else min(left, _LONGEST_SLEEP_SECONDS)
                ):
                    await self._changed.wait()

    async def within(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Do some work, for as long as there is time; its result.

        Raises:
            DeadlinePassed: time was up first, or the object has gone. The work was cancelled and has ended.
        """
        tasks = TaskSet("grace", on_failure=lambda _failure: None)  # the failure comes out of `result` below
        try:
            job = tasks.start(work, name="work")
            timer = tasks.start(self.wait(), name="deadline")
            await asyncio.wait({job, timer}, return_when=asyncio.FIRST_COMPLETED)
            if job.done():
                return job.result()
        finally:
            await tasks.close()
        if not job.cancelled():
            return job.result()  # it finished in spite of being cancelled
        raise DeadlinePassed("the object has gone" if self.is_gone else "the grace period is over")
