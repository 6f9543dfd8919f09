"""Requests over HTTP/1.1 with keep-alive, on aiohttp."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import urllib.parse
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import aiohttp
import multidict
import yarl

from kube_fairlead import __version__
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.environment import Environment
from kube_fairlead.client import errors, httperrors, keepalive_socket, proxies, tls
from kube_fairlead.client.credentials import Certificate, Credential
from kube_fairlead.client.server_access import Access, Impersonation
from kube_fairlead.client.transport import Request, Response

__all__ = ["HttpTransport"]

_CONNECT_TIMEOUT_SECONDS = 10.0
# A node's informers are quiet for minutes; a connection that is kept that long spares a handshake each time.
_KEEP_ALIVE_SECONDS = 90.0
# A socket that was shut down is gone after a few turns of the event loop; more would be another's fault.
_GOODBYE_TURNS = 100


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
        self._lane: _Lane | None = None
        self._lanes: set[_Lane] = set()
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
        self._lane = None
        for lane in list(self._lanes):
            await lane.session.close()
        self._lanes.clear()
        await self._hang_up()

    def _open_socket(self, address: tuple[Any, ...]) -> socket.socket:
        opened = keepalive_socket.open_socket(address)
        self._sockets.add(opened)
        return opened

    async def _hang_up(self) -> None:
        """Close all sockets: TLS shutdowns that are not awaited would outlive the event loop."""
        for opened in list(self._sockets):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        for _ in range(_GOODBYE_TURNS):
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
            lane = await stack.enter_async_context(self._lane_for(credential.certificate))
            try:
                response = await self._headers_of(lane, request, credential)
            except errors.CertificateRejected:
                if not self._authority_changed():
                    raise
                lane = await stack.enter_async_context(self._lane_for(credential.certificate))
                response = await self._headers_of(lane, request, credential)
            try:
                yield _Answer(response, request, self._access.server)
            finally:
                # A body read to its end has given its connection back; any other connection is not worth keeping.
                response.close()

    async def _headers_of(self, lane: _Lane, request: Request, credential: Credential) -> aiohttp.ClientResponse:
        headers = self._base_headers.copy()
        headers.update(request.headers)
        if credential.authorization:
            headers["Authorization"] = credential.authorization
        try:
            return await lane.session.request(
                request.method,
                self._url(request),
                headers=headers,
                data=request.body or None,
                allow_redirects=False,
                proxy=self._proxy or None,
                server_hostname=self._access.tls_server_name or None,
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise httperrors.translate(error, request, self._access.server, self._proxy) from error

    def _url(self, request: Request) -> yarl.URL:
        query = f"?{urllib.parse.urlencode(request.query)}" if request.query else ""
        return yarl.URL(f"{self._access.server}{request.path}{query}", encoded=True)

    @contextlib.asynccontextmanager
    async def _lane_for(self, certificate: Certificate | None) -> AsyncIterator[_Lane]:
        if self._closed:
            raise errors.ServerUnreachable(f"the client for {self._access.server} is closed")
        lane = self._lane
        if lane is None or lane.certificate != certificate:
            lane = self._lane = self._new_lane(certificate)
        lane.users += 1
        try:
            await self._close_idle()
            yield lane
        finally:
            lane.users -= 1
            await self._close_idle()

    async def _close_idle(self) -> None:
        """Close the lanes that were replaced and are no longer used."""
        for lane in [lane for lane in self._lanes if lane is not self._lane and not lane.users]:
            self._lanes.discard(lane)
            await lane.session.close()

    def _new_lane(self, certificate: Certificate | None) -> _Lane:
        if not self._authority_read:
            self._authority = tls.read_authority(self._access)
            self._authority_read = True
        context = tls.context_for(self._authority, certificate, verify=not self._access.insecure_skip_tls_verify)
        connector = aiohttp.TCPConnector(
            ssl=context,
            limit=0,  # every watch holds a connection; a limit would make the next request wait for ever
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            socket_factory=self._open_socket,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect_timeout_seconds),
        )
        lane = _Lane(session, certificate)
        self._lanes.add(lane)
        return lane

    def _authority_changed(self) -> bool:
        """Whether the authority's file says something new since it was read; if so it is used from now on."""
        if self._access.certificate_authority_file is None:
            return False
        authority = tls.read_authority(self._access)
        if authority == self._authority:
            return False
        self._authority = authority
        self._lane = None
        return True


class _Lane:
    """The connections that share one client certificate and one authority."""

    def __init__(self, session: aiohttp.ClientSession, certificate: Certificate | None) -> None:
        self.session = session
        self.certificate = certificate
        self.users = 0


class _Answer:
    """An aiohttp response as a transport's response."""

    def __init__(self, response: aiohttp.ClientResponse, request: Request, server: str) -> None:
        self._response = response
        self._request = request
        self._server = server
        self.status = response.status
        self.headers: Mapping[str, str] = {key.lower(): value for key, value in response.headers.items()}

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise httperrors.translate(error, self._request, self._server, "") from error

    async def read(self) -> bytes:
        try:
            return await self._response.read()
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise httperrors.translate(error, self._request, self._server, "") from error


def _base_headers(component: str, impersonation: Impersonation | None) -> multidict.CIMultiDict[str]:
    agent = f"fairlead-{component}" if component else "fairlead"
    headers = multidict.CIMultiDict({"Accept": "application/json", "User-Agent": f"{agent}/{__version__}"})
    if impersonation is not None:
        headers.add("Impersonate-User", impersonation.user)
        if impersonation.uid:
            headers.add("Impersonate-Uid", impersonation.uid)
        for group in impersonation.groups:
            headers.add("Impersonate-Group", group)
        for key, values in impersonation.extra.items():
            for value in values:
                headers.add(f"Impersonate-Extra-{urllib.parse.quote(key, safe='')}", value)
    return headers
