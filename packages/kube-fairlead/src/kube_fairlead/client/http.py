"""Requests over HTTP/1.1 with keep-alive."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import urllib.parse
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping

from kube_fairlead import __version__
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.environment import Environment
from kube_fairlead.client import errors, http1, httperrors, proxies, tls
from kube_fairlead.client.connection import Connection, Endpoint, Route
from kube_fairlead.client.credentials import Certificate, Credential
from kube_fairlead.client.server_access import Access, Impersonation
from kube_fairlead.client.transport import Request, Response

__all__ = ["HttpTransport"]

_CONNECT_TIMEOUT_SECONDS = 10.0
# kube-apiserver closes a connection that is idle for 90 seconds; a request that meets that moment is lost.
_KEEP_ALIVE_SECONDS = 60.0
_IDLE_MAX = 8
# A connection may have been closed by the server while the request was under way to it. Reads may be sent again then; a
# write may have been carried out.
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS"})
_WITH_BODY = frozenset({"PATCH", "POST", "PUT"})
# A socket that was shut down is gone after a few turns of the event loop; more would be a defect elsewhere.
_CLOSING_TURNS = 100


class HttpTransport:
    """Carries requests to one server, as one identity.

    Guarantees:
    1. An answer of 401 is handed on only after the credentials had their chance to renew themselves.
    2. A changed client certificate or authority opens new connections; those in use end in their own time.
    3. After `close` no socket is left.
    """

    def __init__(
        self,
        access: Access,
        *,
        clock: Clock,
        environment: Environment,
        component: str = "",
        connect_timeout_seconds: float = _CONNECT_TIMEOUT_SECONDS,
    ) -> None:
        self._access = access
        self._clock = clock
        self._proxy = access.proxy_url or proxies.proxy_for(access.server, environment)
        self._base_headers = _base_headers(component, access.impersonation)
        self._connect_timeout_seconds = connect_timeout_seconds
        self._authority: bytes | None = None
        self._authority_read = False
        self._pool: _ConnectionPool | None = None
        self._pools: set[_ConnectionPool] = set()
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._closed = False

    async def send(self, request: Request) -> Response:
        """Send and wait for the whole answer."""
        try:
            async with self._clock.timeout(request.timeout_seconds), self._exchange(request) as answer:
                return Response(answer.status, answer.headers, await answer.read())
        except TimeoutError as error:
            raise httperrors.timed_out(request) from error

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[_Answer]:
        """Send and hold the answer open."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with self._clock.timeout(request.timeout_seconds):
                    answer = await stack.enter_async_context(self._exchange(request))
            except TimeoutError as error:
                raise httperrors.timed_out(request) from error
            yield answer

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        self._pool = None
        for pool in list(self._pools):
            pool.close()
        self._pools.clear()
        await self._close_sockets()

    async def _close_sockets(self) -> None:
        """Close the sockets of requests under way too, and wait until the event loop has done so."""
        for opened in list(self._sockets):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        for _ in range(_CLOSING_TURNS):
            if all(opened.fileno() == -1 for opened in list(self._sockets)):
                return
            await asyncio.sleep(0)

    @contextlib.asynccontextmanager
    async def _exchange(self, request: Request) -> AsyncIterator[_Answer]:
        credential = await self._access.credentials.current()
        async with self._attempt(request, credential) as answer:
            if answer.status != 401 or not await self._access.credentials.refused(credential):
                yield answer
                return
            await answer.read()  # so that the connection can be used again
        async with self._attempt(request, await self._access.credentials.current()) as answer:
            yield answer

    @contextlib.asynccontextmanager
    async def _attempt(self, request: Request, credential: Credential) -> AsyncIterator[_Answer]:
        async with contextlib.AsyncExitStack() as stack:
            pool = stack.enter_context(self._pool_for(credential.certificate))
            try:
                answer = await self._ask(pool, request, credential)
            except errors.CertificateRejected:
                if not self._authority_changed():
                    raise
                pool = stack.enter_context(self._pool_for(credential.certificate))
                answer = await self._ask(pool, request, credential)
            try:
                yield answer
            finally:
                # A body read to its end has returned its connection; any other connection is not worth keeping.
                answer.close()

    async def _ask(self, pool: _ConnectionPool, request: Request, credential: Credential) -> _Answer:
        """Send and wait for the head of the answer."""
        head = self._head(pool.route, request, credential)
        kept = pool.take_idle(self._clock.monotonic())
        if kept is not None:
            try:
                return await self._exchange_on(kept, pool, request, head)
            except errors.ConnectionBroken:
                if request.method not in _REPEATABLE or kept.was_answered:
                    raise
        return await self._exchange_on(await self._connect(pool.route), pool, request, head)

    async def _connect(self, route: Route) -> Connection:
        try:
            async with self._clock.timeout(self._connect_timeout_seconds):
                return await route.connect(self._clock, self._sockets.add)
        except TimeoutError as error:
            raise httperrors.silent(self._access.server) from error

    async def _exchange_on(
        self, connection: Connection, pool: _ConnectionPool, request: Request, head: bytes
    ) -> _Answer:
        parser = http1.AnswerParser(request.method)
        answer = _Answer(connection, parser, pool, request, self._clock)
        try:
            connection.write(head + request.body)
            while not parser.status:
                await connection.receive_into(parser)
        except (OSError, EOFError, http1.MalformedAnswer) as error:
            answer.close()
            raise httperrors.broken(request, self._access.server, error, answered=False) from error
        except BaseException:
            answer.close()
            raise
        answer.begin()
        return answer

    def _head(self, route: Route, request: Request, credential: Credential) -> bytes:
        query = f"?{urllib.parse.urlencode(request.query)}" if request.query else ""
        target = f"{route.server.path}{request.path}{query}"
        given = {name.lower() for name in request.headers}
        headers = [
            ("Host", route.server.short_name),
            *(pair for pair in self._base_headers if pair[0].lower() not in given),
        ]
        headers += request.headers.items()
        if authorization := credential.authorization or route.server.authorization:
            headers.append(("Authorization", authorization))
        if request.body or request.method in _WITH_BODY:
            headers.append(("Content-Length", str(len(request.body))))
        if route.proxy is not None and not route.server.is_tls:
            target = f"http://{route.server.short_name}{target}"
            if route.proxy.authorization:
                headers.append(("Proxy-Authorization", route.proxy.authorization))
        try:
            return http1.request_head(request.method, target, headers)
        except ValueError as error:
            raise httperrors.broken(request, self._access.server, error, answered=False) from error

    @contextlib.contextmanager
    def _pool_for(self, certificate: Certificate | None) -> Iterator[_ConnectionPool]:
        if self._closed:
            raise errors.ServerUnreachable(f"the client for {self._access.server} is closed")
        pool = self._pool
        if pool is None or pool.certificate != certificate:
            pool = self._pool = self._new_pool(certificate)
        pool.users += 1
        try:
            self._close_unused()
            yield pool
        finally:
            pool.users -= 1
            self._close_unused()

    def _close_unused(self) -> None:
        """Close the pools that were replaced and are no longer used."""
        for pool in [pool for pool in self._pools if pool is not self._pool and not pool.users]:
            self._pools.discard(pool)
            pool.close()

    def _new_pool(self, certificate: Certificate | None) -> _ConnectionPool:
        if not self._authority_read:
            self._authority = tls.read_authority(self._access)
            self._authority_read = True
        context = tls.context_for(self._authority, certificate, verify=not self._access.insecure_skip_tls_verify)
        try:
            server = Endpoint.of(self._access.server)
            proxy = Endpoint.of(self._proxy) if self._proxy else None
        except ValueError as error:
            raise errors.ConfigError(f"{self._access.server} is not a URL that can be connected to") from error
        route = Route(
            server_url=self._access.server,
            server=server,
            proxy_url=self._proxy,
            proxy=proxy,
            context=context,
            server_name=self._access.tls_server_name or server.host,
        )
        pool = _ConnectionPool(route, certificate)
        self._pools.add(pool)
        return pool

    def _authority_changed(self) -> bool:
        """Whether the authority's file says something new since it was read; if so it is used from now on."""
        if self._access.certificate_authority_file is None:
            return False
        authority = tls.read_authority(self._access)
        if authority == self._authority:
            return False
        self._authority = authority
        self._pool = None
        return True


