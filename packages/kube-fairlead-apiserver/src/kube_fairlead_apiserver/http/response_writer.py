"""Writes responses to one connection, and bounds what is held while the client does not read.

A body is written to the transport in pieces, each when there is room for it. Until then the body is shared with other
connections; bytes in the transport are encrypted and belong to this connection alone.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import itertools
import socket
import struct
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar

from kube_fairlead.base import sockets
from kube_fairlead_apiserver.http.scheduler import Scheduler
from kube_fairlead_apiserver.http.streams import PIECE_BYTES, Stream, Text, UnsentText
from kube_fairlead_apiserver.http.throttle import Throttle

__all__ = ["GONE", "UNSENT_TOTAL_BYTES", "ResponseWriter", "UnreadBytes", "chosen_to_cut", "reset_when_closed"]

# The unread bytes of all clients together.
UNSENT_TOTAL_BYTES = 192 << 20
# Memory of a connection that waits for its client, besides what its transport reports (measured, over TLS: the
# transport below, its records, buffers of OpenSSL).
_BELOW_BYTES = 112 * 1024
# Close without waiting for the client to read the rest; the kernel would wait for a quarter of an hour.
_NO_LINGER = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)
_PIECES_AT_ONCE = 4  # of a complete response, before yielding to others
_C = TypeVar("_C")


class _Gone:
    """The transport of a closed connection: accepts everything and does nothing."""

    def is_closing(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> None:
        del name

    def write(self, data: object) -> None:
        del data

    def pause_reading(self) -> None:
        return

    resume_reading = close = abort = pause_reading


GONE = _Gone()


class UnreadBytes(NamedTuple):
    """The memory held for a client that does not read."""

    since: float
    size: int  # bytes: in its transport, and encoded for it alone
    shared: bytes = b""  # a text that other clients may hold too: counted once


def chosen_to_cut(held: Mapping[_C, UnreadBytes], budget_bytes: int = UNSENT_TOTAL_BYTES) -> list[_C]:
    """Return the connections to abort to get within the budget: those that have read nothing for the longest time."""
    holders = collections.Counter(id(one.shared) for one in held.values())
    shared = {id(one.shared): len(one.shared) for one in held.values()}
    total = sum(one.size + _BELOW_BYTES for one in held.values()) + sum(shared.values())
    chosen = []
    for connection, one in sorted(held.items(), key=lambda item: item[1].since):
        if total <= budget_bytes:
            break
        chosen.append(connection)
        total -= one.size + _BELOW_BYTES
        holders[id(one.shared)] -= 1
        if not holders[id(one.shared)]:
            total -= len(one.shared)
    return chosen


def reset_when_closed(transport: Any) -> None:
    """Drop unread bytes, in the kernel too, and reset the connection at once."""
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):  # it may be closed already
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)


class ResponseWriter:
    """Writes responses to a transport, as fast as the client reads them.

    1. While the transport is full, only heads and ends of responses are written.
    2. The source of a change writes to the stream directly: no task is woken for a piece. Only the `work` of a stream
       runs in the task that awaits `stream`.
    3. `hurry` is called when a stream should end and the client does not read, to shorten the client's time limit.
    4. A body that cannot be completed ends with an aborted connection, so that no client takes it as complete.
    5. Long responses to a user in `flow` are encoded and written in that user's turns. Changes of a watch are not: they
       are few at a time.
    """

    __slots__ = (
        "_chunked",
        "_done",
        "_hurry",
        "_room",
        "_scheduler",
        "_source",
        "_throttle",
        "_transport",
        "_unsent",
        "flow",
        "held_back",
    )

    def __init__(self, transport: Any, hurry: Callable[[], None], scheduler: Scheduler | None = None) -> None:
        self.flow: Any = None  # of the request's user; None: it need not wait
        self._scheduler = scheduler
        self._throttle: Throttle | None = None
        self.held_back = False
        self._transport = transport  # uvloop's transports are of no class of asyncio's
        self._hurry = hurry
        self._room: asyncio.Future[None] | None = None
        self._done: asyncio.Future[bool] | None = None
        self._source: Stream | None = None
        self._unsent: UnsentText | None = None
        self._chunked = False

    def held(self, since: float) -> UnreadBytes:
        """Bytes that the client has not read."""
        size = self._transport.get_write_buffer_size()
        holder = self._source or self._unsent
        return (
            UnreadBytes(since, size) if holder is None else UnreadBytes(since, size + holder.own_bytes, holder.shared)
        )

    @property
    def made_bytes(self) -> int:
        """Bytes held besides the transport's, and besides stored objects."""
        holder = self._source or self._unsent
        return 0 if holder is None else holder.own_bytes + len(holder.shared)

    def read_progress(self) -> int:
        """Return a number that grows when the client reads.

        The unsent bytes shrink late, because of buffers of megabytes.
        """
        taken = sockets.acknowledged_bytes(self._transport.get_extra_info("socket"))
        return -int(self._transport.get_write_buffer_size()) if taken is None else taken

    def pause(self) -> None:
        """Stop writing: the transport is full."""
        self.held_back = True
        if self._source is not None:
            self._source.mute(muted=True)

    def resume(self) -> None:
        """Continue to write: there is room again."""
        self.held_back = False
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        if self._source is not None:
            self._source.mute(muted=False)
            self._fill()

    async def send(self, top: bytes, body: Text) -> None:
        """Send a complete response. Returns when the transport has accepted all of it and has room again."""
        if isinstance(body, bytes) and len(body) <= PIECE_BYTES:
            self._transport.write(top + body)
        else:
            self._transport.write(top)
            unsent = self._unsent = UnsentText()
            unsent.add(body, shared=body if isinstance(body, bytes) else max(body, key=len))
            try:
                await self.drain()
                await self._in_turns(self._write_pieces(unsent))
            finally:
                self._unsent = None
        await self.drain()

    async def _write_pieces(self, unsent: UnsentText) -> None:
        # A failed transport accepts everything, and logs each piece.
        for number in itertools.count(1):
            if self._transport.is_closing() or (piece := unsent.take(PIECE_BYTES)) is None:
                return
            self._transport.write(piece)
            await self.drain()
            if not number % _PIECES_AT_ONCE:
                await asyncio.sleep(0)

    def _in_turns(self, work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        return work if self.flow is None or self._scheduler is None else self._scheduler.run_in_turn(self.flow, work)

    async def drain(self) -> None:
        """Wait until there is room."""
        while self.held_back:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    async def stream(self, source: Stream, *, chunked: bool) -> None:
        """Send a stream. Returns at its end; aborts the connection when the stream broke off."""
        self._source, self._chunked = source, chunked
        if self.flow is not None and self._scheduler is not None:
            self._throttle = Throttle(self._scheduler, self._fill)
            self._throttle.known = self.flow
        source.listen(self._fill)
        source.mute(muted=self.held_back)
        try:
            while not await self._fill_until_done():
                await self._in_turns(source.work())
        except Exception:
            self._break_off()  # a client of HTTP/1.0 takes a closed connection as the end
            raise
        finally:
            source.listen(None)
            self._source = self._done = None
            if self._throttle is not None:
                self._throttle.leave()
                self._throttle = None
        await self.drain()
        if chunked:
            self._transport.write(b"0\r\n\r\n")

    async def _fill_until_done(self) -> bool:
        """Write until the end of the stream, or until it needs work (False)."""
        self._done = asyncio.get_running_loop().create_future()
        self._fill()
        return await self._done

    def _fill(self) -> None:
        """Write available pieces while there is room."""
        source, done = self._source, self._done
        if source is None or done is None or done.done() or self._transport.is_closing():
            return
        try:
            if not self.held_back and (piece := source.only_piece()) is not None:
                self._transport.write(_shared_chunk(piece) if self._chunked else piece)
                return
            while not self.held_back and not self._transport.is_closing():
                if self._throttle is None or not source.paced:
                    if not self._write_next(source):
                        break
                elif not self._throttle.is_open():
                    return
                elif not self._write_in_turn(source, self._throttle):
                    break
        except Exception as error:  # noqa: BLE001 - the task that awaits the stream gets it, wherever this was called
            done.set_exception(error)
            return
        if source.broken:
            self._break_off()  # this cancels the task that waits for the end
        elif source.over:
            done.set_result(True)
        elif self.held_back:
            if source.ending:
                self._hurry()
        elif source.needs_work:
            done.set_result(False)

    def _write_next(self, source: Stream) -> bool:
        """Write the next piece, if there is one."""
        piece = source.next_piece()
        if piece is None:
            return False
        self._transport.write(_chunk(piece) if self._chunked else piece)
        return True

    def _write_in_turn(self, source: Stream, throttle: Throttle) -> bool:
        assert self._scheduler is not None  # noqa: S101 - for the type checker: without a scheduler there is no throttle
        began = self._scheduler.now()
        try:
            return self._write_next(source)
        finally:
            throttle.use(self._scheduler.now() - began)
            self._scheduler.keep_present(throttle.known)

    def _break_off(self) -> None:
        reset_when_closed(self._transport)
        self._transport.abort()


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


# The line of a change is sent to all its watchers one after another.
_shared_chunk = functools.lru_cache(1)(_chunk)
