"""The disk under the simulated API server: slow, sometimes full, and forgetful of what was not synced.

An append takes time; the rows are durable at one moment within it, unknown to the server until the answer comes. A
process that dies in between leaves either all of the batch or nothing of it, as a journalled database does, and a torn
batch is one of which nothing is left.
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
    """What survives the server's processes."""

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
        """Begin with what is on another one."""
        self._rows = dict(other._rows)
        self._compacted = other._compacted
        self.newest = other.newest

    def open(self) -> DiskHandle:
        """For one life of the server."""
        return DiskHandle(self)

    def load(self) -> tuple[int, Iterator[Row]]:
        """What is durable."""
        return self._compacted, iter([self._rows[revision] for revision in sorted(self._rows)])

    def sync_seconds(self) -> float:
        """How long the next half of a sync takes."""
        return self._randomness.uniform(*_SYNC_SECONDS) * self.slowness

    def store(self, rows: Sequence[Row]) -> None:
        """From now on durable."""
        for row in rows:
            self._rows[row.revision] = row
            self.newest = row.revision
            self.on_commit(row)

    def drop(self, revision: int, superseded: Sequence[int]) -> None:
        """Forget the named rows."""
        for dropped in superseded:
            self._rows.pop(dropped, None)
        self._compacted = max(self._compacted, revision)


class DiskHandle:
    """The log of one life of the server. Its process may die in any of the waits."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def load(self) -> tuple[int, Iterator[Row]]:
        """What is durable."""
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
        """What is short: everything, or nothing."""
        return "no space left on device" if self._disk.is_full else None

    async def close(self) -> None:
        """Nothing is held."""
