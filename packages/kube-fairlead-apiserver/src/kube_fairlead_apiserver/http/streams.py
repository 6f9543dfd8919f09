"""Streamed bodies: encoded while they are sent, in pieces, each when there is room for it."""

from __future__ import annotations

import abc
import asyncio
import collections
from collections.abc import AsyncIterator, Callable

__all__ = ["PIECE_BYTES", "Stream", "Text", "UnsentText", "iterate", "size_of"]

# The size of one write and one TLS record. A client that stopped reading holds one of them.
PIECE_BYTES = 16 * 1024

# A text, or its parts in order. Other readers may share a part, so it is not copied before it is sent.
Text = bytes | tuple[bytes, ...]


def size_of(text: Text) -> int:
    """Return the length of a text."""
    return len(text) if isinstance(text, bytes) else sum(map(len, text))


class UnsentText:
    """Texts that wait to be sent.

    1. No piece is longer than requested. A text is cut only if it is longer than that by itself.
    2. A part of a text is copied only into the piece that it is sent in.
    """

    __slots__ = ("_begun_own", "_rest", "_texts", "own_bytes", "shared", "size")

    def __init__(self) -> None:
        self.size = 0  # bytes
        self.own_bytes = 0  # bytes of texts that no other reader shares, begun or not
        self.shared = b""  # a long part that other readers may share
        self._texts: collections.deque[tuple[Text, int]] = collections.deque()
        self._rest: list[memoryview] = []  # the unsent parts of a long text, the last part first
        self._begun_own = 0  # the unshared bytes of that text, kept until it is sent

    @property
    def begun(self) -> bool:
        """Whether the beginning of the next text was sent."""
        return bool(self._rest)

    def add(self, text: Text, *, own_bytes: int = 0, shared: bytes = b"") -> None:
        """Append a text."""
        self._texts.append((text, own_bytes))
        self.size += size_of(text)
        self.own_bytes += own_bytes
        self.shared = shared or self.shared

    def clear(self) -> None:
        """Release everything."""
        self._texts.clear()
        self._rest.clear()
        self.size = self.own_bytes = self._begun_own = 0
        self.shared = b""

    def take(self, most_bytes: int) -> bytes | None:
        """Return the next piece; None when there is nothing."""
        piece: list[bytes | memoryview] = []
        size = 0
        while size < most_bytes:
            if self._rest:
                size += self._cut(piece, most_bytes - size)
                continue
            if not self._texts:
                break
            text, own_bytes = self._texts[0]
            length = size_of(text)
            if length > most_bytes:
                parts = (text,) if isinstance(text, bytes) else text
                self._rest = [memoryview(part) for part in reversed(parts) if part]
                self._begun_own = own_bytes
            elif size + length > most_bytes:
                break
            else:
                piece.extend((text,) if isinstance(text, bytes) else text)
                size += length
                self.own_bytes -= own_bytes
            self._texts.popleft()
        self.size -= size
        if not self.size:
            self.shared = b""
        if len(piece) == 1 and isinstance(piece[0], bytes):
            return piece[0]
        return b"".join(piece) if piece else None

    def _cut(self, piece: list[bytes | memoryview], most_bytes: int) -> int:
        rest = self._rest.pop()
        part = rest[:most_bytes]
        if len(part) < len(rest):
            self._rest.append(rest[most_bytes:])
        if not self._rest:
            self.own_bytes -= self._begun_own
        piece.append(part)
        return len(part)


class Stream(abc.ABC):
    """A body in pieces.

    1. `next_piece` is called only when there is room for its result. It takes little time.
    2. While it returns None and the stream is not `over`, its sender awaits `work` if the stream `needs_work`, and else
       waits for the call that `listen` asks for.
    3. `close` is called at the end in every case, and releases everything.
    """

    def __init__(self) -> None:
        self._closed = False
        self._when_closed: list[Callable[[], None]] = []

    @property
    @abc.abstractmethod
    def over(self) -> bool:
        """Whether the stream has ended."""

    @property
    def ending(self) -> bool:
        """Whether the stream is about to end: the server no longer waits for a client that does not read."""
        return False

    @property
    def broken(self) -> bool:
        """Whether the stream is incomplete: the client must not take it as complete."""
        return False

    @property
    def needs_work(self) -> bool:
        """Whether the next piece is too costly to encode between two writes."""
        return False

    @property
    def paced(self) -> bool:
        """Whether the next piece waits for its user's turn: it is one of many available, and not a new change."""
        return True

    @property
    def own_bytes(self) -> int:
        """Bytes held for this stream alone."""
        return 0

    @property
    def shared(self) -> bytes:
        """A long text that is held for this stream, and perhaps for others."""
        return b""

    def only_piece(self) -> bytes | None:
        """Return a piece that holds everything available now, if that is known at little cost. The stream continues."""
        return None

    @abc.abstractmethod
    def next_piece(self) -> bytes | None:
        """Return the next piece, or None when there is none now."""

    @abc.abstractmethod
    def listen(self, listener: Callable[[], None] | None) -> None:
        """Call this when there may be another piece, or the end."""

    def mute(self, *, muted: bool) -> None:
        """While muted, there is no room: the listener is called only at the end."""
        del muted

    async def work(self) -> None:
        """Encode some of the next pieces, and yield to other requests."""
        await asyncio.sleep(0)

    def when_closed(self, call: Callable[[], None]) -> None:
        """Call this once, when the stream is closed."""
        self._when_closed.append(call)

    def close(self) -> None:
        """Close the stream after its end or a failure. May be called again."""
        if not self._closed:
            self._closed = True
            self._release()
            while self._when_closed:
                self._when_closed.pop()()

    @abc.abstractmethod
    def _release(self) -> None:
        """Release everything."""


async def iterate(stream: Stream) -> AsyncIterator[bytes]:
    """Yield the pieces as an asynchronous iterator."""
    news = asyncio.Event()
    stream.listen(news.set)
    try:
        while True:
            piece = stream.next_piece()
            if piece is not None:
                yield piece
            elif stream.broken:
                raise ConnectionAbortedError("the answer could not be completed")
            elif stream.over:
                return
            elif stream.needs_work:
                await stream.work()
            else:
                await news.wait()
                news.clear()
    finally:
        stream.listen(None)
