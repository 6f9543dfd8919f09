"""Bodies that are made while they are sent: their pieces, what is counted of them, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.tasks import OnExit, TaskScope
from kube_fairlead_apiserver.http import shared_state
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.http.response_writer import UnreadBytes, chosen_to_cut
from kube_fairlead_apiserver.http.server import HttpServer, listen
from kube_fairlead_apiserver.http.streams import Stream, Text, UnsentText, iterate, size_of

TEXTS = st.binary(max_size=40) | st.lists(st.binary(max_size=30), max_size=4).map(tuple)


def joined(text: Text) -> bytes:
    return text if isinstance(text, bytes) else b"".join(text)


@given(st.lists(st.tuples(TEXTS, st.booleans()), max_size=12), st.integers(1, 50))
def test_pieces_are_the_texts_and_none_is_too_long(texts: list[tuple[Text, bool]], most_bytes: int) -> None:
    unsent = UnsentText()
    for text, own in texts:
        unsent.add(text, own_bytes=size_of(text) if own else 0)
    whole = b"".join(joined(text) for text, _ in texts)
    # Where a text may be cut: anywhere in a long one, and at its ends.
    ends, at = {0}, 0
    for text, _ in texts:
        length = size_of(text)
        ends.update(range(at, at + length + 1) if length > most_bytes else (at, at + length))
        at += length
    taken = b""
    while unsent.size:
        # What is held of its own are all texts that are not sent to their end.
        left, held = len(taken), 0
        for text, own in texts:
            left -= size_of(text)
            held += size_of(text) if own and left < 0 else 0
        assert unsent.own_bytes == held
        piece = unsent.take(most_bytes)
        assert piece is not None
        assert len(piece) <= most_bytes
        taken += piece
        assert len(taken) in ends
        assert unsent.begun <= (len(taken) < len(whole))
    assert taken == whole
    assert unsent.own_bytes == 0


def test_a_part_that_others_hold_is_not_copied_before_it_is_sent() -> None:
    stored = b"x" * 1_000_000
    unsent = UnsentText()
    unsent.add((b"{", stored, b"}"), shared=stored)
    assert unsent.take(10) == b"{xxxxxxxxx"
    assert unsent.shared is stored
    assert unsent.own_bytes == 0
    assert [rest.obj for rest in unsent._rest] == [b"}", stored]
    assert unsent._rest[-1].obj is stored


def test_what_several_clients_share_is_counted_once() -> None:
    line, other = b"x" * (1 << 20), b"y" * (1 << 20)
    held = {
        "a": UnreadBytes(1.0, 0, line),
        "b": UnreadBytes(2.0, 0, line),
        "c": UnreadBytes(3.0, 0, other),
        "d": UnreadBytes(4.0, 0),
    }
    below = 4 * 112 * 1024
    assert chosen_to_cut(held, (2 << 20) + below) == []
    assert chosen_to_cut(held, (2 << 20) + below - 1) == ["a"]  # the line stays, as "b" has it
    assert chosen_to_cut(held, (1 << 20) + below // 2) == ["a", "b"]


class Made(Stream):
    """A body all of whose pieces are work."""

    def __init__(self, pieces: int, *, fails: bool = False, own_bytes: int = 0) -> None:
        super().__init__()
        self.left = pieces
        self.fails = fails
        self.made: list[bytes] = []
        self._own_bytes = own_bytes

    @property
    def over(self) -> bool:
        return not self.left and not self.made

    @property
    def needs_work(self) -> bool:
        return self.left > 0 and not self.made

    @property
    def own_bytes(self) -> int:
        return self._own_bytes

    def next_piece(self) -> bytes | None:
        return self.made.pop() if self.made else None

    def listen(self, listener: Callable[[], None] | None) -> None:
        pass

    async def work(self) -> None:
        await asyncio.sleep(0)
        self.left -= 1
        if self.fails and not self.left:
            raise RuntimeError("there is no more")
        self.made.append(b"piece\n" if not self._own_bytes else b"x" * 1_000_000)

    def _release(self) -> None:
        self.left = 0


class Fails(Made):
    """One that fails between two writes."""

    needs_work = False

    def next_piece(self) -> bytes | None:
        self.left -= 1
        if not self.left:
            raise RuntimeError("there is no more")
        return b"piece\n"


class Quiet(Made):
    """A watch of which nothing comes."""

    over = needs_work = False

    def next_piece(self) -> bytes | None:
        return None


class Server:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.listener = listen("127.0.0.1", 0)
        self.http = HttpServer(self.handle, self.listener, None, self.clock)
        self.streams: list[Stream] = []

    async def handle(self, request: Request) -> Response:
        makers: dict[str, Callable[[], Stream]] = {
            "/made": lambda: Made(3),
            "/work-fails": lambda: Made(3, fails=True),
            "/fails": lambda: Fails(3),
            "/quiet": lambda: Quiet(1),
            "/own": lambda: Made(1000, own_bytes=10 << 20),
        }
        self.streams.append(makers[request.path]())
        return Response(200, self.streams[-1])

    async def ask(self, path: str, version: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self.listener.getsockname())
        writer.write(f"GET {path} HTTP/{version}\r\nhost: h\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        return reader, writer


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
                connection.abort()


async def test_work_is_done_before_the_next_piece(server: Server) -> None:
    reader, writer = await server.ask("/made", "1.0")
    assert await reader.read() == b"piece\n" * 3
    writer.close()
    assert [piece async for piece in iterate(Made(3))] == [b"piece\n"] * 3


@pytest.mark.parametrize("path", ["/fails", "/work-fails"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_body_that_fails_is_not_taken_for_whole(server: Server, path: str, version: str) -> None:
    """In HTTP/1.0 the end of the body is the end of the connection, so it must not end as that does."""
    reader, writer = await server.ask(path, version)
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()


async def test_a_client_that_hangs_up_behind_a_quiet_watch_is_noticed(server: Server) -> None:
    """It has sent so much that reading is paused, and there is nothing to be written to it."""
    _, writer = await server.ask("/quiet", "1.1")
    writer.write(b"GET /quiet HTTP/1.1\r\nhost: h\r\n\r\n" * 10_000)
    (connection,) = server.http._shared.connections
    while connection._reading:  # type: ignore[attr-defined] # it is a Connection
        await server.clock.advance(0)
    await server.clock.advance(600)
    assert connection in server.http._shared.connections
    writer.transport.abort()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    await server.clock.advance(2)
    await server.http._shared.empty.wait()
    assert len(server.streams) == 1


async def test_what_is_made_for_clients_that_do_not_read_is_bounded_at_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Much can be made in the second until all connections are looked at."""
    monkeypatch.setattr(shared_state, "_UNCHECKED_BYTES", 10 << 20)
    writers = [(await server.ask("/own", "1.1"))[1] for _ in range(30)]
    while len(server.http._shared.connections) > 19:
        await server.clock.advance(0)
    assert server.clock.monotonic() == VirtualClock().monotonic()
    for writer in writers:
        writer.close()
