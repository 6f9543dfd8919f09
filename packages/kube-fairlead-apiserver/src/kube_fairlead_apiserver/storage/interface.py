"""The durable part of storage: an append-only log of rows that one process owns.

The guarantees of a log, which the store depends on:

1. When `append` returns, its rows are durable, all of them, in order. When it raises `DiskFull`, none is.
   After any other error that is unknown; the process must not continue to write.
2. `load` yields the rows that were appended and not dropped since, in the order of their revisions.
3. After `append` raised `DiskFull`, there is room for deletions and writes that lead to them, and for `compact`, as
   long as a reserve lasts. The last part of the reserve is only for rows without a value and for `compact`.
4. A damaged row is never skipped: `load` raises `CorruptLog`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

__all__ = ["CorruptLog", "DiskFull", "ForeignDatabase", "Log", "Row", "StorageError"]


class StorageError(Exception):
    """The storage failed; the message says what an operator can do."""


class CorruptLog(StorageError):
    """The stored data is damaged. Nothing of it is served."""


class ForeignDatabase(StorageError):
    """The file is intact and belongs to another program."""


class DiskFull(StorageError):
    """The disk is full. Nothing of the batch was written."""


class Row(msgspec.Struct, frozen=True, gc=False):
    """One change: the value that a key has from this revision on, or None when it was deleted."""

    revision: int
    table: str
    key: str
    value: bytes | None


class Log(Protocol):
    """A durable sequence of rows. See the module's numbered guarantees."""

    def load(self) -> tuple[int, Iterator[Row]]:
        """Return the revision up to which history was dropped, and every row that is left."""
        ...

    async def append(self, rows: Sequence[Row]) -> None:
        """Make the rows durable, all or none."""
        ...

    async def compact(self, revision: int, superseded: Sequence[int]) -> None:
        """Drop the given rows and record that history before ``revision`` is compacted. No dropped row is newer."""
        ...

    async def make_room(self) -> str | None:
        """Reserve space for deletions and compaction. Returns the shortage, or None when all writes are possible."""
        ...

    async def close(self) -> None:
        """Finish pending work and close the log."""
        ...
