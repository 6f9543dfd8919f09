"""A connection of a user whose turn has not come: what it sends is kept, and read in its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from fairlead.apiserver.http.messages import Request, Response
from fairlead.apiserver.http.server import HttpServer, listen
from fairlead.base.clock import RealClock
from fairlead.base.tasks import OnExit, TaskScope


class Pacing:
    """Gives turns when the test says so."""

    def __init__(self) -> None:
        self.is_open = True
        self.waiting: list[Callable[[float], None]] = []
        self.arrived = asyncio.Event()
        self.withdrawn = asyncio.Event()
        self.handshakes: list[str] = []

    def take_turn_of(self, lane: Any, step: Callable[[float], None]) -> float:
        assert lane == "alice"
        if self.is_open:
            return 0.5
        self.waiting.append(step)
        self.arrived.set()
        return 0.0

    def withdraw(self, lane: Any, step: Callable[[float], None]) -> None:
        assert lane == "alice"
        self.waiting.remove(step)
        self.withdrawn.set()

    async def begin_handshake(self, address: str) -> None:
        self.handshakes.append(address)


class Server:
    def __init__(self) -> None:
        self.pacing = Pacing()
        self.set_aside: list[float] = []
        self.listener = listen("127.0.0.1", 0)
        self.http = HttpServer(self.handle, self.listener, None, RealClock(), self.pacing)

    async def handle(self, request: Request) -> Response:
        self.set_aside.append(request.set_aside)
        request.lane = "alice"
        return Response(200, request.path.encode())

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.listener.getsockname())


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    async with TaskScope("test", on_exit=OnExit.CANCEL) as scope:
        scope.start(made.http.run(), name="http")
        await made.http.wait_started()
        yield made


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


async def answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return await reader.readexactly(int(length.partition(b":")[2]))


async def test_the_first_request_of_a_connection_is_read_at_once(server: Server) -> None:
    server.pacing.is_open = False
    reader, writer = await server.connect()
    writer.write(get("/a"))
    assert await answer(reader) == b"/a"
    assert server.set_aside == [0.0]
    assert server.pacing.handshakes == ["127.0.0.1"]
    writer.close()


async def test_the_next_one_waits_for_its_users_turn(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(get("/a"))
    await answer(reader)
    server.pacing.is_open = False
    writer.write(get("/b")[:10])
    await server.pacing.arrived.wait()
    writer.write(get("/b")[10:])
    assert server.set_aside == [0.0]
    server.pacing.waiting.pop()(0.25)
    assert await answer(reader) == b"/b"
    assert server.set_aside == [0.0, 0.25], "the handler is told that its turn was taken"
    writer.close()


async def test_a_turn_is_for_one_request(server: Server) -> None:
    reader, writer = await server.connect()
    for path in ("/a", "/b", "/c"):
        writer.write(get(path))
        assert await answer(reader) == path.encode()
    assert server.set_aside == [0.0, 0.5, 0.5]
    writer.close()


async def test_a_client_that_hangs_up_does_not_wait_any_more(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(get("/a"))
    await answer(reader)
    server.pacing.is_open = False
    writer.write(get("/b"))
    await server.pacing.arrived.wait()
    writer.transport.abort()
    await server.pacing.withdrawn.wait()
    assert server.pacing.waiting == []


async def test_what_is_kept_is_bounded(server: Server) -> None:
    """The rest stays with the client until the turn has come, and is read then."""
    reader, writer = await server.connect()
    writer.write(get("/a"))
    await answer(reader)
    server.pacing.is_open = False
    body = b"x" * (3 << 20)
    writer.write(b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await server.pacing.arrived.wait()
    server.pacing.waiting.pop()(0.25)
    assert await answer(reader) == b"/b"
    writer.close()


async def test_a_request_that_waits_is_answered_when_the_server_stops(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(get("/a"))
    await answer(reader)
    server.pacing.is_open = False
    writer.write(get("/b"))
    await server.pacing.arrived.wait()
    for connection in list(server.http._site.connections):
        connection.shut_down()
    server.pacing.waiting.pop()(0.25)
    assert await answer(reader) == b"/b"
    writer.close()
