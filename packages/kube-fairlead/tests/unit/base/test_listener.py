"""Connections that stay silent: bounded in number and time, with TLS and without."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.listener import SILENT_CONNECTIONS, Listener
from kube_fairlead_lab.testing.credentials import CertificateAuthority


class Echo(asyncio.Protocol):
    """Sends back what it gets."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


class Site:
    """A listener, and clients that trust it."""

    def __init__(self, listener: Listener, trusting: ssl.SSLContext | None) -> None:
        self.listener = listener
        self.trusting = trusting

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Just TCP."""
        return await asyncio.open_connection("127.0.0.1", self.listener.port)

    async def echoed(self, words: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port, ssl=self.trusting)
        writer.write(words)
        answer = await reader.readexactly(len(words))
        writer.close()
        return answer

    async def flood(self, count: int, source: str = "127.0.0.1") -> list[socket.socket]:
        """So many connections that stay silent. They are all accepted when this ends."""
        flood = []
        for _ in range(count):
            flood.append(socket.create_connection(("127.0.0.1", self.listener.port), source_address=(source, 0)))
            await asyncio.sleep(0)  # the listener accepts
        return flood

    async def until_silent(self, count: int) -> None:
        clock = RealClock()
        async with clock.timeout(10):
            while self.listener.silent != count:
                await clock.sleep(0.005)


@pytest.fixture(params=["tls", "plain"])
def contexts(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Of the server and of its clients."""
    if request.param == "plain":
        return None, None
    authority = CertificateAuthority.create(tmp_path)
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(*authority.serving("listener"))
    return served, ssl.create_default_context(cafile=str(authority.certificate_file))


@contextlib.asynccontextmanager
async def a_site(
    contexts: tuple[ssl.SSLContext | None, ssl.SSLContext | None],
    *,
    limit: int = 4,
    handshakes: int = 4,
    seconds: float = 60.0,
    first_byte_seconds: float = 60.0,
) -> AsyncIterator[Site]:
    listener = Listener(
        Echo,
        tls=contexts[0],
        silent_connections=limit,
        handshakes=handshakes,
        silent_seconds=seconds,
        first_byte_seconds=first_byte_seconds,
    )
    await listener.listen("127.0.0.1", 0)
    try:
        yield Site(listener, contexts[1])
    finally:
        await listener.close()


Contexts = tuple[ssl.SSLContext | None, ssl.SSLContext | None]


HEAD = b"GET / HTTP/1.1\r\n\r\n"


async def ended(reader: asyncio.StreamReader) -> None:
    """The listener ends the connection."""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        async with RealClock().timeout(10):
            assert await reader.read() == b""


async def test_what_speaks_is_handed_on(contexts: Contexts) -> None:
    async with a_site(contexts) as site:
        assert await site.echoed(HEAD) == HEAD
        assert await site.echoed(HEAD + b"x" * 200_000) == HEAD + b"x" * 200_000
        assert await site.echoed(b"x" * 200_000) == b"x" * 200_000  # more than any head
        assert site.listener.silent == 0


async def test_a_head_may_come_in_pieces(contexts: Contexts) -> None:
    async with a_site(contexts) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.listener.port, ssl=contexts[1])
        for byte in HEAD[:-1]:
            writer.write(bytes([byte]))
            await writer.drain()
            assert site.listener.silent == 1
        writer.write(HEAD[-1:])
        assert await reader.readexactly(len(HEAD)) == HEAD
        assert site.listener.silent == 0
        writer.close()


@pytest.mark.parametrize("contexts", ["tls"], indirect=True)
async def test_a_handshake_may_come_in_pieces(contexts: Contexts) -> None:
    trusting = contexts[1]
    assert trusting is not None
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    async with a_site(contexts) as site, RealClock().timeout(10):
        reader, writer = await site.connect()
        while True:
            try:
                client.do_handshake()
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    writer.write(bytes([byte]))
                    await writer.drain()
                incoming.write(await reader.read(65536))
            else:
                break
        client.write(HEAD)
        writer.write(outgoing.read())  # the end of the handshake and the head in one
        answer = b""
        while answer != HEAD:
            try:
                answer += client.read(65536)
            except ssl.SSLWantReadError:
                incoming.write(await reader.read(65536))
        writer.close()


