"""Connections that stay silent: bounded in number and time, with TLS and without."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairlead.base.clock import RealClock
from fairlead.base.listener import Listener
from fairlead.testing.credentials import CertificateAuthority


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
    contexts: tuple[ssl.SSLContext | None, ssl.SSLContext | None], *, limit: int = 4, seconds: float = 60.0
) -> AsyncIterator[Site]:
    listener = Listener(Echo, tls=contexts[0], silent_connections=limit, silent_seconds=seconds)
    await listener.listen("127.0.0.1", 0)
    try:
        yield Site(listener, contexts[1])
    finally:
        await listener.close()


Contexts = tuple[ssl.SSLContext | None, ssl.SSLContext | None]


async def test_what_speaks_is_handed_on(contexts: Contexts) -> None:
    async with a_site(contexts) as site:
        assert await site.echoed(b"hello") == b"hello"
        assert await site.echoed(b"x" * 200_000) == b"x" * 200_000
        assert site.listener.silent == 0


async def test_silence_ends_after_its_time(contexts: Contexts) -> None:
    async with a_site(contexts, seconds=0.2) as site:
        reader, writer = await site.connect()
        with contextlib.suppress(ConnectionError):
            async with RealClock().timeout(10):
                assert await reader.read() == b""
        await site.until_silent(0)
        writer.close()


@pytest.mark.parametrize("contexts", ["tls"], indirect=True)
async def test_half_a_handshake_is_silence_too(contexts: Contexts) -> None:
    async with a_site(contexts, seconds=0.2) as site:
        reader, writer = await site.connect()
        writer.write(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a ClientHello
        with contextlib.suppress(ConnectionError):
            async with RealClock().timeout(10):
                assert await reader.read() == b""
        await site.until_silent(0)
        writer.close()


async def test_a_handshake_and_then_silence(contexts: Contexts) -> None:
    async with a_site(contexts, seconds=0.5) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.listener.port, ssl=contexts[1])
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            async with RealClock().timeout(10):
                assert await reader.read() == b""
        await site.until_silent(0)
        writer.close()


async def test_a_flood_of_silence_is_bounded_and_keeps_nobody_out(contexts: Contexts) -> None:
    async with a_site(contexts, limit=4) as site:
        flood = [await site.connect() for _ in range(40)]
        await site.until_silent(4)
        assert await site.echoed(b"probe") == b"probe"
        assert site.listener.silent <= 4
        # The oldest gave way.
        with contextlib.suppress(ConnectionError):
            async with RealClock().timeout(10):
                assert await flood[0][0].read() == b""
        for _, writer in flood:
            writer.close()


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
