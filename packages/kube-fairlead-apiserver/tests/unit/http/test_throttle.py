"""A connection of a user whose turn has not come: what it sends is kept, and read in its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.tasks import OnExit, TaskScope
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.http.server import HttpServer, listen
from kube_fairlead_apiserver.http.streams import Stream


class Pacing:
    """Gives turns when the test says so."""

    def __init__(self) -> None:
        self.is_open = True
        self.waiting: list[Callable[[float], None]] = []
        self.arrived = asyncio.Event()
        self.withdrawn = asyncio.Event()
        self.handshakes: list[str] = []
        self.charged: list[tuple[str, float]] = []  # to whom, and what had been reserved
        self.newcomers_wait = False
        self.newcomer_came = asyncio.Event()
        self.worked: list[str] = []  # for whom a part of an answer was made in turns
        self.lanes: list[str] = []  # in which something waited or had its turn

    def ran(self, flow: Any, seconds: float, reserved: float) -> None:
        assert seconds >= 0
        self.charged.append((flow, reserved))

    def run_in_turn(self, flow: Any, work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        self.worked.append(flow)
        return work

    def keep_present(self, flow: Any) -> None:
        assert flow == "alice"

    def unidentified(self, address: str) -> Any:
        self.newcomer_came.set()
        return address if self.newcomers_wait else None

    async def turn(self, reserved: float) -> None:
        """Give a turn as soon as something waits for it."""
        await self.arrived.wait()
        self.arrived.clear()
        self.waiting.pop()(reserved)

    def now(self) -> float:
        return 0.0

    def take_turn(self, flow: Any, step: Callable[[float], None]) -> float:
        self.lanes.append(flow)
        if self.is_open:
            return 0.5
        self.waiting.append(step)
        self.arrived.set()
        return 0.0

    def withdraw(self, flow: Any, step: Callable[[float], None]) -> None:
        assert flow == self.lanes[-1]
        self.waiting.remove(step)
        self.withdrawn.set()

    async def begin_handshake(self, address: str) -> None:
        self.handshakes.append(address)


class Pieces(Stream):
    """A list of three pieces, the last of which has to be made first."""

    def __init__(self) -> None:
        super().__init__()
        self.left = [b"c", b"b", b"a"]
        self.made = False

    @property
    def over(self) -> bool:
        return not self.left

    @property
    def needs_work(self) -> bool:
        return len(self.left) == 1 and not self.made

    def next_piece(self) -> bytes | None:
        return None if self.needs_work or not self.left else self.left.pop()

    async def work(self) -> None:
        self.made = True

    def listen(self, listener: Callable[[], None] | None) -> None:
        """There are no news."""

    def _release(self) -> None:
        self.left = []


LARGE = 300 * 1024


class Server:
    def __init__(self) -> None:
        self.pacing = Pacing()
        self.reserved: list[float] = []
        self.handling = asyncio.Event()
        self.listener = listen("127.0.0.1", 0)
        self.http = HttpServer(self.handle, self.listener, None, RealClock(), self.pacing)

    async def handle(self, request: Request) -> Response:
        self.reserved.append(request.reserved)
        request.flow = "alice"
        self.handling.set()
        if request.method == "POST":
            await request.read_body()
        if request.path == "/stream":
            return Response(200, Pieces())
        if request.path == "/large":
            return Response(200, b"x" * LARGE)
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
    assert server.reserved == [0.0]
    assert server.pacing.handshakes == ["127.0.0.1"]
    writer.close()


async def test_the_next_one_waits_for_its_users_turn(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(get("/a"))
    await answer(reader)
    server.pacing.is_open = False
    writer.write(get("/b"))
    await server.pacing.arrived.wait()
    assert server.reserved == [0.0]
    server.pacing.waiting.pop()(0.25)
    assert await answer(reader) == b"/b"
    assert server.reserved == [0.0, 0.25], "the handler is told that its turn was taken"
    assert server.pacing.charged == [], "and charges it"
    writer.close()


async def test_each_part_of_a_request_waits_for_a_turn_and_is_charged(server: Server) -> None:
    """A client that sends its request byte by byte takes no more turns than others."""
    reader, writer = await server.connect()
    writer.write(get("/a"))
    await answer(reader)
    server.pacing.is_open = False
    text = b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxyz"
    head = text.index(b"\r\n\r\n") + 4
    for part in (text[:1], text[1 : head - 1]):
        writer.write(part)
        await server.pacing.turn(0.25)
    assert server.pacing.charged == [("alice", 0.25)] * 2
    writer.write(text[head - 1 : head])
    await server.pacing.turn(0.125)  # the head is complete: it goes to the handler with its turn
    for part in (text[head : head + 1], text[head + 1 :]):
        writer.write(part)
        await server.pacing.turn(0.5)
    assert await answer(reader) == b"/b"
    assert server.reserved == [0.0, 0.125]
    assert server.pacing.charged == [("alice", 0.25)] * 2 + [("alice", 0.5)] * 2
    writer.close()


async def test_a_first_request_in_parts_is_read_in_turns_of_its_address(server: Server) -> None:
    """Until it is known whose it is."""
    server.pacing.newcomers_wait = True
    server.pacing.is_open = False
    reader, writer = await server.connect()
    text = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nxy"
    writer.write(text[:10])  # is read at once
    await server.pacing.newcomer_came.wait()
    writer.write(text[10:-2])
    await server.pacing.turn(0.25)
    await server.handling.wait()
    writer.write(text[-2:-1])
    await server.pacing.turn(0.25)
    writer.write(text[-1:])
    await server.pacing.turn(0.5)
    assert await answer(reader) == b"/a"
    assert server.pacing.lanes == ["127.0.0.1", "127.0.0.1", "alice"]
    writer.close()


async def test_a_turn_is_for_one_request(server: Server) -> None:
    reader, writer = await server.connect()
    for path in ("/a", "/b", "/c"):
        writer.write(get(path))
        assert await answer(reader) == path.encode()
    assert server.reserved == [0.0, 0.5, 0.5]
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
    server.pacing.is_open = True
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
    for connection in list(server.http._shared.connections):
        connection.shut_down()
    server.pacing.waiting.pop()(0.25)
    assert await answer(reader) == b"/b"
    writer.close()


async def test_each_piece_of_a_stream_waits_for_its_readers_turn(server: Server) -> None:
    server.pacing.is_open = False
    reader, writer = await server.connect()
    writer.write(get("/stream"))
    await reader.readuntil(b"\r\n\r\n")
    for piece in (b"a", b"b"):
        await server.pacing.turn(0.25)
        assert await reader.readexactly(6) == b"1\r\n" + piece + b"\r\n"
    await server.pacing.turn(0.125)  # it turns out that the next one has to be made
    await server.pacing.turn(0.25)
    assert await reader.readexactly(6) == b"1\r\nc\r\n"
    await server.pacing.turn(0.5)  # there is none any more
    assert await reader.readexactly(5) == b"0\r\n\r\n"
    assert server.pacing.charged == [("alice", reserved) for reserved in (0.25, 0.25, 0.125, 0.25, 0.5)]
    assert server.pacing.worked == ["alice"], "what has to be made is made in turns, too"
    writer.close()


async def test_a_reader_that_hangs_up_does_not_wait_any_more(server: Server) -> None:
    server.pacing.is_open = False
    reader, writer = await server.connect()
    writer.write(get("/stream"))
    await reader.readuntil(b"\r\n\r\n")
    await server.pacing.arrived.wait()
    writer.transport.abort()
    await server.pacing.withdrawn.wait()
    assert server.pacing.waiting == []


async def test_a_large_answer_is_written_in_turns(server: Server) -> None:
    reader, writer = await server.connect()
    writer.write(get("/large"))
    assert await answer(reader) == b"x" * LARGE
    assert server.pacing.worked == ["alice"]
    writer.close()
