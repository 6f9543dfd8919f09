"""Limits the memory that readers keep besides the objects themselves."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from kube_fairlead_apiserver.storage.entries import Change

__all__ = ["EncodedFrames", "RetainedEntries", "SnapshotReader"]

# Dropped changes are counted in groups of about this size, so that the counters take little memory.
_COUNTED_TOGETHER_BYTES = 64 * 1024


class _Reader(Protocol):
    """A reader that may keep old entries in memory after the history dropped them."""

    @property
    def oldest(self) -> int | None:
        """The revision whose state it may still need, with every later change; None: it needs no history."""
        ...

    def cut(self) -> None:
        """Release it at once."""
        ...


class SnapshotReader(msgspec.Struct, eq=False):
    """One list that is being sent to a client."""

    oldest: int | None
    on_cut: Callable[[], None]

    def cut(self) -> None:
        """Cut the list."""
        self.oldest = None
        self.on_cut()


class RetainedEntries:
    """Bounds the old entries that slow readers keep.

    An entry of a reader at revision R is either current, or was superseded after R. The history counts the changes that
    it keeps. The changes after R that the history has dropped are counted here. When those of the slowest reader exceed
    the budget, the reader is cut.
    """

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._dropped: collections.deque[tuple[int, int]] = collections.deque()  # revision and bytes, in order
        self._bytes = 0

    @property
    def excessive(self) -> bool:
        """Whether readers may hold more than the budget: then call `relieve`."""
        return self._bytes > self._budget_bytes

    def dropped(self, revision: int, size: int) -> None:
        """Count a change that the history has dropped."""
        if self._dropped and self._dropped[-1][1] < _COUNTED_TOGETHER_BYTES:
            size_before = self._dropped.pop()[1]
            self._dropped.append((revision, size_before + size))
        else:
            self._dropped.append((revision, size))
        self._bytes += size

    def relieve(self, readers: Iterable[_Reader]) -> None:
        """Drop counts that no reader can hold; while that is not enough, cut the slowest reader."""
        behind = sorted(((oldest, one) for one in readers if (oldest := one.oldest) is not None), key=_first)
        for oldest, reader in behind:
            self._forget(oldest)
            # Down to half, so that the next write does not trigger another check.
            if self._bytes <= self._budget_bytes // 2:
                return
            reader.cut()
        self._dropped.clear()
        self._bytes = 0

    def _forget(self, revision: int) -> None:
        while self._dropped and self._dropped[0][0] <= revision:
            self._bytes -= self._dropped.popleft()[1]


def _first(pair: tuple[int, object]) -> int:
    return pair[0]


class EncodedFrames:
    """Encoded lines of recent changes, each encoded once for all watchers of the same form.

    The oldest lines are dropped first when they exceed the limit; a slower watcher encodes its lines again. Those of
    the newest change stay.
    """

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        # The lines of a change, not the change: a change would keep the object before it in memory, uncounted.
        self._framed: collections.deque[tuple[dict[tuple[str, bytes], bytes], int]] = collections.deque()
        self._bytes = 0

    def keep(self, change: Change, key: tuple[str, bytes], frame: bytes) -> bytes:
        """Add an encoded line."""
        change.frames[key] = frame
        self._framed.append((change.frames, len(frame)))
        self._bytes += len(frame)
        while self._bytes > self._budget_bytes and self._framed[0][0] is not change.frames:
            oldest, size = self._framed.popleft()
            oldest.clear()
            self._bytes -= size
        return frame
