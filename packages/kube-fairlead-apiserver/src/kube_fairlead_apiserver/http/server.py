"""The HTTPS server: a listening socket, its connections, and its shutdown."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path

from kube_fairlead.base import logs, memory, sockets
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.tasks import OnExit, TaskScope
from kube_fairlead_apiserver.http.connection import Connection
from kube_fairlead_apiserver.http.scheduler import Scheduler
from kube_fairlead_apiserver.http.shared_state import Handler, SharedState
from kube_fairlead_apiserver.http.unidentified import UnidentifiedConnection

__all__ = ["HttpServer", "listen", "tls_context"]

_log = logs.get_logger(__name__)

_BACKLOG = 4096
_CROWD = 50
_TRIM_SECONDS = 10.0
_HANDSHAKE_SECONDS = 10.0
_RETRY_SECONDS = 0.1
_GOODBYE_SECONDS = 5.0
_NOT_TLS = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
_UNSENT_LIMIT: int | None = getattr(socket, "TCP_NOTSENT_LOWAT", None)
_UNSENT_BYTES = 64 * 1024
# Time that requests in flight have to finish once the server stops; requests that have begun to write, and may wait
# for an admission webhook, have it twice.
_PATIENCE_SECONDS = 30


class HttpServer:
    """Serves one handler on one listening socket; a client's verified certificate comes with its requests."""

    def __init__(
        self,
        handler: Handler,
        listener: socket.socket,
        context: ssl.SSLContext | None,
        clock: Clock,
        scheduler: Scheduler | None = None,
    ) -> None:
        self._listener = listener
        self._context = context
        self._clock = clock
        self._shared = SharedState(handler, scheduler)
        self._started = asyncio.Event()
        self._most = 0  # the most connections since memory was last released
        self._last = 0  # connections a second ago
        self._trimmed_at = 0.0

    async def wait_started(self) -> None:
        """Return once connections are accepted."""
        await self._started.wait()

    async def run(self, on_stop: Callable[[], None] = lambda: None) -> None:
        """Serve until cancelled; then accept no new connections and finish requests in flight.

        ``on_stop`` is called at the begin of the shutdown: it ends watches, which never finish by themselves.
        """
        self._tick()
        try:
            async with TaskScope("http", on_exit=OnExit.CANCEL) as scope:
                self._started.set()
                scope.start(self._accept(), name="accept")
                await scope.start(self._keep_time(), name="time")
        finally:
            self._listener.close()
            on_stop()
            await self._finish()

    async def _accept(self) -> None:
        """Accept connections, one in each pass of the event loop."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(self._listener)
            except OSError as error:
                # The client may have disconnected, or no file descriptor is left, which lasts for a while.
                _log.warning("accepting a connection failed", error=str(error))
                await self._clock.sleep(_RETRY_SECONDS)
                continue
            self._shared.tasks.start(self._begin(accepted, peer[0] if peer else ""), name="unidentified")

    async def _begin(self, accepted: socket.socket, address: str) -> None:
        """Begin a connection at its turn: its handshake, then its requests."""
        loop = asyncio.get_running_loop()
        may_begin: asyncio.Future[None] = loop.create_future()
        connection = Connection(self._shared)
        handshake = asyncio.current_task()

        def begin() -> None:
            if not may_begin.done():
                may_begin.set_result(None)

        def cut() -> None:
            if connection in self._shared.connections:
                connection.shut_down()
            elif handshake is not None:
                handshake.cancel()

        unidentified = UnidentifiedConnection(address, begin=begin, cut=cut)
        self._shared.unidentified[connection] = unidentified
        try:
            self._shared.arriving.arrive(unidentified, self._shared.now)
            await may_begin
            if self._shared.scheduler is not None:
                await self._shared.scheduler.begin_handshake(address)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is None:
                await loop.connect_accepted_socket(lambda: connection, accepted)
            else:
                await self._shake_hands(connection, accepted, self._context)
        except OSError:
            accepted.close()  # the client disconnected, or does not speak TLS
        except BaseException:
            accepted.close()
            raise
        finally:
            if connection not in self._shared.connections:
                self._shared.known(connection)

    @staticmethod
    async def _shake_hands(connection: Connection, accepted: socket.socket, context: ssl.SSLContext) -> None:
        # The event loop closes the socket of a failed handshake, and a plain HTTP request still gets a response.
        with accepted.dup() as spare:
            try:
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: connection,
                    accepted,
                    ssl=context,
                    ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                    ssl_shutdown_timeout=_GOODBYE_SECONDS,
                )
            except ssl.SSLError as error:
                if error.reason == "HTTP_REQUEST":
                    spare.setblocking(False)
                    spare.send(_NOT_TLS)
                raise

    async def _keep_time(self) -> None:
        """Update the Date header and check the timeouts: one timer for all connections."""
        while True:
            await self._clock.sleep(1)
            self._tick()
            self._shared.cut_overdue()
            self._shared.arriving.make_room(self._shared.now)
            self._release_memory()

    def _release_memory(self) -> None:
        """Release memory after many connections have closed.

        It takes milliseconds, in which no request is served. So it is not done for few clients, and not again and again
        for many clients that connect and disconnect all the time.
        """
        there = len(self._shared.connections)
        self._most = max(self._most, there)
        rested = self._shared.now - self._trimmed_at >= _TRIM_SECONDS
        if rested and (memory.is_due() or (there == self._last and self._most - there >= _CROWD)):
            self._trimmed_at = self._shared.now
            self._most = there
            memory.give_back()
        self._last = there

    def _tick(self) -> None:
        self._shared.now = self._clock.monotonic()
        date = self._clock.now().strftime("%a, %d %b %Y %H:%M:%S GMT")
        self._shared.date = f"date: {date}\r\n\r\n".encode("ascii")

    async def _finish(self) -> None:
        """Close idle connections at once and the others after their response; those that take too long are cut.

        A request that has begun to write continues even then: the storage closes after it.
        """
        self._shared.stopping = True
        for connection in list(self._shared.connections):
            connection.shut_down()
        if not await self._wait_empty():
            for connection in list(self._shared.connections):
                connection.abort()
            if not await self._wait_empty():
                _log.warning("requests in flight cancelled at shutdown", count=len(self._shared.connections))
        await self._shared.tasks.close()

    async def _wait_empty(self) -> bool:
        try:
            async with self._clock.timeout(_PATIENCE_SECONDS):
                await self._shared.empty.wait()
        except TimeoutError:
            return False
        return True


def listen(address: str, port: int, *, share: bool = False) -> socket.socket:
    """Return a listening socket.

    Port 0 selects a free one, ``share`` allows another process to reserve the same port.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if _UNSENT_LIMIT is not None:
            # Connections inherit it: the kernel, too, buffers little for a client that does not read.
            listener.setsockopt(socket.IPPROTO_TCP, _UNSENT_LIMIT, _UNSENT_BYTES)
        listener.bind((address, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise sockets.cannot_listen(error, address, port) from error
    listener.setblocking(False)
    return listener


def tls_context(certificate: Path, key: Path, client_authorities: Iterable[Path]) -> ssl.SSLContext:
    """Return a context for TLS 1.2 or newer, with an optional client certificate of one of the accepted CAs."""
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
