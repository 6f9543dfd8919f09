"""One connection to an API server: sockets, TLS and proxies.

TLS runs over memory buffers instead of asyncio's, which holds 256 KiB for each connection: the agent has a connection
for each watch, on every node.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import socket
import ssl
import urllib.parse
from collections.abc import Callable
from typing import Any, cast

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.client import http1, httperrors, keepalive_socket

__all__ = ["Connection", "Endpoint", "Route"]

# A reader that is slower than the server makes the server wait.
_MAX_UNREAD_BYTES = 256 * 1024
_TLS_READ_BYTES = 64 * 1024
# The next address of a host is tried when the one before has not answered for so long (RFC 8305).
_NEXT_ADDRESS_SECONDS = 0.25


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoint:
    """A server or proxy, as its URL describes it."""

    is_tls: bool
    host: str
    port: int
    authorization: str  # of the user and password in the URL; may be empty
    path: str  # without a slash at its end

    @classmethod
    def of(cls, url: str) -> Endpoint:
        """Read a URL.

        Raises:
            ValueError: it is no URL of HTTP.
        """
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{url} is not a URL of HTTP")
        host = _ascii(parts.hostname).decode("ascii")
        is_tls = parts.scheme == "https"
        authorization = ""
        if parts.username is not None:
            pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            authorization = f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"
        return cls(is_tls, host, parts.port or (443 if is_tls else 80), authorization, parts.path.rstrip("/"))

    @property
    def full_name(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def short_name(self) -> str:
        """Host and port; without the port if it is the usual one."""
        is_usual = self.port == (443 if self.is_tls else 80)
        return self.full_name.rpartition(":")[0] if is_usual else self.full_name


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How to reach one server."""

    server_url: str
    server: Endpoint
    proxy_url: str
    proxy: Endpoint | None
    context: ssl.SSLContext
    server_name: str  # that its certificate must have

    async def connect(self, clock: Clock, opened: Callable[[socket.socket], object]) -> Connection:
        """Open a connection on which the server is the next to read. `opened` is called with each socket.

        Raises:
            TransportError: the server, or the proxy, cannot be reached or is not trusted.
        """
        near = self.proxy or self.server
        try:
            connected = await _connect(near.host, near.port, clock, opened)
        except OSError as error:
            if self.proxy is not None:
                raise httperrors.proxy_unreachable(self.proxy_url, error) from error
            raise httperrors.unreachable(self.server_url, error) from error
        _, connection = await asyncio.get_running_loop().create_connection(Connection, sock=connected)
        try:
            if self.proxy is not None and self.proxy.is_tls:
                await self._start_tls(connection, self.proxy.host)
            if self.proxy is not None and self.server.is_tls:
                await self._tunnel(connection, self.proxy)
            if self.server.is_tls:
                await self._start_tls(connection, self.server_name)
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _start_tls(self, connection: Connection, name: str) -> None:
        try:
            await connection.start_tls(self.context, name)
        except OSError as error:
            raise httperrors.unreachable(self.server_url, error) from error

    async def _tunnel(self, connection: Connection, proxy: Endpoint) -> None:
        target = self.server.full_name
        headers = [("Host", target)]
        if proxy.authorization:
            headers.append(("Proxy-Authorization", proxy.authorization))
        parser = http1.AnswerParser("CONNECT")
        try:
            connection.write(http1.request_head("CONNECT", target, headers))
            while not parser.status:
                await connection.receive_into(parser)
        except (OSError, EOFError, http1.MalformedAnswer) as error:
            raise httperrors.proxy_unreachable(self.proxy_url, error) from error
        if parser.status != 200 or parser.has_surplus:
            raise httperrors.proxy_refused(self.proxy_url, self.server_url, parser.status, parser.reason)


