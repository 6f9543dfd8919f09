"""Looking after open watches: when they end, and when they are told how far they have come.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/get.go,
    k8s.io/apiserver@v0.36.4/pkg/storage/cacher/cache_watcher.go
"""

from __future__ import annotations

import msgspec

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness
from kube_fairlead_apiserver.storage.records import Entry
from kube_fairlead_apiserver.storage.store import Store
from kube_fairlead_apiserver.storage.watching import Notice, Watcher, size_of_notice

__all__ = ["BOOKMARK_SECONDS", "MIN_TIMEOUT_SECONDS", "OpenWatch", "WatchKeeper", "bookmark"]

BOOKMARK_SECONDS = 60
MIN_TIMEOUT_SECONDS = 1800
_LAST_BOOKMARK_SECONDS = 2


class OpenWatch(msgspec.Struct, eq=False):
    """A watch that is looked after: when it ends, and when its next bookmark is due."""

    watcher: Watcher
    ends_at: float
    bookmark_at: float | None


class WatchKeeper:
    """Ends watches that have run their time and sends bookmarks: one task for all, instead of timers for each."""

    def __init__(self, store: Store, clock: Clock, randomness: Randomness) -> None:
        self._store = store
        self._clock = clock
        self._randomness = randomness
        self._open: dict[OpenWatch, None] = {}

    async def run(self) -> None:
        """Look after the open watches once a second."""
        while True:
            await self._clock.sleep(1)
            self._look_after(self._clock.monotonic())

    def _look_after(self, now: float) -> None:
        for kept in list(self._open):
            if kept.ends_at <= now:
                kept.watcher.end()
            elif kept.bookmark_at is not None and kept.bookmark_at <= now:
                last = kept.ends_at - _LAST_BOOKMARK_SECONDS
                kept.bookmark_at = min(now + BOOKMARK_SECONDS, last) if now < last else None
                notice = bookmark(self._store.revision)
                kept.watcher.offer(notice, size_of_notice(notice))

    def keep(self, watcher: Watcher, *, timeout_seconds: int, bookmarks: bool) -> OpenWatch:
        """Look after a watch until `release`."""
        now = self._clock.monotonic()
        # Clients that name no end are spread out, so that they do not all come back at once.
        timeout = timeout_seconds or MIN_TIMEOUT_SECONDS * (1 + self._randomness.random())
        ends_at = now + timeout
        # One bookmark comes shortly before the end, so that whoever resumes need not hear of the past again.
        first = min(now + BOOKMARK_SECONDS, max(now, ends_at - _LAST_BOOKMARK_SECONDS))
        kept = OpenWatch(watcher, ends_at, first if bookmarks else None)
        self._open[kept] = None
        return kept

    def release(self, kept: OpenWatch) -> None:
        """Stop looking after a watch."""
        self._open.pop(kept, None)

    def __len__(self) -> int:
        return len(self._open)


def bookmark(revision: int) -> Notice:
    """A notice that says only how far the watch has come."""
    return "BOOKMARK", Entry("", revision, b"", {}, {}), None