@pytest.fixture
def pass_seconds(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets time pass at once for all timers that are set."""

    def skip(seconds: float) -> None:
        loop = asyncio.get_running_loop()
        time = loop.time
        monkeypatch.setattr(loop, "time", lambda: time() + seconds)

    return skip


async def read_by_listener() -> None:
    """What was sent on loopback is there at once; the loop reads it in its next turn."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_silence_ends_after_its_time(contexts: Contexts, pass_seconds: Callable[[float], None]) -> None:
    async with a_site(contexts, seconds=60, first_byte_seconds=5) as site:
        reader, writer = await site.connect()
        await site.until_silent(1)
        pass_seconds(6)
        await ended(reader)
        await site.until_silent(0)
        writer.close()


async def test_a_first_byte_and_then_silence(contexts: Contexts, pass_seconds: Callable[[float], None]) -> None:
    begun = b"\x16\x03\x01\x02\x00\x01" if contexts[0] else b"G"  # a ClientHello or a request
    async with a_site(contexts, limit=1, seconds=60, first_byte_seconds=5) as site:
        reader, writer = await site.connect()
        await site.until_silent(1)
        writer.write(begun)
        await read_by_listener()
        pass_seconds(6)
        await read_by_listener()
        assert site.listener.silent == 1
        pass_seconds(55)
        await ended(reader)
        await site.until_silent(0)
        writer.close()


async def test_a_handshake_and_then_silence(contexts: Contexts, pass_seconds: Callable[[float], None]) -> None:
    async with a_site(contexts, seconds=60) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.listener.port, ssl=contexts[1])
        await site.until_silent(1)
        pass_seconds(61)
        await ended(reader)
        await site.until_silent(0)
        writer.close()


async def test_a_flood_of_silence_is_bounded_and_a_probe_gets_through(contexts: Contexts) -> None:
    async with a_site(contexts, limit=4) as site:
        flood = [await site.connect() for _ in range(40)]
        await site.until_silent(4)
        assert await site.echoed(HEAD) == HEAD
        assert site.listener.silent <= 4
        await ended(flood[0][0])  # the oldest gave way
        for _, writer in flood:
            writer.close()


async def connected(site: Site) -> socket.socket:
    """A client that has connected and sent nothing, and is accepted."""
    before = site.listener.silent
    client = socket.create_connection(("127.0.0.1", site.listener.port))
    await site.until_silent(before + 1)
    return client


async def echoed_late(site: Site, client: socket.socket) -> bytes:
    """The answer to a client that connected a while ago."""
    name = None if site.trusting is None else "127.0.0.1"
    reader, writer = await asyncio.open_connection(sock=client, ssl=site.trusting, server_hostname=name)
    writer.write(HEAD)
    async with RealClock().timeout(10):
        answer = await reader.read(len(HEAD))
    writer.close()
    return answer


async def test_a_flood_while_a_probe_connects_leaves_it_time(contexts: Contexts) -> None:
    """By default, from the same address: at 6000 connects per second these are the first 50 ms."""
    listener = Listener(Echo, tls=contexts[0])
    await listener.listen("127.0.0.1", 0)
    site = Site(listener, contexts[1])
    try:
        for _ in range(3):
            probe = await connected(site)
            flood = await site.flood(300)
            assert await echoed_late(site, probe) == HEAD
            for one in flood:
                one.close()
            await site.until_silent(0)
        flood = await site.flood(SILENT_CONNECTIONS + 100)
        assert listener.silent <= SILENT_CONNECTIONS
        for one in flood:
            one.close()
        await site.until_silent(0)
    finally:
        await listener.close()


async def test_a_flood_from_elsewhere_keeps_no_probe_out(contexts: Contexts) -> None:
    async with a_site(contexts, limit=8) as site:
        probe = await connected(site)
        flood = await site.flood(100, source="127.0.0.2")
        assert site.listener.silent == 8
        assert await echoed_late(site, probe) == HEAD
        for one in flood:
            one.close()
        await site.until_silent(0)


@pytest.mark.parametrize("contexts", ["tls"], indirect=True)
async def test_handshakes_do_not_give_way_to_silence(contexts: Contexts) -> None:
    async with a_site(contexts, limit=8, handshakes=2) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.listener.port, ssl=contexts[1])
        flood = await site.flood(100)
        writer.write(HEAD)
        assert await reader.readexactly(len(HEAD)) == HEAD
        writer.close()
        shaken = [await asyncio.open_connection("127.0.0.1", site.listener.port, ssl=contexts[1]) for _ in range(5)]
        await ended(shaken[0][0])  # they are bounded too
        assert site.listener.silent <= 10
        for _, writer in shaken:
            writer.close()
        for one in flood:
            one.close()
        await site.until_silent(0)


async def test_clients_that_hang_up_leave_nothing(contexts: Contexts) -> None:
    async with a_site(contexts) as site:
        _, writer = await site.connect()
        await site.until_silent(1)
        writer.close()
        await site.until_silent(0)
        with socket.create_connection(("127.0.0.1", site.listener.port)) as rude:
            rude.sendall(b"GET / HTTP/1.1\r\n\r\n")
        await site.until_silent(0)


async def test_closing_ends_silent_connections(contexts: Contexts) -> None:
    async with a_site(contexts) as site:
        reader, writer = await site.connect()
        await site.until_silent(1)
    with contextlib.suppress(ConnectionError):
        async with RealClock().timeout(10):
            assert await reader.read() == b""
    writer.close()
