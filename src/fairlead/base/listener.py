"""Accepts connections, and hands on those that have sent something.

A client that connects and stays silent, before, in or after the TLS handshake, costs little and not for long: such
connections are bounded in number and time. When there are too many, the oldest gives way, so that a probe still gets
through.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Final

from fairlead.base import logs, sockets, tasks

__all__ = ["SILENT_CONNECTIONS", "SILENT_SECONDS", "Listener"]

SILENT_CONNECTIONS: Final = 64
SILENT_SECONDS: Final = 10.0

_log = logs.get_logger(__name__)


class Listener:
    """Listens while it is not closed. `build` makes the protocol of a connection when its first bytes have arrived."""

    def __init__(
        self,
        build: Callable[[], asyncio.BaseProtocol],
        *,
        tls: ssl.SSLContext | None = None,
        silent_connections: int = SILENT_CONNECTIONS,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        self._build = build
        self._tls = tls
        self._limit = silent_connections
        self._seconds = silent_seconds
        self._silent: dict[_Visitor, None] = {}  # in the order of their arrival
        self._handshakes = tasks.TaskSet("listener", on_failure=self._failed)
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def silent(self) -> int:
        """How many connections have not sent anything yet."""
        return len(self._silent)

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
        """Let no more connections in, and end those that are silent. What was handed on goes on."""
        if self._server is not None:
            self._server.close()
        for visitor in tuple(self._silent):
            visitor.end()

    async def close(self) -> None:
        """Wait until no handshake is left. May be called again."""
        self.stop_accepting()
        await self._handshakes.close()

    def arrived(self, visitor: _Visitor, transport: asyncio.Transport) -> None:
        """Called for each connection."""
        while len(self._silent) >= self._limit:
            next(iter(self._silent)).end()
        self._silent[visitor] = None
        visitor.limit = asyncio.get_running_loop().call_later(self._seconds, visitor.end)
        if self._tls is not None:
            # Nothing is read before TLS reads it.
            transport.pause_reading()
            visitor.handshake = self._handshakes.start(self._shake_hands(visitor, transport, self._tls), name="tls")

    def left(self, visitor: _Visitor) -> None:
        """Called once a connection is not silent any more, or gone."""
        self._silent.pop(visitor, None)

    def next_protocol(self) -> asyncio.BaseProtocol:
        """What carries on with a connection."""
        return self._build()

    async def _shake_hands(self, visitor: _Visitor, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        # A client that does not speak TLS, or hangs up, is not worth a word.
        with contextlib.suppress(OSError):
            secured = await loop.start_tls(
                transport, visitor, tls, server_side=True, ssl_handshake_timeout=self._seconds
            )
            if secured is not None:  # it is, when the client has hung up meanwhile
                visitor.secured(secured)
                return
        visitor.end()

    @staticmethod
    def _failed(failure: BaseException) -> None:
        _log.error("TLS handshake failed", error=f"{type(failure).__name__}: {failure}")


class _Visitor(asyncio.Protocol):
    """A connection that has not sent anything yet."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._raw: asyncio.Transport | None = None
        self._early = b""
        self.limit: asyncio.TimerHandle | None = None
        self.handshake: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"{type(transport).__name__} is no stream")
        self._raw = transport
        self._listener.arrived(self, transport)
        if self.handshake is None:
            self._transport = transport

    def secured(self, transport: asyncio.Transport) -> None:
        """The handshake is done."""
        self._transport = transport
        if self._early:
            self.data_received(b"")

    def data_received(self, data: bytes) -> None:
        self._early += data
        transport = self._transport
        if transport is None:
            return  # what came with the end of the handshake
        self._leave()
        protocol = self._listener.next_protocol()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if isinstance(protocol, asyncio.Protocol):
            protocol.data_received(self._early)

    def eof_received(self) -> bool:
        self.end()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self._leave()

    def end(self) -> None:
        """It has been silent for too long, or others need its place."""
        self._leave()
        if self.handshake is not None:
            self.handshake.cancel()
        if self._raw is not None:
            self._raw.abort()

    def _leave(self) -> None:
        self._listener.left(self)
        if self.limit is not None:
            self.limit.cancel()
