"""Bodies that are made while they are sent, in pieces, each only when there is room for it."""

from __future__ import annotations

import abc
import asyncio
import collections
from collections.abc import AsyncIterator, Callable

__all__ = ["PIECE_BYTES", "Stream", "Text", "Unsent", "iterate", "size_of"]

# What is worth one write, and one record of TLS. A client that stopped reading holds on to one of them.
PIECE_BYTES = 16 * 1024

# A text, or its parts in order. A part may belong to others too, so it is not copied before it is sent.
Text = bytes | tuple[bytes, ...]


def size_of(text: Text) -> int:
    """How long a text is."""
    return len(text) if isinstance(text, bytes) else sum(map(len, text))


class Unsent:
    """Texts that wait to be sent.

    1. No piece is longer than what is asked for. A text is cut only if it is longer than that by itself.
    2. A part of a text is copied only into the piece that it is sent in.
    """

    __slots__ = ("_begun_own", "_rest", "_texts", "own_bytes", "shared", "size")

    def __init__(self) -> None:
        self.size = 0  # bytes
        self.own_bytes = 0  # what the texts take that are in no other reader's hands, whether begun or not
        self.shared = b""  # a long part that other readers may have, too
        self._texts: collections.deque[tuple[Text, int]] = collections.deque()
        self._rest: list[memoryview] = []  # of a long text whose beginning was sent, the last part first
        self._begun_own = 0  # the bytes of its own of that text, all of which are kept until it is sent

    @property
    def begun(self) -> bool:
        """The text that is next is not whole any more."""
        return bool(self._rest)

    def add(self, text: Text, *, own_bytes: int = 0, shared: bytes = b"") -> None:
        """Put a text behind the others."""
        self._texts.append((text, own_bytes))
        self.size += size_of(text)
        self.own_bytes += own_bytes
        self.shared = shared or self.shared

    def clear(self) -> None:
        """Hold on to nothing."""
        self._texts.clear()
        self._rest.clear()
        self.size = self.own_bytes = self._begun_own = 0
        self.shared = b""

    def take(self, most_bytes: int) -> bytes | None:
        """The next piece; None when there is nothing."""
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

    1. `next_piece` is asked only when there is room for what it returns. It takes little time.
    2. While it returns None and the stream is not `over`, its sender awaits `work` if the stream `needs_work`, and else
       waits for the call that `listen` asks for.
    3. `close` is called in the end, whatever happened, and lets go of everything.
    """

    def __init__(self) -> None:
        self._closed = False
        self._when_closed: list[Callable[[], None]] = []

    @property
    @abc.abstractmethod
    def over(self) -> bool:
        """Nothing more will come."""

    @property
    def ending(self) -> bool:
        """Little more will come: a client that does not read is not waited for."""
        return False

    @property
    def broken(self) -> bool:
        """Not all of it can be sent: the client must not take it for whole."""
        return False

    @property
    def needs_work(self) -> bool:
        """What comes next is too costly to be made between two writes."""
        return False

    @property
    def paced(self) -> bool:
        """The next piece waits for its reader's turn: it is one of many that are there, and not news."""
        return True

    @property
    def own_bytes(self) -> int:
        """What is held for this stream alone."""
        return 0

    @property
    def shared(self) -> bytes:
        """A long text that is held for this stream, and perhaps for others."""
        return b""

    def only_piece(self) -> bytes | None:
        """A piece with which all is sent that there is now, if that can be said at little cost. The stream goes on."""
        return None

    @abc.abstractmethod
    def next_piece(self) -> bytes | None:
        """The next piece, or None when there is none now."""

    @abc.abstractmethod
    def listen(self, listener: Callable[[], None] | None) -> None:
        """Call this when there may be another piece, or the end."""

    def mute(self, *, muted: bool) -> None:
        """While it is muted there is no room: its listener need not be called for news, only for the end."""
        del muted

    async def work(self) -> None:
        """Make some of what comes next, and let others have a turn."""
        await asyncio.sleep(0)

    def when_closed(self, call: Callable[[], None]) -> None:
        """Call this once, when the stream is closed."""
        self._when_closed.append(call)

    def close(self) -> None:
        """It is sent, or will not be read any more. May be called again."""
        if not self._closed:
            self._closed = True
            self._let_go()
            while self._when_closed:
                self._when_closed.pop()()

    @abc.abstractmethod
    def _let_go(self) -> None:
        """Hold on to nothing."""


async def iterate(stream: Stream) -> AsyncIterator[bytes]:
    """The pieces one after another, for those who wait by awaiting."""
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
