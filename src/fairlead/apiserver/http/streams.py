"""Bodies that are made while they are sent, in pieces, each only when there is room for it."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import AsyncIterator, Callable

__all__ = ["PIECE_BYTES", "Stream", "iterate"]

# What is worth one write, and one record of TLS. A client that stopped reading holds on to one of them.
PIECE_BYTES = 16 * 1024


class Stream(abc.ABC):
    """A body in pieces.

    1. `next_piece` is asked only when there is room for what it returns.
    2. While it returns None and the stream is not `over`, its sender waits for the call that `listen` asks for.
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

    @abc.abstractmethod
    def next_piece(self) -> bytes | None:
        """The next piece, or None when there is none now."""

    @abc.abstractmethod
    def listen(self, listener: Callable[[], None] | None) -> None:
        """Call this when there may be another piece, or the end."""

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
            else:
                await news.wait()
                news.clear()
    finally:
        stream.listen(None)