class _ConnectionPool:
    """The connections that share one client certificate and one authority."""

    def __init__(self, route: Route, certificate: Certificate | None) -> None:
        self.route = route
        self.certificate = certificate
        self.users = 0
        self._idle: list[Connection] = []
        self._is_closed = False

    def take_idle(self, now: float) -> Connection | None:
        """A connection to use again, if there is one; the one that was used last is the likeliest to be open."""
        kept = [one for one in self._idle if one.is_usable and now - one.idle_since < _KEEP_ALIVE_SECONDS]
        for one in self._idle:
            if one not in kept:
                one.abort()
        self._idle = kept
        return kept.pop() if kept else None

    def put_back(self, connection: Connection, now: float) -> None:
        """Keep a connection for the next request."""
        if self._is_closed:
            connection.abort()
        else:
            connection.idle_since = now
            self._idle.append(connection)
            for surplus in self._idle[:-_IDLE_MAX]:
                surplus.abort()
            del self._idle[:-_IDLE_MAX]

    def close(self) -> None:
        """Close what is idle; what is in use is not kept any more."""
        self._is_closed = True
        for connection in self._idle:
            connection.abort()
        self._idle.clear()


class _Answer:
    """An answer whose body is read from its connection."""

    def __init__(
        self, connection: Connection, parser: http1.AnswerParser, pool: _ConnectionPool, request: Request, clock: Clock
    ) -> None:
        self._connection: Connection | None = connection
        self._parser = parser
        self._pool = pool
        self._request = request
        self._clock = clock
        self.status = 0
        self.headers: Mapping[str, str] = {}

    def begin(self) -> None:
        """The head has arrived."""
        self.status, self.headers = self._parser.status, self._parser.headers
        self._release_if_complete()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        unzipper = http1.Unzipper() if self.headers.get("content-encoding", "").lower() == "gzip" else None
        try:
            while True:
                if part := self._parser.take():
                    for piece in [part] if unzipper is None else unzipper.feed(part):
                        yield piece
                if self._parser.is_complete:
                    break
                await self._receive()
            if unzipper is not None and unzipper.has_begun:
                unzipper.feed_end()
        except (OSError, EOFError, http1.MalformedAnswer) as error:
            self.close()
            raise httperrors.broken(self._request, self._pool.route.server_url, error, answered=True) from error

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def _receive(self) -> None:
        if self._connection is None:
            raise EOFError
        await self._connection.receive_into(self._parser)
        self._release_if_complete()

    def close(self) -> None:
        """Close the connection, unless it was returned to its pool."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    def _release_if_complete(self) -> None:
        if self._parser.is_complete and self._connection is not None:
            if self._parser.is_reusable:
                self._pool.put_back(self._connection, self._clock.monotonic())
                self._connection = None
            else:
                self.close()


def _base_headers(component: str, impersonation: Impersonation | None) -> list[tuple[str, str]]:
    agent = f"fairlead-{component}" if component else "fairlead"
    headers = [("Accept", "application/json"), ("Accept-Encoding", "gzip"), ("User-Agent", f"{agent}/{__version__}")]
    if impersonation is not None:
        headers.append(("Impersonate-User", impersonation.user))
        if impersonation.uid:
            headers.append(("Impersonate-Uid", impersonation.uid))
        headers += [("Impersonate-Group", group) for group in impersonation.groups]
        for key, values in impersonation.extra.items():
            name = f"Impersonate-Extra-{urllib.parse.quote(key, safe='')}"
            headers += [(name, value) for value in values]
    return headers
