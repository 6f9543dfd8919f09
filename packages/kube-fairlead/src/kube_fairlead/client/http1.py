"""HTTP/1.1 as bytes: the head of a request, and answers as they arrive. No I/O.

The API server is trusted with the content of an answer, not with its size: a head has a limit, and a body is handed on
as it arrives. What is not plainly HTTP/1.1 is an error and never a guess, because a wrong guess about the length of a
body would take a part of one answer for the next one.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping

__all__ = ["MAX_HEAD_BYTES", "AnswerParser", "MalformedAnswer", "Unzipper", "request_head"]

MAX_HEAD_BYTES = 65_536  # also of trailers
_MAX_CHUNK_LINE_BYTES = 1024
_MAX_UNZIPPED_BYTES = 1 << 20  # at once

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: ([^\x00-\x08\x0a-\x1f\x7f]*))?")
_HEADER_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\x00-\x08\x0a-\x1f\x7f]*)?")
_LENGTH = re.compile(r"[0-9]{1,18}")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TARGET = re.compile(r"[\x21-\x7e]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


class MalformedAnswer(Exception):
    """Raised for bytes that are no answer of HTTP/1.1, or not one that this client can have asked for."""


def request_head(method: str, target: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """The head of a request.

    Raises:
        ValueError: a part has a character that would end it, or start another one.
    """
    lines = [f"{method} {target} HTTP/1.1"]
    if not _TOKEN.fullmatch(method) or not _TARGET.fullmatch(target):
        raise ValueError(f"{lines[0]!r} cannot be the first line of a request")
    for name, value in headers:
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError(f"the header {name!r} has a character that is not allowed there")
        lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, "", ""]).encode()


class Unzipper:
    """Decompresses gzip, in pieces of limited size."""

    def __init__(self) -> None:
        self._decompressor = _decompressor()
        self.has_begun = False  # an answer without a body may be marked as gzip too

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The pieces of plain bytes that these make.

        Raises:
            MalformedAnswer: it is not gzip.
        """
        while data:
            self.has_begun = True
            if self._decompressor.eof:  # gzip may have several members
                self._decompressor = _decompressor()
            try:
                piece = self._decompressor.decompress(data, _MAX_UNZIPPED_BYTES)
            except zlib.error as error:
                raise MalformedAnswer("its body is not gzip") from error
            data = self._decompressor.unused_data if self._decompressor.eof else self._decompressor.unconsumed_tail
            yield piece

    def feed_end(self) -> None:
        """Take the end of the body.

        Raises:
            EOFError: the end of the gzip stream is missing.
        """
        if not self._decompressor.eof:
            raise EOFError


def _decompressor() -> zlib._Decompress:
    return zlib.decompressobj(16 + zlib.MAX_WBITS)


