"""The entries of a table in key order, and snapshots that cost almost nothing.

Entries are in immutable blocks: a write replaces one block. So a snapshot is a tuple of blocks, and two snapshots share
every block that was not written in between. A thousand readers of a large collection, each with its own snapshot, hold
one collection and the blocks that changed meanwhile.
"""

from __future__ import annotations

import bisect
import operator
from collections.abc import Iterable, Iterator

from kube_fairlead_apiserver.storage.entries import Entry
from kube_fairlead_apiserver.storage.selection import Selection

__all__ = ["Snapshot", "SortedEntries"]

_BLOCK = 128  # entries: a write copies half as many references as that, on average
_BLOCKS_AT_ONCE = 8  # blocks: a thousand entries take a selector about two milliseconds
_FEW_KEYS = 16  # of a selector
_KEYS_AT_ONCE = 16 * 1024  # labels compared before yielding to other requests: about two milliseconds
_key_of = operator.attrgetter("key")

Block = tuple[Entry, ...]


class Snapshot:
    """The content of a table at one revision. Iterators over it keep that content."""

    __slots__ = ("__weakref__", "_blocks")

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self._blocks = tuple(blocks)

    def select(self, selection: Selection, *, after: str = "") -> Iterator[Entry]:
        """Yield the selected entries in key order, from the first key greater than ``after``."""
        return (entry for entry in self.scan(selection, after=after) if entry is not None)

    def scan(self, selection: Selection, *, after: str = "") -> Iterator[Entry | None]:
        """As `select`, with None after every few blocks: points to yield to other requests.

        With a selector of many keys, None comes after a number of compared labels.
        """
        prefix = selection.namespace + "/" if selection.namespace else ""
        blocks, number, position = self._blocks, 0, 0
        if after >= prefix and after:
            number, position = _find(blocks, after)
            if position < len(blocks[number] if blocks else ()) and blocks[number][position].key == after:
                position += 1
        elif prefix:
            number, position = _find(blocks, prefix)
        matches, keys, compared = selection.matches, selection.keys, 0
        for looked_at, block in enumerate(blocks[number:]):
            if looked_at and not looked_at % _BLOCKS_AT_ONCE:
                yield None
            for entry in block[position:] if position else block:
                if prefix and not entry.key.startswith(prefix):
                    return
                if keys > _FEW_KEYS:
                    compared += min(keys, len(entry.labels))
                    if compared > _KEYS_AT_ONCE:
                        compared = 0
                        yield None
                if matches(entry):
                    yield entry
            position = 0

    def count(self, namespace: str, *, after: str = "") -> int:
        """Return the number of entries after a key, in one namespace or in all."""
        # "0" is the character after "/": the first key that no longer belongs to the namespace.
        end = self._rank(namespace + "0") if namespace else sum(map(len, self._blocks))
        start = self._rank(namespace + "/") if namespace else 0
        if after:
            # No key lies between a key and the same key followed by a zero.
            start = max(start, self._rank(after + "\0"))
        return max(0, end - start)

    def _rank(self, key: str) -> int:
        """Return the number of keys before this one."""
        number, position = _find(self._blocks, key)
        return sum(len(block) for block in self._blocks[:number]) + position


class SortedEntries:
    """The current entries. Blocks of a snapshot are replaced, never changed."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self._blocks: list[Block] = [] if snapshot is None else list(snapshot._blocks)  # noqa: SLF001 - its maker
        self._snapshot: Snapshot | None = snapshot

    def snapshot(self) -> Snapshot:
        """Return a snapshot, shared by all readers until the next write."""
        if self._snapshot is None:
            self._snapshot = Snapshot(self._blocks)
        return self._snapshot

    def put(self, entry: Entry) -> None:
        """Add an entry, or replace the one with its key."""
        self._snapshot = None
        blocks, key = self._blocks, entry.key
        if not blocks or key > blocks[-1][-1].key:
            # Names are often created in ascending order, and a log is read in the order of creation.
            if blocks and len(blocks[-1]) < _BLOCK:
                blocks[-1] += (entry,)
            else:
                blocks.append((entry,))
            return
        number, position = _find(blocks, key)
        block = blocks[number]
        rest = position + 1 if position < len(block) and block[position].key == key else position
        block = (*block[:position], entry, *block[rest:])
        if len(block) <= _BLOCK:
            blocks[number] = block
        else:
            blocks[number : number + 1] = [block[: _BLOCK // 2], block[_BLOCK // 2 :]]

    def remove(self, key: str) -> None:
        """Remove the entry of a key, which must exist."""
        if not self.discard(key):
            raise KeyError(key)

    def discard(self, key: str) -> bool:
        """Remove the entry of a key; returns whether it existed."""
        number, position = _find(self._blocks, key)
        block = self._blocks[number] if self._blocks else ()
        if position >= len(block) or block[position].key != key:
            return False
        self._snapshot = None
        if len(block) == 1:
            del self._blocks[number]
        else:
            self._blocks[number] = block[:position] + block[position + 1 :]
        return True


def _find(blocks: list[Block] | tuple[Block, ...], key: str) -> tuple[int, int]:
    """Return the block and the position of a key, or where it would be inserted."""
    if not blocks:
        return 0, 0
    number = max(0, bisect.bisect_right(blocks, key, key=_first_key) - 1)
    return number, bisect.bisect_left(blocks[number], key, key=_key_of)


def _first_key(block: Block) -> str:
    return block[0].key
