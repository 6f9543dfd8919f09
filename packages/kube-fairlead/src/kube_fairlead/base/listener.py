"""Accepts connections, and hands on those that have sent the head of a request.

A client that connects and stays silent, before, in or after the TLS handshake, costs little and not for long: such
connections are bounded in number and time. When there are too many, the oldest of the address with the most gives way.
A connection costs a descriptor and little memory until the first TLS record is complete, so the bound of those is
wide: at thousands of connects per second an honest client still has time to send its first bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Final

from kube_fairlead.base import logs, sockets, tasks

__all__ = ["FIRST_BYTE_SECONDS", "HANDSHAKES", "SILENT_CONNECTIONS", "SILENT_SECONDS", "Listener"]

SILENT_CONNECTIONS: Final = 512  # half of the descriptors that a process has where no limit is set
HANDSHAKES: Final = 64  # asyncio allocates 256 KiB for each
SILENT_SECONDS: Final = 10.0  # from connecting to the end of the head
FIRST_BYTE_SECONDS: Final = 3.0

_HEAD_END: Final = b"\r\n\r\n"
_LARGEST_HEAD: Final = 16 * 1024
_TLS_HEADER: Final = 5
_TLS_HANDSHAKE: Final = 22
_LARGEST_RECORD: Final = 16 * 1024

_log = logs.get_logger(__name__)


class Listener:
    """Listens while it is not closed. `build` makes the protocol of a connection when a request's head has arrived."""

    def __init__(
        self,
        build: Callable[[], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None = None,
        silent_connections: int = SILENT_CONNECTIONS,
        handshakes: int = HANDSHAKES,
        silent_seconds: float = SILENT_SECONDS,
        first_byte_seconds: float = FIRST_BYTE_SECONDS,
    ) -> None:
        self._build = build
        self._tls = tls
        self._seconds = silent_seconds
        self._first_byte_seconds = min(first_byte_seconds, silent_seconds)
        self._silent = _Waiting(silent_connections)
        self._shaking = _Waiting(handshakes)
        self._handshakes = tasks.TaskSet("listener", on_failure=self._failed)
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def silent(self) -> int:
        """How many connections have not sent the head of a request yet."""
        return len(self._silent) + len(self._shaking)

    async def listen(self, address: str, port: int, *, share_port: bool = False) -> None:
        """Listen there; port 0 takes a free one.

        Raises:
            OSError: it cannot, in words for an operator.
        """
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: _Visitor(self), address or None, port, reuse_port=share_port or None
            )
        except OSError as error:
            raise sockets.cannot_listen(error, address, port) from error
        self.port = self._server.sockets[0].getsockname()[1]

    def stop_accepting(self) -> None:
        """Accept no more connections, and close idle ones. Connections that were handed on continue."""
        if self._server is not None:
            self._server.close()
        for visitor in (*self._silent.all(), *self._shaking.all()):
            visitor.end()

    async def close(self) -> None:
        """Wait until no handshake is left. May be called again."""
        self.stop_accepting()
        await self._handshakes.close()

    @property
    def speaks_tls(self) -> bool:
        """Whether connections begin with a TLS handshake."""
        return self._tls is not None

    def arrived(self, visitor: _Visitor) -> None:
        """Called for each connection."""
        self._silent.add(visitor)
        visitor.allow(self._first_byte_seconds)

    def spoke(self, visitor: _Visitor) -> None:
        """Called at the first byte of a connection."""
        visitor.allow(self._seconds)

    def said_hello(self, visitor: _Visitor, transport: asyncio.Transport, hello: bytes) -> asyncio.Task[None]:
        """Called once the first TLS record is there; from now on the connection needs memory."""
        if self._tls is None:
            raise RuntimeError("a listener without a certificate got a TLS record")
        self._silent.remove(visitor)
        self._shaking.add(visitor)
        return self._handshakes.start(self._shake_hands(visitor, transport, self._tls, hello), name="tls")

    def left(self, visitor: _Visitor) -> None:
        """Called once a connection is not silent any more, or gone."""
        self._silent.remove(visitor)
        self._shaking.remove(visitor)

    def next_protocol(self) -> asyncio.Protocol:
        """What carries on with a connection."""
        return self._build()

    async def _shake_hands(
        self, visitor: _Visitor, transport: asyncio.Transport, tls: ssl.SSLContext, hello: bytes
    ) -> None:
        loop = asyncio.get_running_loop()
        # `start_tls` schedules two calls: the TLS protocol gets the transport, then reading resumes. This one runs
        # after them and before anything else is read.
        loop.call_soon(loop.call_soon, _give, transport, hello)
        secured: asyncio.Transport | None = None
        # A client that does not speak TLS, or hangs up, is not logged.
        with contextlib.suppress(OSError):
            secured = await loop.start_tls(
                transport, visitor, tls, server_side=True, ssl_handshake_timeout=self._seconds
            )
        if secured is None:  # also when the client has hung up meanwhile
            visitor.end()
            return
        try:
            visitor.secured(secured)
        except Exception:
            visitor.end()
            raise

    @staticmethod
    def _failed(failure: BaseException) -> None:
        _log.error("cannot hand on a connection", error=f"{type(failure).__name__}: {failure}")


