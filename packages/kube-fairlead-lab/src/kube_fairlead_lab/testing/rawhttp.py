"""Plain HTTP requests to an API server.

The shared suite checks codes, bodies, headers and the exact text of errors. A client library interprets, retries or
hides them; this client only sends requests and shows answers.
"""

from __future__ import annotations

import contextlib
import copy
import io
import socket
import ssl
import urllib.parse
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec
import yarl

from kube_fairlead.base.clock import Clock, RealClock
from kube_fairlead_lab.testing.control_plane import Access

__all__ = ["APPLY_PATCH", "JSON_PATCH", "MERGE_PATCH", "STRATEGIC_PATCH", "Answer", "RawApi", "RawWatch"]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Answer:
    """One complete response."""

    method: str
    path: str
    code: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The body as a JSON object."""
        decoded: dict[str, Any] = msgspec.json.decode(self.raw)
        return decoded

    @property
    def text(self) -> str:
        """The body as text."""
        return self.raw.decode()

    def expect(self, *codes: int) -> dict[str, Any]:
        """Return the JSON body, when the code is one of these; an assertion that shows the answer when not."""
        shown = self.raw[:2000].decode(errors="replace")
        assert self.code in codes, f"{self.method} {self.path} answered {self.code}, not {codes}: {shown}"  # noqa: S101 - a test's own
        return self.json


class RawWatch:
    """The events of one watch, in order."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.headers = response.headers

    async def next(self) -> dict[str, Any]:
        """Return the next event; EOFError when the server ended the watch."""
        line = await self._response.content.readline()
        if not line:
            raise EOFError("the watch ended")
        event: dict[str, Any] = msgspec.json.decode(line)
        return event

    async def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the first wanted event; earlier ones are skipped."""
        while True:
            event = await self.next()
            if wanted(event):
                return event


class RawApi:
    """Requests as one user. An async context manager; every request has the deadline `timeout_seconds`."""

    def __init__(self, access: Access, *, timeout_seconds: float = 30, clock: Clock | None = None) -> None:
        self.access = access
        self._clock = clock or RealClock()
        self.headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._session: aiohttp.ClientSession | None = None
        self._sockets: list[socket.socket] = []
        self._context = ssl.create_default_context(cafile=str(access.ca_file))
        if access.certificate_file is not None:
            self._context.load_cert_chain(access.certificate_file, access.key_file)

    def with_headers(self, **headers: str) -> RawApi:
        """Return the same connections and user, with these headers on every request (`user_agent` for User-Agent)."""
        twin = copy.copy(self)
        twin.headers = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return twin

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._context, limit=0, socket_factory=self._open_socket)
        # The buffer limits the length of one line, that is, of one watch event.
        self._session = aiohttp.ClientSession(connector=connector, timeout=self._timeout, read_bufsize=2**22)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
        await self._hang_up()

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, str | int] | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        """Send one request. A body of bytes is sent as it is, anything else as JSON."""
        data = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        headers = self.headers if data is None else {"Content-Type": content_type, **self.headers}
        # aiohttp warns about large bodies as bytes: they block the loop for as long as they are copied.
        sent = io.BytesIO(data) if data and len(data) > 2**20 else data
        url = self._url(path, params or {})
        async with self._open.request(method, url, data=sent, headers=headers, allow_redirects=False) as got:
            return Answer(method, path, got.status, got.headers, await got.read())

    async def get(self, path: str, **params: str | int) -> Answer:
        """GET, with query parameters as keywords."""
        return await self.request("GET", path, params=params)

    async def post(self, path: str, body: Any, **params: str | int) -> Answer:
        """POST."""
        return await self.request("POST", path, body, params=params)

    async def put(self, path: str, body: Any, **params: str | int) -> Answer:
        """PUT."""
        return await self.request("PUT", path, body, params=params)

    async def patch(self, path: str, body: Any, content_type: str = MERGE_PATCH, **params: str | int) -> Answer:
        """PATCH; by default a merge patch."""
        return await self.request("PATCH", path, body, params=params, content_type=content_type)

    async def apply(self, path: str, body: Any, manager: str, **params: str | int) -> Answer:
        """Server-side apply."""
        return await self.patch(path, body, APPLY_PATCH, fieldManager=manager, **params)

    async def delete(self, path: str, body: Any = None, **params: str | int) -> Answer:
        """DELETE, with DeleteOptions as the body when there are any."""
        return await self.request("DELETE", path, body, params=params)

    async def poll(self, path: str, wanted: Callable[[Answer], bool], body: Any = None, **params: str | int) -> Answer:
        """GET (or POST a body) until the answer is the wanted one; only for changes without a watch."""
        method = "GET" if body is None else "POST"
        async with self._clock.timeout(self._timeout.total):
            while not wanted(answer := await self.request(method, path, body, params=params)):
                await self._clock.sleep(_POLL_SECONDS)
        return answer

    @contextlib.asynccontextmanager
    async def watch(self, path: str, **params: str | int) -> AsyncIterator[RawWatch]:
        """Watch a list path; TimeoutError ends a test that waits for an event that never comes."""
        url = self._url(path, {"watch": "true", **params})
        async with self._open.get(url, headers=self.headers) as got:
            if got.status != 200:
                raise AssertionError(f"watch {path} answered {got.status}: {await got.text()}")
            yield RawWatch(got)

    def _open_socket(self, address: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, *_ = address
        opened = socket.socket(family=family, type=kind, proto=protocol)
        self._sockets.append(opened)
        return opened

    async def _hang_up(self) -> None:
        """Wait until every connection is gone.

        Whenever an answer is not read to its end, aiohttp begins a polite TLS goodbye and forgets about it. A loop that
        ends before the goodbye does leaves an open socket behind, which Python reports in whatever test runs next.
        """
        for opened in self._sockets:
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        while any(opened.fileno() != -1 for opened in self._sockets):
            await self._clock.sleep(0)
        self._sockets.clear()

    def _url(self, path: str, params: Mapping[str, str | int]) -> yarl.URL:
        # Encoded as it is: a client that normalizes the path would hide the server's answer.
        query = f"?{urllib.parse.urlencode(params)}" if params else ""
        return yarl.URL(f"{self.access.url}{path}{query}", encoded=True)

    @property
    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("use RawApi as an async context manager")
        return self._session
