"""Connections, on real sockets and virtual time: what is answered, what is refused, and who is hung up on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Self

import pytest

from fairlead.apiserver.http.messages import Request, Response
from fairlead.apiserver.http.server import HttpServer, listen
from fairlead.base.clock import VirtualClock
from fairlead.base.tasks import OnExit, TaskScope


class Body:
    """A stream that only ends when it is closed."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.sent = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self.sent:
            self.sent = True
            return b"first\n"
        await self.closed.wait()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closed.set()


class Server:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.listener = listen("127.0.0.1", 0)
        self.port = self.listener.getsockname()[1]
        self.seen: list[str] = []
        self.body = Body()
        self.http = HttpServer(self.handle, self.listener, None, self.clock)

    async def handle(self, request: Request) -> Response:
        self.seen.append(f"{request.method} {request.target}")
        if request.path == "/watch":
            return Response(200, self.body)
        body = await request.read_body()
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
            for connection in list(made.http._site.connections):
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
