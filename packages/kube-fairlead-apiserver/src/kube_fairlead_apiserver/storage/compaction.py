"""Compaction: which rows are superseded, and dropping them from the log in batches."""

from __future__ import annotations

import array
import asyncio

from kube_fairlead_apiserver.storage import interface

__all__ = ["SupersededRows"]

_AT_ONCE = 256  # rows: a transaction of a few megabytes, which other writers wait for
_AT_LEAST = 4


class SupersededRows:
    """The superseded rows of a log, in the order of the changes that superseded them."""

    def __init__(self) -> None:
        # Arrays, because there may be many: the revisions of rows, and the revision that superseded each.
        self._rows = array.array("q")
        self._at = array.array("q")
        self._dropping = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, at: int, row: int) -> None:
        """Note that a change superseded a row; a deletion supersedes its own row, too."""
        self._rows.append(row)
        self._at.append(at)

    async def drop(self, log: interface.Log, until: int) -> None:
        """Drop the rows that were superseded up to a revision, in batches; other writes run in between.

        The first batch records the revision in the log. The rows that one change supersedes are dropped together: a log
        with the deletion of a key but without the key could not be read.
        """
        async with self._dropping:
            at_once, more = _AT_ONCE, True
            while more:
                cut, more = self._piece(until, at_once)
                try:
                    await log.compact(until, self._rows[:cut])
                except interface.DiskFull:
                    if at_once <= _AT_LEAST:
                        raise
                    at_once, more = at_once // 4, True
                else:
                    del self._rows[:cut]
                    del self._at[:cut]

    def _piece(self, until: int, at_once: int) -> tuple[int, bool]:
        """Return how many rows to drop next, and whether others follow."""
        cut = 0
        while cut < len(self._at) and self._at[cut] <= until:
            if cut >= at_once and self._at[cut] != self._at[cut - 1]:
                return cut, True
            cut += 1
        return cut, False
