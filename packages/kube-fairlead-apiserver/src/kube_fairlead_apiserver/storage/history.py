"""The history of changes over all tables: its size in bytes, and which changes are dropped first."""

from __future__ import annotations

import collections

import msgspec

from kube_fairlead_apiserver.storage.records import Change
from kube_fairlead_apiserver.storage.retention import Retained
from kube_fairlead_apiserver.storage.table import Table

__all__ = ["History", "HistoryLimits"]

# What a remembered change takes in memory besides the text of the object before it: its own records, and the labels,
# fields and key of that object.
_CHANGE_BYTES = 256
_BEFORE_BYTES = 768


class HistoryLimits(msgspec.Struct, frozen=True):
    """The limits of the history that watches resume from and pages continue in."""

    changes: int = 100_000
    # Beyond this no more than ``few_changes`` are kept, and beyond ``most_bytes`` only the newest one.
    history_bytes: int = 16 << 20
    few_changes: int = 100  # as many as the smallest watch cache of Kubernetes
    most_bytes: int = 64 << 20
    # One watcher's queue, counted as if nothing in it were shared.
    backlog_bytes: int = 4 << 20
    # What is forgotten here and yet kept in memory by readers that have not come that far, in all.
    retained_bytes: int = 32 << 20
    # Encoded lines of recent changes, shared by their watchers.
    frame_bytes: int = 2 << 20


class History:
    """Which changes are remembered. Each is kept by its table; here is their order and their weight.

    1. The oldest goes first, whichever table it is in.
    2. The newest change of each table stays, whatever its size: a watcher that is one behind can always resume. It is
       not counted once its turn to go has come.
    """

    def __init__(self, limits: HistoryLimits) -> None:
        self.forgotten = 0  # every change after this revision is remembered
        self.retained = Retained(limits.retained_bytes)
        self._limits = limits
        self._changes: collections.deque[tuple[Table, Change]] = collections.deque()
        self._bytes = 0

    def append(self, table: Table, change: Change) -> None:
        """Remember a change, which its table has already."""
        self._changes.append((table, change))
        self._bytes += _cost(change)

    def trim(self) -> None:
        """Forget what is beyond the limits."""
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
        """Forget every change up to a revision."""
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
    """The memory that a change takes for as long as it is remembered; what it led to is there anyway."""
    return _CHANGE_BYTES if change.before is None else _CHANGE_BYTES + _BEFORE_BYTES + len(change.before.tail)
