"""Serving requests over TLS: a listening socket, its connections, and how they end."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path

from fairlead.apiserver.http.connection import Connection
from fairlead.apiserver.http.site import Handler, Site
from fairlead.base import logs, memory, sockets
from fairlead.base.clock import Clock
from fairlead.base.tasks import OnExit, TaskScope

__all__ = ["HttpServer", "listen", "tls_context"]

_log = logs.get_logger(__name__)

_BACKLOG = 4096
_CROWD = 50
_HANDSHAKE_SECONDS = 30.0
_GOODBYE_SECONDS = 5.0
_UNSENT_LIMIT: int | None = getattr(socket, "TCP_NOTSENT_LOWAT", None)
_UNSENT_BYTES = 64 * 1024
# How long requests in flight may take to finish once the server stops; and again so long what has begun to write, which
# may wait for an admission webhook.
_PATIENCE_SECONDS = 30


class HttpServer:
    """Serves one handler on one listening socket; a client's verified certificate comes with its requests."""

    def __init__(self, handler: Handler, listener: socket.socket, context: ssl.SSLContext | None, clock: Clock) -> None:
        self._listener = listener
        self._context = context
        self._clock = clock
        self._site = Site(handler)
        self._started = asyncio.Event()
        self._most = 0  # connections at one time since memory was given back
        self._last = 0  # connections a second ago

    async def wait_started(self) -> None:
        """Return once connections are answered."""
        await self._started.wait()

    async def run(self, on_stop: Callable[[], None] = lambda: None) -> None:
        """Serve until cancelled; then take no new connections and let requests in flight finish.

        ``on_stop`` is called when that begins: it ends what would never finish by itself.
        """
        self._tick()
        server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self._site),
            sock=self._listener,
            ssl=self._context,
            backlog=_BACKLOG,
            ssl_handshake_timeout=None if self._context is None else _HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=None if self._context is None else _GOODBYE_SECONDS,
        )
        try:
            async with TaskScope("http", on_exit=OnExit.CANCEL) as scope:
                self._started.set()
                await scope.start(self._keep_time(), name="time")
        finally:
            server.close()
            on_stop()
            await self._finish()

    async def _keep_time(self) -> None:
        """One timer for all connections: the date they send, and the end of those that take too long."""
        while True:
            await self._clock.sleep(1)
            self._tick()
            self._site.cut_overdue()
            self._give_back_memory()

    def _give_back_memory(self) -> None:
        """When a crowd has gone, so should its memory. It takes milliseconds, which few clients are not worth."""
        there = len(self._site.connections)
        self._most = max(self._most, there)
        if there == self._last and self._most - there >= _CROWD:
            self._most = there
            memory.give_back()
        self._last = there

    def _tick(self) -> None:
        self._site.now = self._clock.monotonic()
        date = self._clock.now().strftime("%a, %d %b %Y %H:%M:%S GMT")
        self._site.date = f"date: {date}\r\n\r\n".encode("ascii")

    async def _finish(self) -> None:
        """Close idle connections at once and the others with their answer; those that take too long are cut.

        What has begun to write goes on even then: only after that may the storage behind be closed.
        """
        self._site.stopping = True
        for connection in list(self._site.connections):
            connection.shut_down()
        if not await self._wait_empty():
            for connection in list(self._site.connections):
                connection.abort()
            if not await self._wait_empty():
                _log.warning("requests cut off between two writes", count=len(self._site.connections))
        await self._site.tasks.close()

    async def _wait_empty(self) -> bool:
        try:
            async with self._clock.timeout(_PATIENCE_SECONDS):
                await self._site.empty.wait()
        except TimeoutError:
            return False
        return True


def listen(address: str, port: int, *, share: bool = False) -> socket.socket:
    """A listening socket; port 0 takes a free one, ``share`` lets another process hold the same port for us."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if _UNSENT_LIMIT is not None:
            # Connections inherit it: the kernel, too, holds little for a client that does not read.
            listener.setsockopt(socket.IPPROTO_TCP, _UNSENT_LIMIT, _UNSENT_BYTES)
        listener.bind((address, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise sockets.cannot_listen(error, address, port) from error
    listener.setblocking(False)
    return listener


def tls_context(certificate: Path, key: Path, client_authorities: Iterable[Path]) -> ssl.SSLContext:
    """TLS 1.2 or newer; a client may show a certificate of one of our CAs, and need not show any."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    for authority in client_authorities:
        try:
            context.load_verify_locations(authority)
        except ssl.SSLError as error:
            raise OSError(f"{authority} holds no certificate in PEM form: {error.reason or error}") from error
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    return context
