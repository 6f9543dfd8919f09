"""Reserved disk space, so that deletions and compaction still work when the disk is full.

Two files beside the database. The first is removed when a write does not fit; from then on only deletions, and writes
that lead to them, are accepted. The last one is removed when that space is used up as well, and only removals and
compaction may use it. Both are created again when there is space for them and for other writes, on the disk or in the
database.
"""

from __future__ import annotations

import errno
import hashlib
import os
import pathlib
import shutil

__all__ = ["DiskReserve", "bytes_to_hold", "last_bytes", "pages_before_checkpoint", "reserve_path", "wanted_bytes"]

_MOST_BYTES = 32 << 20
_LEAST_BYTES = 256 << 10
_SHARE = 16  # at most this fraction of the disk
_FRAME_BYTES = 4096 + 24
_MOST_PAGES = 4000
_LEAST_PAGES = 16
_LAST_SHARE = 4  # of the first reserve
_PIECE_BYTES = 64 << 10
# The error of a file system that cannot allocate space without writing.
_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.ENODEV})


def wanted_bytes(total: int) -> int:
    """Return how much to reserve on a disk of this size."""
    return max(_LEAST_BYTES, min(_MOST_BYTES, total // _SHARE))


def bytes_to_hold(free: int, inner: int, wanted: int) -> int:
    """How much can be reserved now; 0 when too little space would be left for writes.

    Args:
        free: bytes on the disk.
        inner: bytes of free pages inside the database.
        wanted: how much there should be.
    """
    if free >= 2 * wanted:
        return wanted
    # New rows fit into free pages of the database; the write-ahead log and the reserve share the free disk space.
    if inner >= wanted and free >= wanted // 2:
        return free // 2
    return 0


def pages_before_checkpoint(held: int) -> int:
    """Return the maximum size of the write-ahead log: half of the reserve must be enough for its checkpoint."""
    return max(_LEAST_PAGES, min(_MOST_PAGES, held // 2 // _FRAME_BYTES))


def last_bytes(first: int) -> int:
    """Return how much to reserve for removals and compaction alone, beside a first reserve of this size."""
    return first // _LAST_SHARE


def reserve_path(database: pathlib.Path) -> pathlib.Path:
    """Return the file of the reserve of a database."""
    return database.with_name(database.name + "-reserve")


class DiskReserve:
    """The reserve of one database."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._last = path.with_name(path.name + "-last")

    @property
    def held(self) -> bool:
        """Whether the reserve is complete."""
        return self._path.exists() and self._last.exists()

    @property
    def size(self) -> int:
        """The size of the first file."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def hold(self, inner: int) -> bool:
        """Create the reserve if there is space; returns whether it is complete."""
        if self.held:
            return True
        for path in (self._path, self._last):
            _remove(_unfinished(path))  # left by a process that was killed while creating one
        usage = shutil.disk_usage(self._path.parent)
        # The rest of an earlier reserve is space for a new one.
        free = usage.free + self.size + (self._last.stat().st_size if self._last.exists() else 0)
        size = bytes_to_hold(free, inner, wanted_bytes(usage.total))
        if not size:
            return False
        self.release()
        try:
            # The last one first: it may be all that fits when a quota counts other programs too.
            if not self._last.exists():
                _allocate(self._last, last_bytes(size))
            _allocate(self._path, size)
        except OSError:  # a quota, or another program took the space
            self.release()
            return False
        return True

    def release(self) -> bool:
        """Release the reserve for deletions and writes that lead to them; returns whether there was any."""
        return _remove(self._path)

    def release_last(self) -> bool:
        """Release the reserve for removals and compaction; returns whether there was any."""
        return _remove(self._last)


def _remove(path: pathlib.Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def _unfinished(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(path.name + "-unfinished")


def _allocate(path: pathlib.Path, size: int) -> None:
    """Create the file under a temporary name, so that a crash leaves no incomplete file under its name."""
    unfinished = _unfinished(path)
    descriptor = os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        try:
            if not _preallocate(descriptor, size):
                _fill(descriptor, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        unfinished.replace(path)
    except OSError:
        _remove(unfinished)
        raise


def _preallocate(descriptor: int, size: int) -> bool:
    """Allocate without writing; returns whether the system could. Some C libraries write instead, others fail."""
    if not hasattr(os, "posix_fallocate"):
        return False
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return False
        raise
    return True


def _fill(descriptor: int, size: int) -> None:
    """Write random bytes, because a compressing file system would store zeros in no space."""
    left = size
    while left:
        piece = hashlib.shake_128(left.to_bytes(8)).digest(min(left, _PIECE_BYTES))
        left -= os.write(descriptor, piece)