class AnswerParser:
    """One answer, fed piece by piece.

    Guarantees:
    1. The answer is the same however its bytes are cut.
    2. `is_complete` is set by the answer's own end: its length, its last chunk, or the end of the connection where the
       head announces neither.
    3. `is_reusable` holds only if the next bytes of the connection can only be the next answer.
    """

    def __init__(self, method: str) -> None:
        self.status = 0  # 0: the head has not arrived
        self.reason = ""
        self.headers: Mapping[str, str] = {}  # by lower-case name; of equal names the last
        self.is_complete = False
        self._method = method
        self._keeps_alive = False
        self._buffer = bytearray()
        self._body: list[bytes] = []
        self._head_bytes = 0
        self._left = 0  # bytes of the body, or of the chunk
        self._step = self._read_head

    @property
    def is_reusable(self) -> bool:
        """Whether the connection can carry another request."""
        return self.is_complete and self._keeps_alive and not self._buffer

    @property
    def has_surplus(self) -> bool:
        """Whether bytes have arrived that are not part of the answer."""
        return self.is_complete and bool(self._buffer)

    def feed(self, data: bytes) -> None:
        """Take bytes.

        Raises:
            MalformedAnswer: see there. Nothing can be read from the connection any more.
        """
        self._buffer += data
        while not self.is_complete and self._step():
            pass

    def feed_end(self) -> None:
        """Take the end of the connection.

        Raises:
            EOFError: the answer is not complete.
        """
        if self._step != self._read_until_end:
            raise EOFError
        self.is_complete = True

    def take(self) -> bytes:
        """The bytes of the body that arrived since the last call."""
        taken = b"".join(self._body)
        self._body.clear()
        return taken

    def _line(self, limit: int) -> bytes | None:
        """The next line, if it has arrived."""
        end = self._buffer.find(b"\r\n", 0, limit)
        if end < 0:
            if len(self._buffer) >= limit:
                raise MalformedAnswer(f"it has a line of {limit} bytes or more")
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _read_head(self) -> bool:
        limit = MAX_HEAD_BYTES - self._head_bytes
        end = self._buffer.find(b"\r\n\r\n", 0, limit)
        if end < 0:
            if len(self._buffer) >= limit:
                raise MalformedAnswer(f"its head has {MAX_HEAD_BYTES} bytes or more")
            return False
        first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        status = _STATUS_LINE.fullmatch(first)
        if status is None:
            raise MalformedAnswer("it does not begin with a status line of HTTP/1.1")
        pairs = [_header(line) for line in lines]
        if status[2].startswith(b"1") and status[2] != b"101":
            self._head_bytes += end  # so that interim answers cannot go on for ever
            return True
        self.status = int(status[2])
        self.reason = (status[3] or b"").decode("latin-1")
        self.headers = dict(pairs)
        self._keeps_alive = _keeps_alive(pairs, is_old=status[1] == b"0")
        self._head_bytes = 0
        self._begin_body(pairs, is_old=status[1] == b"0")
        return True

    def _begin_body(self, pairs: list[tuple[str, str]], *, is_old: bool) -> None:
        codings = [value.lower() for name, value in pairs if name == "transfer-encoding"]
        lengths = {value for name, value in pairs if name == "content-length"}
        if self.status == 101 or len(lengths) > 1 or (codings and (codings != ["chunked"] or lengths or is_old)):
            raise MalformedAnswer("its head does not say where its body ends")
        if self._method == "HEAD" or self.status in {204, 304} or (self._method == "CONNECT" and self.status < 300):
            self.is_complete = True
        elif codings:
            self._step = self._read_chunk_line
        elif lengths:
            length = lengths.pop()
            if not _LENGTH.fullmatch(length):
                raise MalformedAnswer("its Content-Length is not a number")
            self._left = int(length)
            self.is_complete = not self._left
            self._step = self._read_sized
        else:
            self._keeps_alive = False
            self._step = self._read_until_end

    def _read_sized(self) -> bool:
        progress = self._move_body()
        self.is_complete = not self._left
        return progress

    def _read_until_end(self) -> bool:
        self._left = len(self._buffer)
        return self._move_body()

    def _read_chunk_line(self) -> bool:
        line = self._line(_MAX_CHUNK_LINE_BYTES)
        if line is None:
            return False
        size = _CHUNK_LINE.fullmatch(line)
        if size is None:
            raise MalformedAnswer("a chunk does not begin with its size")
        self._left = int(size[1], 16)
        self._step = self._read_chunk if self._left else self._read_trailer
        return True

    def _read_chunk(self) -> bool:
        progress = self._move_body()
        if not self._left:
            self._step = self._read_chunk_end
        return progress

    def _read_chunk_end(self) -> bool:
        if len(self._buffer) < 2:
            return False
        if self._buffer[:2] != b"\r\n":
            raise MalformedAnswer("a chunk is longer than its size")
        del self._buffer[:2]
        self._step = self._read_chunk_line
        return True

    def _read_trailer(self) -> bool:
        line = self._line(MAX_HEAD_BYTES - self._head_bytes)
        if line:
            _header(line)  # its value is of no use, but it must be one
            self._head_bytes += len(line) + 2
        elif line is not None:
            self.is_complete = True
        return line is not None

    def _move_body(self) -> bool:
        part = bytes(self._buffer[: self._left])
        if not part:
            return False
        del self._buffer[: len(part)]
        self._left -= len(part)
        self._body.append(part)
        return True


def _header(line: bytes) -> tuple[str, str]:
    found = _HEADER_LINE.fullmatch(line)
    if found is None:
        raise MalformedAnswer("its head has a line that is no header")
    return found[1].decode("ascii").lower(), found[2].decode("utf-8", "surrogateescape")


def _keeps_alive(pairs: list[tuple[str, str]], *, is_old: bool) -> bool:
    words = {word.strip().lower() for name, value in pairs if name == "connection" for word in value.split(",")}
    return "keep-alive" in words if is_old else "close" not in words