class Connection(asyncio.Protocol):
    """A byte stream that notices its end also while no caller reads."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.was_answered = False  # whether bytes have arrived since the last write
        self._transport: asyncio.Transport | None = None
        self._layers: list[_Tls] = []
        self._received = bytearray()
        self._ended = False
        self._error: Exception | None = None
        self._is_paused = False
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_usable(self) -> bool:
        """Whether a request may be sent: it is open, and nothing has arrived that no request asked for."""
        return not self._ended and not self._received

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        try:
            for index, layer in enumerate(self._layers):
                try:
                    data = layer.receive(data)
                finally:
                    self._write_through(layer.to_send(), self._layers[:index])
                self._ended = self._ended or layer.has_ended
        except ssl.SSLError as error:
            self._error, self._ended = error, True
            self.abort()
        else:
            self._received += data
            self.was_answered = self.was_answered or bool(data)
            if len(self._received) > _MAX_UNREAD_BYTES and not self._is_paused and self._transport is not None:
                self._is_paused = True
                self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """Called by asyncio, which closes the transport then."""
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self._ended = True
        self._error = self._error or exc
        self._wake()

    async def start_tls(self, context: ssl.SSLContext, name: str) -> None:
        """Have the peer prove its name; from then on everything is encrypted.

        Raises:
            OSError: the connection broke, or the handshake failed (ssl.SSLError).
        """
        layer = _Tls(context, name)
        self._layers.append(layer)
        self.data_received(b"")  # sends the first message
        while not layer.is_ready:
            if self._ended:
                raise self._error or ConnectionResetError("the connection was closed during the TLS handshake")
            await self._wait()

    def write(self, data: bytes) -> None:
        """Send; what the peer does not take yet is kept.

        Raises:
            OSError: the connection is closed.
        """
        if self._ended:
            raise self._error or ConnectionResetError("the connection is closed")
        self.was_answered = False
        self._write_through(data, self._layers)

    async def receive_into(self, parser: http1.AnswerParser) -> None:
        """Wait for bytes and feed them.

        Raises:
            EOFError: the connection ended before the answer did.
            OSError: it broke.
            MalformedAnswer: the bytes are no answer.
        """
        while not self._received and not self._ended:
            await self._wait()
        if self._received:
            data = bytes(self._received)
            self._received.clear()
            if self._is_paused and self._transport is not None:
                self._is_paused = False
                self._transport.resume_reading()
            parser.feed(data)
        elif self._error is not None:
            raise self._error
        elif self._layers and not self._layers[-1].has_ended:
            raise EOFError  # without the end of TLS, any party on the way may have cut it
        else:
            parser.feed_end()

    def abort(self) -> None:
        """Close it now, without the closing message of TLS, which would outlive the caller."""
        if self._transport is not None:
            self._transport.abort()

    def _write_through(self, data: bytes, layers: list[_Tls]) -> None:
        for layer in reversed(layers):
            layer.encrypt(data)
            data = layer.to_send()
        if data and self._transport is not None:
            self._transport.write(data)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Tls:
    """One side of TLS over memory."""

    def __init__(self, context: ssl.SSLContext, name: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=_ascii(name))
        self.is_ready = False
        self.has_ended = False

    def receive(self, data: bytes) -> bytes:
        """Decrypt what can be."""
        self._incoming.write(data)
        parts: list[bytes] = []
        with contextlib.suppress(ssl.SSLWantReadError):
            if not self.is_ready:
                self._object.do_handshake()
                self.is_ready = True
            while part := self._object.read(_TLS_READ_BYTES):
                parts.append(part)
            self.has_ended = True
        return b"".join(parts)

    def encrypt(self, data: bytes) -> None:
        """Make it part of `to_send`."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._object.write(rest) :]

    def to_send(self) -> bytes:
        """What the peer must get next."""
        return self._outgoing.read()


def _ascii(name: str) -> bytes:
    # Bytes, because Python encodes a str by IDNA in any case, for which it loads the tables of Unicode: 0.5 MB.
    return name.encode("ascii" if name.isascii() else "idna")


async def _connect(host: str, port: int, clock: Clock, opened: Callable[[socket.socket], object]) -> socket.socket:
    """Connect to the first address of the host that answers."""
    found: list[socket.socket] = []
    failures: list[OSError] = []

    async def attempt(address: tuple[Any, ...], ended: asyncio.Event) -> None:
        try:
            found.append(await _connect_to(address, opened))
            scope.cancel()
        except OSError as error:
            failures.append(error)
        finally:
            ended.set()

    try:
        async with tasks.TaskScope("connect") as scope:
            for address in await _resolve(host, port):
                ended = asyncio.Event()
                scope.start(attempt(address, ended), name=str(address[4][0]))
                with contextlib.suppress(TimeoutError):
                    async with clock.timeout(_NEXT_ADDRESS_SECONDS):
                        await ended.wait()
                if found:
                    break
    except BaseException:
        for made in found:
            made.close()
        raise
    for made in found[1:]:
        made.close()
    if not found:
        raise failures[0]
    return found[0]


async def _connect_to(address: tuple[Any, ...], opened: Callable[[socket.socket], object]) -> socket.socket:
    made = keepalive_socket.open_socket(address)
    opened(made)
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, address[4])
    except BaseException:
        made.close()
        raise
    return made


async def _resolve(host: str, port: int) -> list[tuple[Any, ...]]:
    with contextlib.suppress(socket.gaierror):
        # Numbers need no lookup, and so no thread.
        return list(socket.getaddrinfo(host.encode(), port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
    return list(await asyncio.get_running_loop().getaddrinfo(host.encode(), port, type=socket.SOCK_STREAM))
