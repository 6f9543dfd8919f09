"""A queue of keys to work on: each at most once in it, never by two workers at once, later when it failed.

Upstream: k8s.io/client-go@v0.36.4/util/workqueue/queue.go,
    k8s.io/client-go@v0.36.4/util/workqueue/delaying_queue.go,
    k8s.io/client-go@v0.36.4/util/workqueue/default_rate_limiters.go
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import AsyncIterator, Hashable
from typing import Generic, TypeVar

from kube_fairlead.base.backoff import Backoff
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness

__all__ = ["PER_ITEM", "QueueShutDown", "WorkQueue"]

_K = TypeVar("_K", bound=Hashable)

# client-go's: 5 ms, doubling, up to 1000 s.
PER_ITEM = Backoff(initial_seconds=0.005, factor=2.0, cap_seconds=1000.0, jitter=0.0)
# A timer may fire a rounding error before its time; waiting again for less than this would only spin.
_EARLY_SECONDS = 1e-6


class QueueShutDown(Exception):
    """There is nothing left to take, and nothing will be added."""


class WorkQueue(Generic[_K]):
    """Keys wait here until a worker takes them.

    Invariants:
    1. A key waits at most once, however often it is added.
    2. A key that is being worked on is given to no other worker; added meanwhile, it waits again when it is done.
    3. Keys are taken in the order in which they began to wait.
    4. After `shut_down` nothing is accepted, delayed keys are forgotten, and what waits can still be taken.
    """

    def __init__(self, clock: Clock, randomness: Randomness, *, backoff: Backoff = PER_ITEM) -> None:
        self._clock = clock
        self._randomness = randomness
        self._backoff = backoff
        self._waiting: dict[_K, None] = {}  # an ordered set
        self._working: set[_K] = set()
        self._again: set[_K] = set()
        self._delayed: list[tuple[float, int, _K]] = []
        self._due: dict[_K, float] = {}
        self._order = itertools.count()
        self._failures: dict[_K, int] = {}
        self._shut_down = False
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        """How many keys wait to be taken now; delayed ones and those in work do not count."""
        self._move_due()
        return len(self._waiting)

    @property
    def is_shut_down(self) -> bool:
        """Whether nothing is accepted any more."""
        return self._shut_down

    def add(self, key: _K) -> None:
        """Have the key worked on."""
        if self._shut_down:
            return
        if key in self._working:
            self._again.add(key)
            return
        self._waiting.setdefault(key)
        self._changed.set()

    def add_after(self, key: _K, delay_seconds: float) -> None:
        """Have the key worked on later. Of several delays for one key the shortest counts."""
        if delay_seconds <= 0:
            self.add(key)
            return
        if self._shut_down:
            return
        # Later than what counts as due, or a delay of a rounding error would return the key at once,
        # again and again, without a moment passing.
        due = self._clock.monotonic() + max(delay_seconds, 2 * _EARLY_SECONDS)
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            heapq.heappush(self._delayed, (due, next(self._order), key))
            self._changed.set()

    def add_rate_limited(self, key: _K) -> None:
        """Have a key worked on again that failed: each time in a row later."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, self._backoff.delay(failures, self._randomness))

    def forget(self, key: _K) -> None:
        """The key succeeded: its next failure is its first."""
        self._failures.pop(key, None)

    def failures(self, key: _K) -> int:
        """How often in a row the key was added by `add_rate_limited`."""
        return self._failures.get(key, 0)

    async def get(self) -> _K:
        """Wait for a key and take it. Call `done` with it, whatever comes of it; `take` does so by itself.

        Raises:
            QueueShutDown: the queue is shut down and empty.
        """
        while True:
            self._move_due()
            if self._waiting:
                key = next(iter(self._waiting))
                del self._waiting[key]
                self._working.add(key)
                return key
            if self._shut_down:
                raise QueueShutDown
            await self._wait_for_change(self._delayed[0][0] if self._delayed else None)

    def done(self, key: _K) -> None:
        """The work on a key has ended."""
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self._waiting.setdefault(key)
        self._changed.set()

    @contextlib.asynccontextmanager
    async def take(self) -> AsyncIterator[_K]:
        """Wait for a key; the work on it ends with the block."""
        key = await self.get()
        try:
            yield key
        finally:
            self.done(key)

    def shut_down(self) -> None:
        """Accept nothing more. Workers get what waits, then QueueShutDown."""
        self._shut_down = True
        self._delayed.clear()
        self._due.clear()
        self._changed.set()

    async def drain(self) -> None:
        """Shut down and wait until workers have taken and finished everything that waited."""
        self.shut_down()
        while self._waiting or self._working:
            await self._wait_for_change(None)

    async def _wait_for_change(self, until: float | None) -> None:
        self._changed.clear()
        seconds = None if until is None else max(0.0, until - self._clock.monotonic())
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(seconds):
                await self._changed.wait()

    def _move_due(self) -> None:
        now = self._clock.monotonic() + _EARLY_SECONDS
        while self._delayed and self._delayed[0][0] <= now:
            due, _, key = heapq.heappop(self._delayed)
            # A key that was given a shorter delay later has an older entry, which no longer counts.
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