def _give(transport: asyncio.Transport, data: bytes) -> None:
    """Give the TLS protocol of a transport what was read before it was there."""
    protocol = transport.get_protocol()
    view = memoryview(data)
    while view and isinstance(protocol, asyncio.BufferedProtocol) and not transport.is_closing():
        room = memoryview(protocol.get_buffer(len(view)))
        size = min(len(room), len(view))
        room[:size] = view[:size]
        protocol.buffer_updated(size)
        view = view[size:]


class _Waiting:
    """Connections by the address of their peer, bounded in number."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._by_address: dict[str, dict[_Visitor, None]] = {}  # each in the order of arrival

    def __len__(self) -> int:
        return self._count

    def all(self) -> tuple[_Visitor, ...]:
        return tuple(visitor for visitors in self._by_address.values() for visitor in visitors)

    def add(self, visitor: _Visitor) -> None:
        while self._count >= self._limit:
            most = max(self._by_address.values(), key=len)
            next(iter(most)).end()
        self._by_address.setdefault(visitor.address, {})[visitor] = None
        self._count += 1

    def remove(self, visitor: _Visitor) -> None:
        visitors = self._by_address.get(visitor.address, {})
        if visitor not in visitors:
            return
        del visitors[visitor]
        self._count -= 1
        if not visitors:
            del self._by_address[visitor.address]


class _Visitor(asyncio.Protocol):
    """A connection that has not sent the head of a request yet."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._raw: asyncio.Transport | None = None
        self._secured: asyncio.Transport | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._limit: asyncio.TimerHandle | None = None
        self._has_spoken = False
        self._early = b""
        self.address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"{type(transport).__name__} is no stream")
        self._raw = transport
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        self._listener.arrived(self)

    def allow(self, seconds: float) -> None:
        """It ends then, if it is not handed on before."""
        if self._limit is not None:
            self._limit.cancel()
        self._limit = asyncio.get_running_loop().call_later(seconds, self.end)

    def data_received(self, data: bytes) -> None:
        if not self._has_spoken:
            self._has_spoken = True
            self._listener.spoke(self)
        self._early += data
        if not self._listener.speaks_tls:
            self._hand_on_when_complete(self._raw)
        elif self._handshake is None:
            self._shake_hands_when_complete(self._raw)
        else:
            self._hand_on_when_complete(self._secured)

    def secured(self, transport: asyncio.Transport) -> None:
        """The handshake is done."""
        self._secured = transport
        self._hand_on_when_complete(transport)

    def _shake_hands_when_complete(self, transport: asyncio.Transport | None) -> None:
        early = self._early
        size = int.from_bytes(early[3:_TLS_HEADER])
        if early[0] != _TLS_HANDSHAKE or size > _LARGEST_RECORD:
            self.end()
        elif transport is not None and len(early) >= _TLS_HEADER + size and len(early) >= _TLS_HEADER:
            transport.pause_reading()
            self._early = b""
            self._handshake = self._listener.said_hello(self, transport, early)

    def _hand_on_when_complete(self, transport: asyncio.Transport | None) -> None:
        early = self._early
        if transport is None or (_HEAD_END not in early and len(early) <= _LARGEST_HEAD):
            return
        self._leave()
        protocol = self._listener.next_protocol()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(early)

    def eof_received(self) -> bool:
        self.end()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self._leave()

    def end(self) -> None:
        """It has been silent for too long, or others need its place."""
        self._leave()
        if self._handshake is not None:
            self._handshake.cancel()
        if self._raw is not None:
            self._raw.abort()

    def _leave(self) -> None:
        self._listener.left(self)
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
