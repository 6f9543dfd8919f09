"""Reserved disk space, so that deletions and compaction still work when the disk is full.

Two files beside the database. The first is removed when a write finds no room; from then on only deletions, and writes
that lead to them, are taken. The last one is removed when that room is used up as well, and only removals and
compaction get it: whatever else was written, these can go on. Both are made again when there is room for them and for
writes besides, on the disk or inside the database.
"""

from __future__ import annotations

import errno
import hashlib
import os
import pathlib
import shutil

__all__ = ["Reserve", "bytes_to_hold", "last_bytes", "pages_before_checkpoint", "reserve_path", "wanted_bytes"]

_MOST_BYTES = 32 << 20
_LEAST_BYTES = 256 << 10
_SHARE = 16  # of the whole disk at most this part
_FRAME_BYTES = 4096 + 24
_MOST_PAGES = 4000
_LEAST_PAGES = 16
_LAST_SHARE = 4  # of the first reserve
_PIECE_BYTES = 64 << 10
# What a file system answers that cannot set room aside without writing to it.
_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.ENODEV})


def wanted_bytes(total: int) -> int:
    """How much to set aside on a disk of this size."""
    return max(_LEAST_BYTES, min(_MOST_BYTES, total // _SHARE))


def bytes_to_hold(free: int, inner: int, wanted: int) -> int:
    """How much can be set aside now; 0 when there would be too little room left for writes.

    Args:
        free: bytes on the disk.
        inner: bytes of free pages inside the database.
        wanted: how much there should be.
    """
    if free >= 2 * wanted:
        return wanted
    # New rows fit into the database as it is; what the disk has is shared by the write-ahead log and the reserve.
    if inner >= wanted and free >= wanted // 2:
        return free // 2
    return 0


def pages_before_checkpoint(held: int) -> int:
    """How long the write-ahead log may become: half of the reserve must be enough to fold it into the database."""
    return max(_LEAST_PAGES, min(_MOST_PAGES, held // 2 // _FRAME_BYTES))


def last_bytes(first: int) -> int:
    """How much to set aside for removals and compaction alone, beside a first reserve of this size."""
    return first // _LAST_SHARE


def reserve_path(database: pathlib.Path) -> pathlib.Path:
    """The file of the reserve of a database."""
    return database.with_name(database.name + "-reserve")


class Reserve:
    """The reserve of one database."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._last = path.with_name(path.name + "-last")

    @property
    def held(self) -> bool:
        """Whether all of it is there."""
        return self._path.exists() and self._last.exists()

    @property
    def size(self) -> int:
        """How much is set aside in the first file."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def hold(self, inner: int) -> bool:
        """Set it aside if there is room; whether all of it is there now."""
        if self.held:
            return True
        for path in (self._path, self._last):
            _remove(_unfinished(path))  # of a process that was killed while it made one
        usage = shutil.disk_usage(self._path.parent)
        # What is left of an earlier one is room that a new one may take.
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
        except OSError:  # a quota, or another program was faster
            self.release()
            return False
        return True

    def release(self) -> bool:
        """Give up what deletions, and writes that lead to them, may use; whether there was any."""
        return _remove(self._path)

    def release_last(self) -> bool:
        """Give up what removals and compaction alone may use; whether there was any."""
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
    """Make the file. It has its name only once it is whole, so that a crash leaves no half of it under that name."""
    unfinished = _unfinished(path)
    descriptor = os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        try:
            if not _set_aside(descriptor, size):
                _fill(descriptor, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        unfinished.replace(path)
    except OSError:
        _remove(unfinished)
        raise


def _set_aside(descriptor: int, size: int) -> bool:
    """Whether the system could do it without writing. The C library of some systems writes, of others refuses."""
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
    """Write as many bytes, none of them alike: file systems that compress would keep zeros in no room at all."""
    left = size
    while left:
        piece = hashlib.shake_128(left.to_bytes(8)).digest(min(left, _PIECE_BYTES))
        left -= os.write(descriptor, piece)
