"""The way out of one connection: what is written to it, and what happens while the client does not read.

A body is handed to the transport in pieces, each when there is room for it. Until then it stays with its owner, where
it is shared with others: what the transport has taken is encrypted, and belongs to this connection alone.
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
from kube_fairlead_apiserver.http.lane import Turn
from kube_fairlead_apiserver.http.pace import Pace
from kube_fairlead_apiserver.http.streams import PIECE_BYTES, Stream, Text, Unsent

__all__ = ["GONE", "UNSENT_TOTAL_BYTES", "Held", "ResponseWriter", "chosen_to_cut", "reset_when_closed"]

# What all clients together may leave unread here.
UNSENT_TOTAL_BYTES = 192 << 20
# What a connection takes that waits for its client, besides what its transport says that it holds (measured, over TLS:
# the transport below, the records that it was given, buffers of OpenSSL).
_BELOW_BYTES = 112 * 1024
# Close without waiting for the client to take what is left; the kernel would wait for a quarter of an hour.
_NO_LINGER = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)
_PIECES_AT_ONCE = 4  # of an answer that is there as a whole, before others have a turn
_C = TypeVar("_C")


class _Gone:
    """Stands for the transport of a connection that is no more: it takes everything and does nothing."""

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


class Held(NamedTuple):
    """What is held for a client that does not read."""

    since: float
    size: int  # bytes: what its transport has, and what was made for it alone
    shared: bytes = b""  # a text that may be held for other clients too: it is counted once


def chosen_to_cut(held: Mapping[_C, Held], budget_bytes: int = UNSENT_TOTAL_BYTES) -> list[_C]:
    """On whom to hang up, so that the rest is within the budget: those who have taken nothing for the longest time."""
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
    """Drop what the client has not taken, in the kernel too, and let the client see that at once."""
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):  # it may be gone already
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)


class ResponseWriter:
    """Writes answers to a transport, as fast as the client takes them.

    1. While the transport holds as much as it may, nothing is written but heads and ends of answers.
    2. A stream is written to from wherever its news arrive: no task is woken for a piece. Only what a stream calls work
       is done by the task that awaits `stream`.
    3. `hurry` is called when a stream should end and the client does not read: the end cannot wait for it for long.
    4. A body that cannot be completed ends with an aborted connection, so that no client takes it for whole.
    5. What is sent to a user in `lane`, beyond what is short, is made and written in that user's turns. News of a
       watch are not: they are few at a time.
    """

    __slots__ = (
        "_chunked",
        "_done",
        "_hurry",
        "_pace",
        "_room",
        "_source",
        "_transport",
        "_turn",
        "_unsent",
        "held_back",
        "lane",
    )

    def __init__(self, transport: Any, hurry: Callable[[], None], pace: Pace | None = None) -> None:
        self.lane: Any = None  # of the user whose request is answered; None: it need not wait
        self._pace = pace
        self._turn: Turn | None = None
        self.held_back = False
        self._transport = transport  # uvloop's transports are of no class of asyncio's
        self._hurry = hurry
        self._room: asyncio.Future[None] | None = None
        self._done: asyncio.Future[bool] | None = None
        self._source: Stream | None = None
        self._unsent: Unsent | None = None
        self._chunked = False

    def held(self, since: float) -> Held:
        """What the client has not taken."""
        size = self._transport.get_write_buffer_size()
        holder = self._source or self._unsent
        return Held(since, size) if holder is None else Held(since, size + holder.own_bytes, holder.shared)

    @property
    def made_bytes(self) -> int:
        """What is held besides what the transport has, and besides what is stored anyway."""
        holder = self._source or self._unsent
        return 0 if holder is None else holder.own_bytes + len(holder.shared)

    def read_progress(self) -> int:
        """A number that grows when the client reads. What is unsent shrinks late: buffers of megabytes lie between."""
        taken = sockets.acknowledged_bytes(self._transport.get_extra_info("socket"))
        return -int(self._transport.get_write_buffer_size()) if taken is None else taken

    def pause(self) -> None:
        """The transport is full."""
        self.held_back = True
        if self._source is not None:
            self._source.mute(muted=True)

    def resume(self) -> None:
        """There is room again."""
        self.held_back = False
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        if self._source is not None:
            self._source.mute(muted=False)
            self._fill()

    async def send(self, top: bytes, body: Text) -> None:
        """A whole answer. Returns when the transport has taken all of it and has room again."""
        if isinstance(body, bytes) and len(body) <= PIECE_BYTES:
            self._transport.write(top + body)
        else:
            self._transport.write(top)
            unsent = self._unsent = Unsent()
            unsent.add(body, shared=body if isinstance(body, bytes) else max(body, key=len))
            try:
                await self.drain()
                await self._in_turns(self._write_pieces(unsent))
            finally:
                self._unsent = None
        await self.drain()

    async def _write_pieces(self, unsent: Unsent) -> None:
        # A transport that failed takes everything, and complains of each piece.
        for number in itertools.count(1):
            if self._transport.is_closing() or (piece := unsent.take(PIECE_BYTES)) is None:
                return
            self._transport.write(piece)
            await self.drain()
            if not number % _PIECES_AT_ONCE:
                await asyncio.sleep(0)

    def _in_turns(self, work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        return work if self.lane is None or self._pace is None else self._pace.run_in_turns(self.lane, work)

    async def drain(self) -> None:
        """Wait until there is room."""
        while self.held_back:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    async def stream(self, source: Stream, *, chunked: bool) -> None:
        """A body that is made while it is sent. Returns when it is over; hangs up when it broke off."""
        self._source, self._chunked = source, chunked
        if self.lane is not None and self._pace is not None:
            self._turn = Turn(self._pace, self._fill)
            self._turn.known = self.lane
        source.listen(self._fill)
        source.mute(muted=self.held_back)
        try:
            while not await self._fill_until_done():
                await self._in_turns(source.work())
        except Exception:
            self._break_off()  # a client of HTTP/1.0 would take a connection that is closed for the end
            raise
        finally:
            source.listen(None)
            self._source = self._done = None
            if self._turn is not None:
                self._turn.leave()
                self._turn = None
        await self.drain()
        if chunked:
            self._transport.write(b"0\r\n\r\n")

    async def _fill_until_done(self) -> bool:
        """Write until the stream is over, or needs work (False)."""
        self._done = asyncio.get_running_loop().create_future()
        self._fill()
        return await self._done

    def _fill(self) -> None:
        """Write what there is while there is room for it."""
        source, done = self._source, self._done
        if source is None or done is None or done.done() or self._transport.is_closing():
            return
        try:
            if not self.held_back and (piece := source.only_piece()) is not None:
                self._transport.write(_shared_chunk(piece) if self._chunked else piece)
                return
            while not self.held_back and not self._transport.is_closing():
                if self._turn is None or not source.paced:
                    if not self._write_next(source):
                        break
                elif not self._turn.is_open():
                    return
                elif not self._write_in_turn(source, self._turn):
                    break
        except Exception as error:  # noqa: BLE001 - it belongs to the one who awaits the stream, wherever this was called
            done.set_exception(error)
            return
        if source.broken:
            self._break_off()  # which cancels the task that waits for the end
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

    def _write_in_turn(self, source: Stream, turn: Turn) -> bool:
        assert self._pace is not None  # noqa: S101 - there is a turn
        began = self._pace.now()
        try:
            return self._write_next(source)
        finally:
            turn.use(self._pace.now() - began)
            self._pace.still_there(turn.known)

    def _break_off(self) -> None:
        reset_when_closed(self._transport)
        self._transport.abort()


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


# The line of a change goes to all its watchers one after another.
_shared_chunk = functools.lru_cache(1)(_chunk)
