"""Connections, on real sockets and virtual time: what is answered, what is refused, and who is hung up on."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable

import pytest

from kube_fairlead.api import errors
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.tasks import OnExit, TaskScope
from kube_fairlead_apiserver.http.connection import Connection
from kube_fairlead_apiserver.http.connection_state import Wait
from kube_fairlead_apiserver.http.messages import Request, Response, status_response
from kube_fairlead_apiserver.http.response_writer import UnreadBytes, chosen_to_cut
from kube_fairlead_apiserver.http.server import HttpServer, listen
from kube_fairlead_apiserver.http.streams import Stream


class Body(Stream):
    """A stream that only ends when it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = asyncio.Event()
        self.pieces = [b"first\n"]
        self.listener: Callable[[], None] | None = None

    @property
    def over(self) -> bool:
        return self.closed.is_set()

    def next_piece(self) -> bytes | None:
        return self.pieces.pop(0) if self.pieces else None

    def listen(self, listener: Callable[[], None] | None) -> None:
        self.listener = listener

    def _release(self) -> None:
        self.closed.set()


LARGE = 50_000_000


class Endless(Body):
    """One that has always more to send, until it is asked to end."""

    ending = False

    def next_piece(self) -> bytes | None:
        return b"x" * 100_000


class Server:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.listener = listen("127.0.0.1", 0)
        self.port = self.listener.getsockname()[1]
        self.seen: list[str] = []
        self.body = Body()
        self.endless = Endless()
        self.http = HttpServer(self.handle, self.listener, None, self.clock)

    async def handle(self, request: Request) -> Response:
        self.seen.append(f"{request.method} {request.target}")
        if request.path == "/watch":
            return Response(200, self.body)
        if request.path == "/large":
            return Response(200, b"x" * LARGE, stall_seconds=20)
        if request.path == "/endless":
            return Response(200, self.endless, stall_seconds=20)
        try:
            body = await request.read_body()
        except errors.ApiError as error:
            return status_response(error)
        return Response(200, request.path.encode() + b":" + body)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    async with TaskScope("test", on_exit=OnExit.CANCEL) as scope:
        scope.start(made.http.run(), name="http")
        await made.http.wait_started()
        try:
            yield made
        finally:
            for connection in list(made.http._shared.connections):
                connection.abort()  # nobody advances the clock any more


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    top = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = next((int(line.split(":")[1]) for line in top.splitlines() if line.startswith("content-length:")), 0)
    return int(top.split()[1]), await reader.readexactly(length)


