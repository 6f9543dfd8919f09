"""Rows that history needs no more: what superseded them, and dropping them from the log in pieces."""

from __future__ import annotations

import asyncio

from fairlead.apiserver.storage import interface

__all__ = ["Superseded"]

_AT_ONCE = 256  # rows: a transaction of a few megabytes, which other writers wait for
_AT_LEAST = 4


class Superseded:
    """The rows of a log that a later change made superfluous, in the order of those changes."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int]] = []  # (revision at which it was superseded, revision of the row)
        self._dropping = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, at: int, row: int) -> None:
        """A change has made a row superfluous; its own, when it deletes."""
        self._rows.append((at, row))

    async def drop(self, log: interface.Log, until: int) -> None:
        """Drop what was superseded up to a revision, in pieces between which others write.

        The log remembers the revision with the first piece. What one change supersedes is dropped together: a log that
        has the deletion of a key, and not the key, could not be read.
        """
        async with self._dropping:
            at_once, more = _AT_ONCE, True
            while more:
                cut, more = self._piece(until, at_once)
                try:
                    await log.compact(until, [row for _, row in self._rows[:cut]])
                except interface.DiskFull:
                    if at_once <= _AT_LEAST:
                        raise
                    at_once, more = at_once // 4, True
                else:
                    del self._rows[:cut]

    def _piece(self, until: int, at_once: int) -> tuple[int, bool]:
        """How many rows to drop next, and whether others follow."""
        cut = 0
        while cut < len(self._rows) and self._rows[cut][0] <= until:
            if cut >= at_once and self._rows[cut][0] != self._rows[cut - 1][0]:
                return cut, True
            cut += 1
        return cut, False
