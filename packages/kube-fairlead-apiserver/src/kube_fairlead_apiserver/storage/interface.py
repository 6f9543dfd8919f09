"""The durable part of storage: an append-only log of rows that one process owns.

What a log promises, and what the store builds on:

1. When `append` returns, its rows are durable, all of them, in order. When it raises `DiskFull`, none is.
   After any other error that is not known; the process must not go on writing.
2. `load` yields the rows that were appended and not dropped since, in the order of their revisions.
3. When `append` has raised `DiskFull`, there is room for deletions and what leads to them, and for `compact`, as long
   as a reserve lasts. The last part of it is only for rows without a value and for `compact`.
4. A row that cannot be read as it was written is never skipped: `load` raises `CorruptLog`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

__all__ = ["CorruptLog", "DiskFull", "Log", "NotOurs", "Row", "StorageError"]


class StorageError(Exception):
    """The storage failed; the message says what an operator can do."""


class CorruptLog(StorageError):
    """The stored data is damaged. Nothing of it is served."""


class NotOurs(StorageError):
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
    """A durable sequence of rows. See the module's numbered promises."""

    def load(self) -> tuple[int, Iterator[Row]]:
        """The revision up to which history was dropped, and every row that is left."""
        ...

    async def append(self, rows: Sequence[Row]) -> None:
        """Make the rows durable, all or none."""
        ...

    async def compact(self, revision: int, superseded: Sequence[int]) -> None:
        """Drop the named rows and remember that history before ``revision`` is gone. No row dropped is newer."""
        ...

    async def make_room(self) -> str | None:
        """Set room aside for deletions and compaction. Returns what is short, or None when writes can go on."""
        ...

    async def close(self) -> None:
        """Finish pending work and close the log."""
        ...
