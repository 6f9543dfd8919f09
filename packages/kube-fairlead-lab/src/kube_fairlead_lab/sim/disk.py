"""The disk of the simulated API server: it can be slow or full, and a crash loses what is not synced.

An append takes time. The rows become durable at one moment within it, before the server gets the result. If the process
is killed in between, either the whole batch is durable or none of it, as in a journalled database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kube_fairlead.base.randomness import Randomness
from kube_fairlead_apiserver.storage.interface import DiskFull, Row

__all__ = ["Disk", "DiskHandle"]

_SYNC_SECONDS: Final = (0.0001, 0.003)


class Disk:
    """What survives a crash of the server."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness
        self._rows: dict[int, Row] = {}
        self._compacted = 0
        self.is_full = False
        self.slowness = 1.0
        self.well_since = 0.0
        self.newest = 0
        self.on_commit: Callable[[Row], None] = lambda _row: None

    def copy_from(self, other: Disk) -> None:
        """Start with the content of another disk."""
        self._rows = dict(other._rows)
        self._compacted = other._compacted
        self.newest = other.newest

    def open(self) -> DiskHandle:
        """Return a handle for one process of the server."""
        return DiskHandle(self)

    def load(self) -> tuple[int, Iterator[Row]]:
        """Return the durable rows."""
        return self._compacted, iter([self._rows[revision] for revision in sorted(self._rows)])

    def sync_seconds(self) -> float:
        """Duration of the next half of a sync."""
        return self._randomness.uniform(*_SYNC_SECONDS) * self.slowness

    def store(self, rows: Sequence[Row]) -> None:
        """Make rows durable."""
        for row in rows:
            self._rows[row.revision] = row
            self.newest = row.revision
            self.on_commit(row)

    def drop(self, revision: int, superseded: Sequence[int]) -> None:
        """Drop the named rows."""
        for dropped in superseded:
            self._rows.pop(dropped, None)
        self._compacted = max(self._compacted, revision)


class DiskHandle:
    """The log of one server process. The process can be killed in any of the waits."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def load(self) -> tuple[int, Iterator[Row]]:
        """Return the durable rows."""
        return self._disk.load()

    async def append(self, rows: Sequence[Row]) -> None:
        """Make the rows durable, all or none."""
        await asyncio.sleep(self._disk.sync_seconds())
        if self._disk.is_full:
            raise DiskFull("no space left on device")
        self._disk.store(rows)
        await asyncio.sleep(self._disk.sync_seconds())

    async def compact(self, revision: int, superseded: Sequence[int]) -> None:
        """Drop the named rows."""
        await asyncio.sleep(self._disk.sync_seconds())
        self._disk.drop(revision, superseded)

    async def make_room(self) -> str | None:
        """The reason why there is no room, or None."""
        return "no space left on device" if self._disk.is_full else None

    async def close(self) -> None:
        """Nothing to close."""
