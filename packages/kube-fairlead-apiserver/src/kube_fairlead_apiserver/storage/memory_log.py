"""A log in memory: for tests, and for servers without durable storage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kube_fairlead_apiserver.storage import interface

__all__ = ["MemoryLog"]


class MemoryLog:
    """Keeps rows in a dictionary. Reopening the same instance is a restart without loss."""

    def __init__(self) -> None:
        self._rows: dict[int, interface.Row] = {}
        self._compacted = 0

    def load(self) -> tuple[int, Iterator[interface.Row]]:
        """Return the rows in the order of their revisions."""
        return self._compacted, iter(list(self._rows.values()))

    async def append(self, rows: Sequence[interface.Row]) -> None:
        """Append the rows."""
        for row in rows:
            self._rows[row.revision] = row

    async def compact(self, revision: int, superseded: Sequence[int]) -> None:
        """Drop the given rows."""
        for dropped in superseded:
            self._rows.pop(dropped, None)
        self._compacted = max(self._compacted, revision)

    async def make_room(self) -> str | None:
        """Do nothing: memory has no reserve."""
        return None

    async def close(self) -> None:
        """Do nothing."""
