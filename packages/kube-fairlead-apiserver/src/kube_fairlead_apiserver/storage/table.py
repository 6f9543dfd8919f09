"""One resource's objects in memory: current entries, recent changes, and watchers."""

from __future__ import annotations

import asyncio
import bisect
import operator
import weakref
from collections.abc import Awaitable, Callable, Hashable, Iterator

from kube_fairlead_apiserver.storage.entries import Change, Entry
from kube_fairlead_apiserver.storage.selection import Selection
from kube_fairlead_apiserver.storage.snapshot import Snapshot, SortedEntries
from kube_fairlead_apiserver.storage.watchers import WatcherIndex

__all__ = ["Table", "Undo", "undo"]

_FEW = 32
_revision_of = operator.attrgetter("revision")

# Calls `undo` with these arguments, here or in a thread.
Undo = Callable[[list[Change], Snapshot], Awaitable[Snapshot]]


class Table:
    """The committed state of one resource, its recent changes in order, and its watchers."""

    def __init__(self, name: str, *, forgotten: int = 0) -> None:
        self.name = name
        self.entries: dict[str, Entry] = {}
        self.watchers = WatcherIndex()
        self.forgotten = forgotten  # every change of this table after this revision is kept
        self._sorted = SortedEntries()
        self._past: weakref.WeakValueDictionary[int, Snapshot] = weakref.WeakValueDictionary()
        # One rebuild per user at a time, so that waiting ones hold no copy of the history. Users do not wait for each
        # other.
        self._rebuilding: weakref.WeakValueDictionary[Hashable, asyncio.Lock] = weakref.WeakValueDictionary()
        self._changes: list[Change] = []  # by revision
        self._dropped = 0  # dropped changes at the front of _changes

    def apply(self, change: Change) -> None:
        """Make a committed change visible and notify the watchers."""
        key = change.last.key
        if change.after is None:
            del self.entries[key]
            self._sorted.remove(key)
        else:
            self.replace(change.after)
        self._changes.append(change)
        self.watchers.notify(change)

    def replace(self, entry: Entry) -> None:
        """Show a key as this entry from now on, without notifying watchers."""
        self.entries[entry.key] = entry
        self._sorted.put(entry)

    def forget(self, revision: int, *, keep_newest: bool = True) -> None:
        """Drop the history up to a revision, except the newest change: a watcher one behind can resume."""
        end = bisect.bisect_right(self._changes, revision, lo=self._dropped, key=_revision_of)
        if keep_newest:
            end = min(end, len(self._changes) - 1)
        else:
            self.forgotten = max(self.forgotten, revision)
        if end <= self._dropped:
            return
        self.forgotten = max(self.forgotten, self._changes[end - 1].revision)
        if end > 1024 and end * 2 > len(self._changes):
            del self._changes[:end]
            self._dropped = 0
        else:
            # The slots stay for a while, but their content is freed.
            self._changes[self._dropped : end] = [_FORGOTTEN] * (end - self._dropped)
            self._dropped = end

    def changes_since(self, revision: int) -> list[Change]:
        """Every kept change after a revision, in order."""
        start = bisect.bisect_right(self._changes, revision, lo=self._dropped, key=_revision_of)
        return self._changes[start:]

    def next_changes(self, revision: int) -> list[Change]:
        """The first few changes after a revision; none when there are none."""
        start = bisect.bisect_right(self._changes, revision, lo=self._dropped, key=_revision_of)
        return self._changes[start : start + _FEW]

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the table. Readers of one revision share it."""
        return self._sorted.snapshot()

    async def snapshot_at(self, revision: int, run: Undo, *, user: Hashable) -> Snapshot | None:
        """A snapshot of the table at a revision; None when the history no longer has it.

        Args:
            revision: of the snapshot.
            run: calls `undo`. Writes may continue meanwhile.
            user: the reader.
        """
        newest = self._changes[-1].revision if self._changes else 0
        if revision >= newest:
            return self._sorted.snapshot()
        if revision < self.forgotten:
            return None
        lock = self._rebuilding.setdefault(user, asyncio.Lock())
        async with lock:
            known = self._past.get(revision)
            if known is None:
                if revision < self.forgotten:
                    return None
                known = await run(self.changes_since(revision), self._sorted.snapshot())
                known = self._past.setdefault(revision, known)
            return known

    def page(self, selection: Selection) -> Iterator[Entry]:
        """Yield the selected current entries, in key order."""
        return self._sorted.snapshot().select(selection)


def undo(changes: list[Change], snapshot: Snapshot) -> Snapshot:
    """The snapshot before these changes. It shares every unchanged block."""
    past = SortedEntries(snapshot)
    # The first change of a key is the last one to be undone.
    then: dict[str, Entry | None] = {}
    for change in changes:
        then.setdefault(change.last.key, change.before)
    for key, entry in then.items():
        if entry is not None:
            past.put(entry)
        else:
            past.discard(key)
    return past.snapshot()


_FORGOTTEN = Change(0, None, None, Entry("", 0, b"", {}, {}))