async def test_requests_on_one_connection_are_answered_in_order(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(b"GET /a?x=1 HTTP/1.1\r\nhost: h\r\n\r\nPOST /b HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nhi")
    assert await answer(reader) == (200, b"/a:")
    assert await answer(reader) == (200, b"/b:hi")
    assert server.seen == ["GET /a?x=1", "POST /b"]
    writer.close()


async def test_an_idle_connection_is_closed_and_not_before_its_time(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(b"GET /a HTTP/1.1\r\nhost: h\r\n\r\n")
    await answer(reader)
    await server.clock.advance(290)
    writer.write(b"GET /b HTTP/1.1\r\nhost: h\r\n\r\n")
    assert await answer(reader) == (200, b"/b:")
    await server.clock.advance(310)
    with pytest.raises(ConnectionError):
        _raise_at_end(await reader.read())
    writer.close()


def _raise_at_end(data: bytes) -> None:
    if not data:
        raise ConnectionResetError


async def test_a_head_that_never_ends_is_hung_up_on(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(b"GET /a HTTP/1.1\r\nhost")
    await writer.drain()
    await server.clock.advance(40)
    with pytest.raises(ConnectionError):
        _raise_at_end(await reader.read())
    assert server.seen == []
    writer.close()


@pytest.mark.parametrize("pieces", [1, 40])
async def test_a_head_that_is_too_large_is_refused(server: Server, pieces: int) -> None:
    reader, writer = await server.connect()
    head = b"GET /a HTTP/1.1\r\nhost: h\r\nx: " + b"y" * 80_000 + b"\r\n\r\n"
    step = len(head) // pieces + 1
    for start in range(0, len(head), step):
        writer.write(head[start : start + step])
    code, _ = await answer(reader)
    assert code == 431
    assert server.seen == []
    writer.close()


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01 hello\r\n\r\n", b"GET\r\n\r\n", b"BREW /pot HTTP/1.1\r\nhost: h\r\n\r\n"]
)
async def test_what_is_no_request_is_refused(server: Server, garbage: bytes) -> None:
    reader, writer = await server.connect()
    writer.write(garbage)
    code, _ = await answer(reader)
    assert code == 400
    # It may still be sending and must get to read the answer; after that it is hung up on.
    await server.clock.advance(10)
    with pytest.raises(ConnectionError):
        _raise_at_end(await reader.read())
    writer.close()


async def test_an_absolute_target_is_read_as_its_path(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(b"GET http://example.com/a?b=c HTTP/1.1\r\nhost: example.com\r\n\r\n")
    assert await answer(reader) == (200, b"/a:")
    writer.write(b"GET http://[ HTTP/1.1\r\nhost: example.com\r\n\r\n")
    code, _ = await answer(reader)
    assert code in {200, 400}
    writer.close()


async def test_the_head_of_an_answer_alone(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(b"HEAD /a HTTP/1.1\r\nhost: h\r\n\r\nGET /b HTTP/1.1\r\nhost: h\r\n\r\n")
    top = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in top
    assert await answer(reader) == (200, b"/b:")
    writer.close()


async def test_a_stream_is_closed_when_its_reader_hangs_up(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(b"GET /watch HTTP/1.1\r\nhost: h\r\n\r\n")
    await reader.readuntil(b"first\n")
    writer.close()
    await server.body.closed.wait()


async def test_a_stream_is_closed_when_only_its_head_is_asked_for(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(b"HEAD /watch HTTP/1.1\r\nhost: h\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    await server.body.closed.wait()
    writer.close()


async def connection_of(server: Server) -> Connection:
    """The server's side of the only connection, once its client's buffers are full."""
    (connection,) = server.http._shared.connections
    assert isinstance(connection, Connection)
    unchanged = 0
    while connection._wait is not Wait.ROOM or unchanged < 50:
        before = connection._writer.read_progress()
        await server.clock.advance(0)
        unchanged = unchanged + 1 if connection._writer.read_progress() == before else 0
    return connection


@pytest.mark.parametrize("path", ["/large", "/endless"])
async def test_a_client_that_reads_nothing_is_hung_up_on(server: Server, path: str) -> None:
    reader, writer = await server.connect()
    writer.write(f"GET {path} HTTP/1.1\r\nhost: h\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    await connection_of(server)
    await server.clock.advance(15)
    assert server.http._shared.connections
    # What was on its way when it stopped to read has arrived since, and counts as read once.
    await server.clock.advance(30)
    await server.http._shared.empty.wait()
    writer.close()


async def test_a_client_that_reads_slowly_is_not(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(b"GET /large HTTP/1.1\r\nhost: h\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    connection = await connection_of(server)
    read = 0
    for _ in range(4):
        deadline = connection.ends_at
        await server.clock.advance(5)
        while connection.ends_at == deadline:
            read += len(await reader.readexactly(65_536))
        await server.clock.advance(10)
        assert connection in server.http._shared.connections
    assert len(await reader.readexactly(LARGE - read)) == LARGE - read
    writer.write(b"GET /a HTTP/1.1\r\nhost: h\r\n\r\n")
    assert await answer(reader) == (200, b"/a:")
    writer.close()


async def test_a_stream_that_should_end_does_not_wait_long_for_a_client_that_reads_nothing(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(b"GET /endless HTTP/1.1\r\nhost: h\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    await connection_of(server)
    server.endless.ending = True
    assert server.endless.listener is not None
    server.endless.listener()
    await server.clock.advance(3)
    server.endless.listener()  # each call is no reason to wait anew
    await server.clock.advance(4)
    await server.http._shared.empty.wait()
    assert server.endless.closed.is_set()
    writer.close()


async def test_what_is_unread_is_not_held_by_the_connection(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(b"GET /large HTTP/1.1\r\nhost: h\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    connection = await connection_of(server)
    assert connection._transport.get_write_buffer_size() < 100_000
    writer.close()


async def test_a_connection_that_is_gone_leaves_nothing_for_the_collector(server: Server) -> None:
    requests = (b"GET /watch", b"GET /large", b"GET /endless", b"GET /a", b"POST /a")
    for request in requests:
        reader, writer = await server.connect()
        writer.write(request + b" HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        seen = [weakref.ref(connection) for connection in server.http._shared.connections]
        gc.collect()
        gc.disable()
        try:
            writer.transport.abort()
            await server.http._shared.empty.wait()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert [one() for one in seen] == [None]
        finally:
            gc.enable()


def test_past_the_budget_those_are_cut_who_took_nothing_for_the_longest_time() -> None:
    held = {"b": UnreadBytes(2.0, 1 << 20), "a": UnreadBytes(1.0, 1 << 20), "c": UnreadBytes(3.0, 1 << 20)}
    assert chosen_to_cut(held, 4 << 20) == []
    assert chosen_to_cut(held, 3 << 20) == ["a"]
    assert chosen_to_cut(held, 2 << 20) == ["a", "b"]
    assert chosen_to_cut(held, 0) == ["a", "b", "c"]


async def test_a_body_that_breaks_off_before_it_is_read_is_answered(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(b"POST /a HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\nno size\r\n")
    code, _ = await answer(reader)
    assert code == 400
    writer.close()


async def test_the_answers_before_what_is_no_request_are_given(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(b"GET /a HTTP/1.1\r\nhost: h\r\n\r\nGET /b HTTP/1.1\r\nhost: h\r\n\r\nnonsense\r\n\r\n")
    assert await answer(reader) == (200, b"/a:")
    assert await answer(reader) == (200, b"/b:")
    code, _ = await answer(reader)
    assert code == 400
    writer.close()


async def test_a_reader_of_a_stream_that_sent_more_and_hangs_up_is_noticed(server: Server) -> None:
    """What it sent behind its request is kept, up to a bound, while the stream goes on."""
    reader, writer = await server.connect()
    writer.write(b"GET /watch HTTP/1.1\r\nhost: h\r\n\r\n" + b"GET /a HTTP/1.1\r\nhost: h\r\n\r\n" * 100)
    await reader.readuntil(b"first\n")
    writer.close()
    await server.body.closed.wait()
