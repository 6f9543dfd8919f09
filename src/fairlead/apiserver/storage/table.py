"""One resource's objects in memory: what is there now, what was there before, and who watches."""

from __future__ import annotations

import bisect
import operator
from collections.abc import Iterator

from fairlead.apiserver.storage.records import Change, Entry
from fairlead.apiserver.storage.selection import Selection
from fairlead.apiserver.storage.watching import WatcherIndex

__all__ = ["Table"]

_revision_of = operator.attrgetter("revision")


class Table:
    """The committed state of one resource, its recent changes in order, and its watchers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.entries: dict[str, Entry] = {}
        self.watchers = WatcherIndex()
        self._keys: list[str] = []  # sorted
        self._changes: list[Change] = []  # by revision
        self._dropped = 0  # how many at the front of _changes are forgotten already

    def apply(self, change: Change) -> None:
        """Make a committed change visible and tell the watchers."""
        key = change.last.key
        if change.after is None:
            del self.entries[key]
            del self._keys[bisect.bisect_left(self._keys, key)]
        else:
            if change.before is None:
                self._insert_key(key)
            self.entries[key] = change.after
        self._changes.append(change)
        self.watchers.tell(change)

    def _insert_key(self, key: str) -> None:
        if not self._keys or key > self._keys[-1]:
            self._keys.append(key)
        else:
            bisect.insort(self._keys, key)

    def forget(self, revision: int) -> list[Change]:
        """Drop the history up to a revision; returns what was dropped."""
        end = bisect.bisect_right(self._changes, revision, lo=self._dropped, key=_revision_of)
        dropped = self._changes[self._dropped : end]
        self._dropped = end
        if self._dropped > 1024 and self._dropped * 2 > len(self._changes):
            del self._changes[: self._dropped]
            self._dropped = 0
        else:
            # The slots stay for a while, but what they held need not.
            self._changes[end - len(dropped) : end] = [_FORGOTTEN] * len(dropped)
        return dropped

    def changes_since(self, revision: int) -> list[Change]:
        """Every remembered change after a revision, in order."""
        start = bisect.bisect_right(self._changes, revision, lo=self._dropped, key=_revision_of)
        return self._changes[start:]

    def page(self, selection: Selection, *, after: str, revision: int | None) -> Iterator[Entry]:
        """The selected entries in key order, from the first key greater than ``after``, as of a revision."""
        overlay = {} if revision is None else self._overlay(revision)
        keys = self._keys
        if overlay:
            keys = sorted(self.entries.keys() | overlay.keys())
        prefix = selection.namespace + "/" if selection.namespace else ""
        start = bisect.bisect_right(keys, after) if after >= prefix else bisect.bisect_left(keys, prefix)
        for position in range(start, len(keys)):
            key = keys[position]
            if prefix and not key.startswith(prefix):
                return
            entry = overlay[key] if key in overlay else self.entries.get(key)
            if entry is not None and selection.matches(entry):
                yield entry

    def count(self, namespace: str, *, after: str = "") -> int:
        """How many objects there are, in one namespace or in all, behind a key."""
        # "0" is the character after "/": the first key that no longer belongs to the namespace.
        end = bisect.bisect_left(self._keys, namespace + "0") if namespace else len(self._keys)
        start = bisect.bisect_left(self._keys, namespace + "/") if namespace else 0
        if after:
            start = max(start, bisect.bisect_right(self._keys, after))
        return end - start

    def _overlay(self, revision: int) -> dict[str, Entry | None]:
        """How the keys that changed since a revision looked at it."""
        overlay: dict[str, Entry | None] = {}
        for change in reversed(self.changes_since(revision)):
            overlay[change.last.key] = change.before
        return overlay


_FORGOTTEN = Change(0, None, None, Entry("", 0, b"", {}, {}))
