"""Timers of open watches: when each ends, and when each gets its next bookmark.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/get.go,
    k8s.io/apiserver@v0.36.4/pkg/storage/cacher/cache_watcher.go
"""

from __future__ import annotations

import msgspec

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness
from kube_fairlead_apiserver.storage.entries import Entry
from kube_fairlead_apiserver.storage.store import Store
from kube_fairlead_apiserver.storage.watchers import Notice, Watcher, size_of_notice

__all__ = ["BOOKMARK_SECONDS", "MIN_TIMEOUT_SECONDS", "WatchTimer", "WatchTimers", "bookmark"]

BOOKMARK_SECONDS = 60
MIN_TIMEOUT_SECONDS = 1800
_LAST_BOOKMARK_SECONDS = 2


class WatchTimer(msgspec.Struct, eq=False):
    """The timer of one watch: when it ends, and when its next bookmark is due."""

    watcher: Watcher
    ends_at: float
    bookmark_at: float | None


class WatchTimers:
    """Ends expired watches and sends bookmarks. One task serves all watches, instead of two timers for each."""

    def __init__(self, store: Store, clock: Clock, randomness: Randomness) -> None:
        self._store = store
        self._clock = clock
        self._randomness = randomness
        self._open: dict[WatchTimer, None] = {}

    async def run(self) -> None:
        """Check every timer once a second."""
        while True:
            await self._clock.sleep(1)
            self._expire(self._clock.monotonic())

    def _expire(self, now: float) -> None:
        for timer in list(self._open):
            if timer.ends_at <= now:
                timer.watcher.end()
            elif timer.bookmark_at is not None and timer.bookmark_at <= now:
                last = timer.ends_at - _LAST_BOOKMARK_SECONDS
                timer.bookmark_at = min(now + BOOKMARK_SECONDS, last) if now < last else None
                notice = bookmark(self._store.revision)
                timer.watcher.offer(notice, size_of_notice(notice))

    def start(self, watcher: Watcher, *, timeout_seconds: int, bookmarks: bool) -> WatchTimer:
        """Time a watch until `stop`."""
        now = self._clock.monotonic()
        # A watch without a timeout ends at a random time, so that clients do not all reconnect at once.
        timeout = timeout_seconds or MIN_TIMEOUT_SECONDS * (1 + self._randomness.random())
        ends_at = now + timeout
        # The last bookmark is sent shortly before the end, so that a client that resumes receives no change twice.
        first = min(now + BOOKMARK_SECONDS, max(now, ends_at - _LAST_BOOKMARK_SECONDS))
        timer = WatchTimer(watcher, ends_at, first if bookmarks else None)
        self._open[timer] = None
        return timer

    def stop(self, timer: WatchTimer) -> None:
        """Stop timing a watch."""
        self._open.pop(timer, None)

    def __len__(self) -> int:
        return len(self._open)


def bookmark(revision: int) -> Notice:
    """Return a bookmark: a notice with a revision and no object."""
    return "BOOKMARK", Entry("", revision, b"", {}, {}), None
