"""Room on the disk that is set aside, so that deletions and compaction go on when nothing else fits.

A file of zeros beside the database. It is removed when a write finds no room; from then on only writes that free room
are taken. It is made again when there is room for it and for writes besides, on the disk or inside the database.
"""

from __future__ import annotations

import os
import pathlib
import shutil

__all__ = ["Reserve", "bytes_to_hold", "pages_before_checkpoint", "reserve_path", "wanted_bytes"]

_MOST_BYTES = 32 << 20
_LEAST_BYTES = 256 << 10
_SHARE = 16  # of the whole disk at most this part
_FRAME_BYTES = 4096 + 24
_MOST_PAGES = 4000
_LEAST_PAGES = 16
_PIECE = bytes(64 << 10)


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


def reserve_path(database: pathlib.Path) -> pathlib.Path:
    """The file of the reserve of a database."""
    return database.with_name(database.name + "-reserve")


class Reserve:
    """The reserve of one database."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    @property
    def held(self) -> bool:
        """Whether it is there."""
        return self._path.exists()

    @property
    def size(self) -> int:
        """How much is set aside."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def hold(self, inner: int) -> bool:
        """Set it aside if there is room; whether it is there now."""
        if self.held:
            return True
        usage = shutil.disk_usage(self._path.parent)
        size = bytes_to_hold(usage.free, inner, wanted_bytes(usage.total))
        if not size:
            return False
        try:
            _allocate(self._path, size)
        except OSError:  # a quota, or another program was faster
            self.release()
            return False
        return True

    def release(self) -> bool:
        """Give it up; whether there was one."""
        try:
            self._path.unlink()
        except FileNotFoundError:
            return False
        return True


def _allocate(path: pathlib.Path, size: int) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            for _ in range(0, size, len(_PIECE)):
                os.write(descriptor, _PIECE)
    finally:
        os.close(descriptor)
