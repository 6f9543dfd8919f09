"""Serving an ASGI application over TLS: uvicorn's HTTP protocol on sockets of our own.

uvicorn's server object is left out: it wakes ten times a second to look whether it should stop, and takes over the
process's signals. Here the protocol is driven directly, stopping is an event, and the client's certificate is passed
on to the application.
"""

from __future__ import annotations

import asyncio
import email.utils
import socket
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from fairlead.apiserver.http.asgi import AsgiApp
from fairlead.base.clock import Clock
from fairlead.base.tasks import OnExit, TaskScope

__all__ = ["HttpServer", "listen", "tls_context"]

_BACKLOG = 4096
# How long requests in flight may take to finish once the server stops.
_PATIENCE_SECONDS = 30


class _State(ServerState):
    """uvicorn's list of connections, with an event for the moment it is empty."""

    def __init__(self) -> None:
        super().__init__()
        self.idle = asyncio.Event()
        self.idle.set()


class _Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, which knows who is at the other end of a TLS connection."""

    _peer: dict[object, object] | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        state = self.server_state
        if isinstance(state, _State):
            state.idle.clear()
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        if certificate:
            self._peer = {"peer_certificate": certificate}

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._peer is not None:
            self.scope["extensions"] = {"fairlead": self._peer}

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        state = self.server_state
        if isinstance(state, _State) and not state.connections:
            state.idle.set()


class HttpServer:
    """Serves one application on one listening socket."""

    def __init__(self, app: AsgiApp, listener: socket.socket, context: ssl.SSLContext | None, clock: Clock) -> None:
        self._config = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=300,
            proxy_headers=False,
        )
        self._config.load()
        self._listener = listener
        self._context = context
        self._clock = clock
        self._state = _State()
        self._started = asyncio.Event()

    async def wait_started(self) -> None:
        """Return once connections are answered."""
        await self._started.wait()

    async def run(self, on_stop: Callable[[], None] = lambda: None) -> None:
        """Serve until cancelled; then take no new connections and let requests in flight finish.

        ``on_stop`` is called when that begins: it ends what would never finish by itself.
        """
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            return _Protocol(self._config, self._state, {}, loop)

        server = await loop.create_server(protocol, sock=self._listener, ssl=self._context, backlog=_BACKLOG)
        try:
            async with TaskScope("http", on_exit=OnExit.CANCEL) as scope:
                self._date()
                self._started.set()
                await scope.start(self._keep_date(), name="date header")
        finally:
            server.close()
            on_stop()
            await self._finish()

    def _date(self) -> None:
        text = email.utils.format_datetime(self._clock.now(), usegmt=True)
        self._state.default_headers = [(b"date", text.encode())]

    async def _keep_date(self) -> None:
        while True:
            await self._clock.sleep(1)
            self._date()

    async def _finish(self) -> None:
        """Close idle connections at once and the others with their answer; those that take too long are cut."""
        for connection in list(self._state.connections):
            connection.shutdown()
        try:
            async with self._clock.timeout(_PATIENCE_SECONDS):
                await self._state.idle.wait()
        except TimeoutError:
            for connection in list(self._state.connections):
                if connection.transport is not None:
                    connection.transport.abort()


def listen(address: str, port: int, *, share: bool = False) -> socket.socket:
    """A listening socket; port 0 takes a free one, ``share`` lets another process hold the same port for us."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((address, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {address}:{port}: {error.strerror}") from error
    listener.setblocking(False)
    return listener


def tls_context(certificate: Path, key: Path, client_authorities: Iterable[Path]) -> ssl.SSLContext:
    """TLS 1.2 or newer; a client may show a certificate of one of our CAs, and need not show any."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    for authority in client_authorities:
        context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    return context
