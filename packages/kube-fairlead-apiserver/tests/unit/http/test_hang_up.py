"""Clients that hang up: what has begun to write is carried to its end, everything else ends at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest

from kube_fairlead.base import commitment
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.tasks import TaskScope, cancel_and_wait
from kube_fairlead_apiserver.http.connection import Connection
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.http.server import HttpServer, listen
from kube_fairlead_apiserver.http.streams import Stream


@dataclass
class Work:
    """A handler of two steps. The first is a write, or not; the second waits until the test lets it."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)  # in whatever way
    done: bool = False
    stream_closed: bool = False

    async def handle(self, request: Request) -> Response:
        try:
            await request.read_body()
            if request.path == "/write":
                commitment.commit()
            if request.path == "/write-below":
                async with TaskScope("test") as scope:
                    scope.start(self._commit(), name="below")
            self.begun.set()
            await self.may_end.wait()
            self.done = True
            return Response(200, self._pieces()) if request.query.get("stream") else Response(200, b"done")
        finally:
            self.ended.set()

    async def _commit(self) -> None:
        commitment.commit()

    def _pieces(self) -> Stream:
        return Pieces(self)


class Pieces(Stream):
    def __init__(self, work: Work) -> None:
        super().__init__()
        self._work = work

    @property
    def over(self) -> bool:
        return False

    def next_piece(self) -> bytes | None:
        raise AssertionError("a stream that no client reads was begun")

    def listen(self, listener: Callable[[], None] | None) -> None:
        raise AssertionError("a stream that no client reads was begun")

    def _release(self) -> None:
        self._work.stream_closed = True


class Running:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.work = Work()
        self.listener = listen("127.0.0.1", 0)
        self.http = HttpServer(self.work.handle, self.listener, None, self.clock)
        self.task: asyncio.Task[None] | None = None

    async def ask(self, path: str) -> asyncio.StreamWriter:
        """Send a request, and return once its handler has done its first step."""
        _, writer = await asyncio.open_connection(*self.listener.getsockname())
        writer.write(f"POST {path} HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\n\r\nx".encode())
        await self.work.begun.wait()
        return writer

    async def hang_up(self, writer: asyncio.StreamWriter) -> None:
        """Break the connection, and return once the server has noticed."""
        (connection,) = self.http._shared.connections
        assert isinstance(connection, Connection)
        writer.transport.abort()
        while not connection._lost:
            await self.clock.advance(0)


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    made = Running()
    async with TaskScope("test") as scope:
        made.task = scope.start(made.http.run(), name="http")
        await made.http.wait_started()
        yield made
        made.work.may_end.set()
        await cancel_and_wait(made.task)


@pytest.mark.parametrize("path", ["/write", "/write-below", "/write?stream=1"])
async def test_what_has_begun_to_write_is_carried_to_its_end(running: Running, path: str) -> None:
    writer = await running.ask(path)
    await running.hang_up(writer)
    assert not running.work.ended.is_set()
    running.work.may_end.set()
    await running.http._shared.empty.wait()
    assert running.work.done
    assert running.work.stream_closed is ("stream" in path)
    assert len(running.http._shared.tasks) == 0 or await settled(running)


async def settled(running: Running) -> bool:
    await running.clock.advance(0)
    return len(running.http._shared.tasks) == 0


async def test_what_has_not_ends_at_once(running: Running) -> None:
    writer = await running.ask("/read")
    await running.hang_up(writer)
    await running.work.ended.wait()
    assert not running.work.done


async def test_each_request_on_a_connection_begins_anew(running: Running) -> None:
    """A read after a write, over the same connection, is cancelled as any other."""
    writer = await running.ask("/write")
    running.work.may_end.set()
    await running.work.ended.wait()
    for event in (running.work.begun, running.work.may_end, running.work.ended):
        event.clear()
    running.work.done = False
    writer.write(b"GET /read HTTP/1.1\r\nhost: h\r\n\r\n")
    await running.work.begun.wait()
    await running.hang_up(writer)
    await running.work.ended.wait()
    assert not running.work.done


async def test_the_server_stops_only_after_it(running: Running) -> None:
    """Its storage is closed next, and would refuse the second of two writes."""
    assert running.task is not None
    writer = await running.ask("/write")
    await running.hang_up(writer)
    running.task.cancel()
    await running.clock.advance(45)  # longer than requests in flight may take, whose clients wait
    assert not running.task.done()
    assert not running.work.ended.is_set()
    running.work.may_end.set()
    await asyncio.wait([running.task])
    assert running.work.done


async def test_a_request_that_only_reads_does_not_hold_the_stop_up(running: Running) -> None:
    assert running.task is not None
    writer = await running.ask("/read")
    running.task.cancel()
    await running.clock.advance(31)
    await asyncio.wait([running.task])
    assert not running.work.done
    writer.close()
