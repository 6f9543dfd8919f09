"""SQLite's write-ahead log, read as a file: whether it was damaged, or only cut short by a crash.

SQLite reads frames up to the first incomplete one and ignores the rest. After a crash that is right: each commit is
synced before the next one begins, so only frames of the last, never acknowledged commit can be missing. A frame of a
later commit proves that the earlier ones were complete once. The later frame is identified by its checksum, which
continues from that of the last frame of the commit before it.
"""

from __future__ import annotations

import pathlib
import struct
from typing import BinaryIO

import msgspec

__all__ = ["damage_behind", "wal_path"]

_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_MAGIC = 0x377F0682  # the lowest bit says whether checksums read words with the high byte first
_MASK = 0xFFFFFFFF


class _Frame(msgspec.Struct, frozen=True, gc=False):
    page: int
    pages_after: int  # size of the database after this commit; 0 when the commit continues
    salts: bytes
    checksum: tuple[int, int]
    head: bytes  # the part of the header that the checksum covers
    data: bytes


class _Log(msgspec.Struct):
    file: BinaryIO
    frame_bytes: int
    byte_orders: tuple[str, ...]
    salts: bytes | None  # None: the header does not say

    def frame(self, number: int) -> _Frame | None:
        self.file.seek(_HEADER_BYTES + (number - 1) * self.frame_bytes)
        content = self.file.read(self.frame_bytes)
        if len(content) < self.frame_bytes:
            return None
        page, pages_after = struct.unpack_from(">II", content)
        checksum = struct.unpack_from(">II", content, 16)
        return _Frame(page, pages_after, content[8:16], checksum, content[:8], content[_FRAME_HEADER_BYTES:])

    def follows(self, frame: _Frame, before: _Frame) -> bool:
        """Return whether a frame is complete and follows the other."""
        if frame.salts != before.salts or (self.salts is not None and frame.salts != self.salts):
            return False
        return any(
            _checksum(frame.head + frame.data, before.checksum, order) == frame.checksum for order in self.byte_orders
        )


def wal_path(database: pathlib.Path) -> pathlib.Path:
    """The write-ahead log of a database."""
    return database.with_name(database.name + "-wal")


def damage_behind(file: BinaryIO, readable: int, page_bytes: int) -> int | None:
    """The first damaged frame that was complete once, or None when only a crash can be the cause.

    Args:
        file: a write-ahead log.
        readable: how many of its frames SQLite reads, up to the last whole commit.
        page_bytes: of the database, for a log whose header cannot be read.
    """
    log = _opened(file, page_bytes)
    if log is None:
        return None
    number = readable + 1
    before, frame = (log.frame(readable) if readable else None), log.frame(number)
    while frame is not None:
        following = log.frame(number + 1)
        if following is None:
            return None
        if (
            frame.pages_after
            and following.page
            and log.follows(following, frame)
            and not _may_be_padding(log, before, frame, following)
        ):
            return readable + 1
        before, frame, number = frame, following, number + 1
    return None


def _may_be_padding(log: _Log, before: _Frame | None, frame: _Frame, following: _Frame) -> bool:
    """Return whether one of two frames repeats the last one of its commit, as SQLite fills up a sector on some disks.

    What fills up is written behind the sync, so it may be torn although its commit was acknowledged, and the next
    commit be there although it never was.
    """
    if before is not None and log.follows(frame, before):
        return _repeats(following, frame) and following.data == frame.data
    return _repeats(following, frame) or (before is not None and _repeats(frame, before))


def _repeats(frame: _Frame, before: _Frame) -> bool:
    return bool(frame.pages_after) and (frame.page, frame.pages_after) == (before.page, before.pages_after)


def _opened(file: BinaryIO, page_bytes: int) -> _Log | None:
    header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not any(header):
        return None  # it was created and never written
    magic, _, log_page_bytes = struct.unpack_from(">III", header)
    order = ">" if magic & 1 else "<"
    whole = magic & ~1 == _MAGIC and _checksum(header[:24], (0, 0), order) == struct.unpack_from(">II", header, 24)
    if whole:
        return _Log(file, _FRAME_HEADER_BYTES + log_page_bytes, (order,), header[16:24])
    return _Log(file, _FRAME_HEADER_BYTES + page_bytes, ("<", ">"), None)


def _checksum(content: bytes, start: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = start
    words = iter(struct.unpack(f"{order}{len(content) // 4}I", content))
    for word in words:
        first = (first + word + second) & _MASK
        second = (second + next(words) + first) & _MASK
    return first, second
