"""The history of changes over all tables: its size in bytes, and which changes are dropped first."""

from __future__ import annotations

import collections

import msgspec

from kube_fairlead_apiserver.storage.entries import Change
from kube_fairlead_apiserver.storage.snapshot_readers import RetainedEntries
from kube_fairlead_apiserver.storage.table import Table

__all__ = ["History", "HistoryLimits"]

# Memory of a change in the history besides the text of the object before it: its own records, and the labels, fields
# and key of that object.
_CHANGE_BYTES = 256
_BEFORE_BYTES = 768


class HistoryLimits(msgspec.Struct, frozen=True):
    """The limits of the history that watches resume from and pages continue in."""

    changes: int = 100_000
    # Beyond this only ``few_changes`` are kept, and beyond ``most_bytes`` only the newest one.
    history_bytes: int = 16 << 20
    few_changes: int = 100  # as the smallest watch cache of Kubernetes
    most_bytes: int = 64 << 20
    # The queue of one watcher, counted without sharing.
    backlog_bytes: int = 4 << 20
    # Dropped changes that slow readers still keep in memory, in total.
    retained_bytes: int = 32 << 20
    # Encoded lines of recent changes, shared by their watchers.
    frame_bytes: int = 2 << 20


class History:
    """The changes of all tables in order, with their sizes. Each change is kept by its table.

    1. The oldest change is dropped first, whatever its table.
    2. The newest change of each table stays, whatever its size: a watcher that is one change behind can always resume.
       It is not counted once all older changes are dropped.
    """

    def __init__(self, limits: HistoryLimits) -> None:
        self.forgotten = 0  # every change after this revision is kept
        self.retained = RetainedEntries(limits.retained_bytes)
        self._limits = limits
        self._changes: collections.deque[tuple[Table, Change]] = collections.deque()
        self._bytes = 0

    def append(self, table: Table, change: Change) -> None:
        """Add a change that its table already has."""
        self._changes.append((table, change))
        self._bytes += _cost(change)

    def trim(self) -> None:
        """Drop changes beyond the limits."""
        number, size = 0, self._bytes
        for _, change in self._changes:
            left = len(self._changes) - number
            if left == 1 or not _too_much(self._limits, left, size):
                break
            size -= _cost(change)
            number += 1
        if number:
            self.forget_until(self._changes[number - 1][1].revision)

    def forget_until(self, revision: int) -> None:
        """Drop every change up to a revision."""
        touched: dict[Table, None] = {}
        while self._changes and self._changes[0][1].revision <= revision:
            table, change = self._changes.popleft()
            touched[table] = None
            cost = _cost(change)
            self._bytes -= cost
            self.retained.dropped(change.revision, cost)
        for table in touched:
            table.forget(revision)
        self.forgotten = max(self.forgotten, revision)


def _too_much(limits: HistoryLimits, changes: int, size: int) -> bool:
    if changes > limits.changes or size > limits.most_bytes:
        return True
    return size > limits.history_bytes and changes > limits.few_changes


def _cost(change: Change) -> int:
    """Return the memory of a change in the history; the object after it is stored anyway."""
    return _CHANGE_BYTES if change.before is None else _CHANGE_BYTES + _BEFORE_BYTES + len(change.before.tail)
