"""The high-water mark: the last acknowledged revision, in a small file beside the database.

SQLite truncates a damaged write-ahead log at the first unreadable frame, and treats a missing one as a clean shutdown.
A crash looks the same: it leaves frames that were never acknowledged. The mark distinguishes both. It is written after
each commit and never waited for, so it can only lag behind what is durable:

1. A mark is written when its commit is durable. That commit must exist at the next start.
2. After a loss of power the mark may be an older one, which is also correct.
3. Two records are written alternately, so that an incomplete one leaves the other.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import struct
import zlib

import msgspec

from kube_fairlead.base import files, logs

__all__ = ["DatabaseContent", "HighWaterMark", "Mark", "loss_of", "mark_path", "read_mark"]

_log = logs.get_logger(__name__)
_RECORD = struct.Struct("<8sQQQQQQ")
_CHECKSUM = struct.Struct("<I")
_MAGIC = b"fairmrk1"
_SLOT_BYTES = 4096  # a page for each record
_SLOTS = 2


class DatabaseContent(msgspec.Struct, frozen=True):
    """The content of a database: its newest revision, the state of compaction, and the number of rows."""

    revision: int
    compacted: int  # history up to here is compacted
    dropped: int  # rows that compaction has dropped so far
    rows: int


class Mark(msgspec.Struct, frozen=True):
    """The acknowledged content of the database with this identity."""

    identity: int
    sequence: int
    content: DatabaseContent

    def next(self, content: DatabaseContent) -> Mark:
        """Return the mark after one more commit."""
        return Mark(self.identity, self.sequence + 1, content)

    def encoded(self) -> bytes:
        """Return the record of this mark."""
        content = self.content
        body = _RECORD.pack(_MAGIC, self.identity, self.sequence, *msgspec.structs.astuple(content))
        return body + _CHECKSUM.pack(zlib.crc32(body))


def loss_of(found: DatabaseContent, acknowledged: DatabaseContent) -> str | None:
    """Describe the missing acknowledged writes; None when all of them exist."""
    if found.revision < acknowledged.revision:
        return f"writes were acknowledged up to revision {acknowledged.revision}"
    if found.compacted < acknowledged.compacted or found.dropped < acknowledged.dropped:
        return f"history was compacted up to revision {acknowledged.compacted}, and what is there does not show it"
    # Nothing was written since the mark, so the number of rows is known. An interrupted checkpoint leaves new pages
    # beside old ones, and rows in between can be missing.
    same_moment = msgspec.structs.replace(found, rows=acknowledged.rows) == acknowledged
    if same_moment and found.rows != acknowledged.rows:
        return f"{acknowledged.rows} rows were stored and {found.rows} are there"
    return None


def mark_path(database: pathlib.Path) -> pathlib.Path:
    """Return the file of the mark of a database."""
    return database.with_name(database.name + "-acknowledged")


def read_mark(path: pathlib.Path) -> Mark | None:
    """Return the newest complete record of a file; None when there is none."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    found = [_decoded(content[slot * _SLOT_BYTES :]) for slot in range(_SLOTS)]
    return max((mark for mark in found if mark is not None), key=lambda mark: mark.sequence, default=None)


def _decoded(record: bytes) -> Mark | None:
    body, checksum = record[: _RECORD.size], record[_RECORD.size : _RECORD.size + _CHECKSUM.size]
    if len(checksum) < _CHECKSUM.size or _CHECKSUM.unpack(checksum)[0] != zlib.crc32(body):
        return None
    magic, identity, sequence, *content = _RECORD.unpack(body)
    return Mark(identity, sequence, DatabaseContent(*content)) if magic == _MAGIC else None


class HighWaterMark:
    """The open file of a mark. It has its full size from the start, so that it can be written on a full disk."""

    def __init__(self, path: pathlib.Path, mark: Mark) -> None:
        self._path = path
        self._mark = mark
        self._file = path.open("r+b", buffering=0)
        self._failing = False

    @classmethod
    def create(cls, path: pathlib.Path, mark: Mark) -> None:
        """Create the file durably, replacing an older one."""
        record = mark.encoded().ljust(_SLOT_BYTES, b"\0")
        files.write_atomically(path, record * _SLOTS)

    def advance(self, content: DatabaseContent) -> None:
        """Record a commit. If this fails, the commit is still durable: the mark only lags."""
        mark = self._mark.next(content)
        try:
            self._file.seek(mark.sequence % _SLOTS * _SLOT_BYTES)
            self._file.write(mark.encoded())
        except OSError as error:
            if not self._failing:
                _log.warning("writing the high-water mark failed", path=str(self._path), error=str(error))
            self._failing = True
        else:
            self._failing = False
            self._mark = mark

    def close(self) -> None:
        """Make the last mark durable and close the file."""
        with contextlib.suppress(OSError):
            os.fsync(self._file.fileno())
        self._file.close()
