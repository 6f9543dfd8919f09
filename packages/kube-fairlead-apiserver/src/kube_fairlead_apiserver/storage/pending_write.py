"""Pending writes, and what happens to them when the disk is full.

On a full disk a batch is small, so that one write that does not fit fails alone. A batch that does not fit is handled
in steps:

1. The first shortage releases the reserve. Writes that free space, or lead to it, are retried.
2. When they do not fit either, removals are retried with the last part of the reserve.
3. Removals that do not fit are rejected.

A write that builds on a rejected write is rejected, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from kube_fairlead_apiserver.storage import interface
from kube_fairlead_apiserver.storage.entries import Change, Entry
from kube_fairlead_apiserver.storage.table import Table

__all__ = ["SLACK_BYTES", "PendingWrite", "kept_on_full_disk", "leads_to_removal", "next_batch"]

# How much a write that leads to a deletion may add: a time, a condition, a finalizer that waits for dependents.
SLACK_BYTES = 4096
# The size of one commit while the disk is full; a larger write has its own commit.
_SHORT_BATCH_BYTES = 64 << 10


class PendingWrite(msgspec.Struct, eq=False):
    """One write that is not durable yet."""

    table: Table
    change: Change
    row: interface.Row
    done: asyncio.Future[Entry]  # its writer's
    freeing: bool  # it frees space, or leads to it
    waiting: list[asyncio.Future[None]] = []  # futures that wait for its end, with or without success

    @property
    def removes(self) -> bool:
        """Whether it removes an object."""
        return self.row.value is None

    def settle(self) -> None:
        """Notify the futures that wait for the end of the write."""
        for one in self.waiting:
            if not one.done():
                one.set_result(None)


def leads_to_removal(before: Entry | None, after_bytes: int) -> bool:
    """Return whether a write to an object that is being deleted may use the reserve for deletions.

    It writes the whole object again, so a large object that grows would use up the reserve.
    """
    return before is not None and after_bytes <= len(before.tail) + SLACK_BYTES


def next_batch(queue: Sequence[PendingWrite], *, short: bool) -> int:
    """Return how many writes, from the first on, go into the next commit."""
    if not short:
        return len(queue)
    size = 0
    for number, pending in enumerate(queue):
        size += len(pending.row.value or b"") + len(pending.row.key)
        if size > _SHORT_BATCH_BYTES:
            return max(1, number)
    return len(queue)


def kept_on_full_disk(
    writing: Sequence[PendingWrite], queue: Sequence[PendingWrite], *, short: bool
) -> list[PendingWrite]:
    """Return the writes to retry after a batch did not fit. ``short``: the reserve was released before."""
    kept: list[PendingWrite] = []
    refused: set[int] = set()
    first = not short or not all(pending.freeing for pending in writing)
    only_removed = all(pending.removes for pending in writing)
    failed = {pending.change.revision for pending in writing}
    for pending in (*writing, *queue):
        before = pending.change.before
        again = pending.freeing
        if not first and pending.change.revision in failed:
            again = pending.removes and not only_removed
        if again and (before is None or before.revision not in refused):
            kept.append(pending)
        else:
            refused.add(pending.change.revision)
    return kept
