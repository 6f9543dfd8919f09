"""One resource's objects in memory: what is there now, what was there before, and who watches."""

from __future__ import annotations

import asyncio
import bisect
import operator
import weakref
from collections.abc import Iterator

from fairlead.apiserver.storage.records import Change, Entry
from fairlead.apiserver.storage.selection import Selection
from fairlead.apiserver.storage.snapshot import Snapshot, SortedEntries
from fairlead.apiserver.storage.watching import WatcherIndex

__all__ = ["Table"]

_FEW = 32
_UNDONE_AT_ONCE = 400  # changes: a few milliseconds, after which others have a turn
_revision_of = operator.attrgetter("revision")


class Table:
    """The committed state of one resource, its recent changes in order, and its watchers."""

    def __init__(self, name: str, *, forgotten: int = 0) -> None:
        self.name = name
        self.entries: dict[str, Entry] = {}
        self.watchers = WatcherIndex()
        self.forgotten = forgotten  # every change of this table after this revision is remembered
        self._sorted = SortedEntries()
        self._past: weakref.WeakValueDictionary[int, Snapshot] = weakref.WeakValueDictionary()
        self._rebuilding = asyncio.Lock()  # readers of one past moment wait for the first of them
        self._changes: list[Change] = []  # by revision
        self._dropped = 0  # how many at the front of _changes are forgotten already

    def apply(self, change: Change) -> None:
        """Make a committed change visible and tell the watchers."""
        key = change.last.key
        if change.after is None:
            del self.entries[key]
            self._sorted.remove(key)
        else:
            self.replace(change.after)
        self._changes.append(change)
        self.watchers.tell(change)

    def replace(self, entry: Entry) -> None:
        """Show a key as this entry from now on, without a change that watchers hear of."""
        self.entries[entry.key] = entry
        self._sorted.put(entry)

    def forget(self, revision: int, *, keep_newest: bool = True) -> None:
        """Drop the history up to a revision, but for the newest change: who is one behind can always resume."""
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
            # The slots stay for a while, but what they held need not.
            self._changes[self._dropped : end] = [_FORGOTTEN] * (end - self._dropped)
            self._dropped = end

    def changes_since(self, revision: int) -> list[Change]:
        """Every remembered change after a revision, in order."""
        start = bisect.bisect_right(self._changes, revision, lo=self._dropped, key=_revision_of)
        return self._changes[start:]

    def next_changes(self, revision: int) -> list[Change]:
        """The first few changes after a revision; none when there are none."""
        start = bisect.bisect_right(self._changes, revision, lo=self._dropped, key=_revision_of)
        return self._changes[start : start + _FEW]

    def snapshot(self) -> Snapshot:
        """The table as it is. Readers of one moment share it."""
        return self._sorted.snapshot()

    async def snapshot_at(self, revision: int) -> Snapshot | None:
        """The table as it was at a revision; None when that is forgotten. Others have turns while it is made."""
        newest = self._changes[-1].revision if self._changes else 0
        if revision >= newest:
            return self._sorted.snapshot()
        if revision < self.forgotten:
            return None
        known = self._past.get(revision)
        if known is not None:
            return known
        async with self._rebuilding:
            if revision < self.forgotten:
                return None
            known = self._past.get(revision)
            if known is None:
                known = self._past[revision] = await self._rebuild(revision)
            return known

    def page(self, selection: Selection) -> Iterator[Entry]:
        """The selected entries of now, in key order."""
        return self._sorted.snapshot().select(selection)

    async def _rebuild(self, revision: int) -> Snapshot:
        """Undo, in a copy that shares what has not changed, every change since a revision.

        What it works on are views of this moment, so writes may go on meanwhile.
        """
        changes = self.changes_since(revision)
        past = SortedEntries(self._sorted.snapshot())
        # The first change of a key is the last one to be undone.
        then: dict[str, Entry | None] = {}
        for number, change in enumerate(changes, 1):
            then.setdefault(change.last.key, change.before)
            if not number % (10 * _UNDONE_AT_ONCE):
                await asyncio.sleep(0)
        for number, (key, entry) in enumerate(then.items(), 1):
            if entry is not None:
                past.put(entry)
            else:
                past.discard(key)
            if not number % _UNDONE_AT_ONCE:
                await asyncio.sleep(0)
        return past.snapshot()


_FORGOTTEN = Change(0, None, None, Entry("", 0, b"", {}, {}))
