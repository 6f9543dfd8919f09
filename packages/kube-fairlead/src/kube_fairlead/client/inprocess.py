"""Requests to an ASGI application in the same process, without a socket. For tests, the demo and the simulation."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import urllib.parse
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.client import errors
from kube_fairlead.client.transport import Request, Response

__all__ = ["AsgiApplication", "InProcessTransport"]

_Message = MutableMapping[str, Any]
AsgiApplication = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]],
    Awaitable[None],
]

# As a socket's buffers would: a reader that does not read makes the writer wait.
_CHUNKS_IN_FLIGHT = 64


class InProcessTransport:
    """Calls the application as an HTTP server would.

    As on a socket, a disconnect does not stop it: it receives `http.disconnect`, and what it sends from then
    on goes nowhere. `close` ends what is still running.
    """

    def __init__(
        self,
        application: AsgiApplication,
        *,
        clock: Clock,
        headers: Mapping[str, str] | None = None,
        extensions: Mapping[str, Any] | None = None,
    ) -> None:
        self._application = application
        self._clock = clock
        self._headers = {"accept": "application/json", "user-agent": "fairlead", **(headers or {})}
        self._extensions = dict(extensions or {})
        self._calls: set[_Call] = set()
        self._tasks = tasks.TaskSet("inprocess-transport")

    async def send(self, request: Request) -> Response:
        """Send and wait for the whole answer."""
        try:
            async with self._clock.timeout(request.timeout_seconds), self._call(request) as call:
                await call.wait_started()
                return Response(call.status, call.headers, await call.read())
        except TimeoutError as error:
            raise _timed_out(request) from error

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[_Call]:
        """Send and hold the answer open."""
        async with self._call(request) as call:
            try:
                async with self._clock.timeout(request.timeout_seconds):
                    await call.wait_started()
            except TimeoutError as error:
                raise _timed_out(request) from error
            yield call

    async def close(self) -> None:
        """Hang up everywhere and wait until the application's calls are gone."""
        for call in list(self._calls):
            call.hang_up()
        await self._tasks.close()

    @contextlib.asynccontextmanager
    async def _call(self, request: Request) -> AsyncIterator[_Call]:
        call = _Call(request)
        self._calls.add(call)
        try:
            self._tasks.start(self._run(call), name=str(request))
        except RuntimeError as error:
            raise errors.ServerUnreachable("the in-process client is closed") from error
        try:
            yield call
        finally:
            call.hang_up()

    async def _run(self, call: _Call) -> None:
        try:
            await self._application(self._scope(call.request), call.receive, call.send)
        except Exception as error:  # noqa: BLE001 - a server that crashes is a broken connection to its client
            call.fail(error)
        finally:
            call.ended()
            self._calls.discard(call)

    def _scope(self, request: Request) -> dict[str, Any]:
        headers = {**self._headers, **{key.lower(): value for key, value in request.headers.items()}}
        headers["content-length"] = str(len(request.body))
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "https",
            "path": urllib.parse.unquote(request.path),
            "raw_path": request.path.encode(),
            "query_string": urllib.parse.urlencode(request.query).encode(),
            "root_path": "",
            "headers": [(key.encode("latin-1"), value.encode("latin-1")) for key, value in headers.items()],
            "client": ("127.0.0.1", 0),
            "server": ("127.0.0.1", 443),
            "extensions": dict(self._extensions),
        }


class _Call:
    """One request under way, seen from both ends."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.status = 0
        self.headers: dict[str, str] = {}
        self._body_taken = False
        self._chunks: collections.deque[bytes] = collections.deque()
        self._complete = False
        self._over = False
        self._failure: Exception | None = None
        self._hung_up = asyncio.Event()
        self._news = asyncio.Event()  # for the client: something arrived
        self._room = asyncio.Event()  # for the server: something was taken
        self._room.set()

    # The server's side.

    async def receive(self) -> _Message:
        if not self._body_taken:
            self._body_taken = True
            return {"type": "http.request", "body": self.request.body, "more_body": False}
        await self._hung_up.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: _Message) -> None:
        if self._hung_up.is_set():
            await asyncio.sleep(0)
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {
                key.decode("latin-1").lower(): value.decode("latin-1") for key, value in message.get("headers", ())
            }
        elif message["type"] == "http.response.body":
            if body := message.get("body"):
                self._chunks.append(bytes(body))
            self._complete = not message.get("more_body", False)
        self._news.set()
        if len(self._chunks) >= _CHUNKS_IN_FLIGHT:
            self._room.clear()
            await self._room.wait()

    def fail(self, error: Exception) -> None:
        self._failure = error

    def ended(self) -> None:
        self._over = True
        self._news.set()

    # The client's side.

    async def wait_started(self) -> None:
        while not self.status:
            if self._over:
                raise self._broken("before an answer came")
            self._news.clear()
            await self._news.wait()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        while True:
            while self._chunks:
                chunk = self._chunks.popleft()
                self._room.set()
                yield chunk
            if self._complete:
                return
            if self._over:
                raise self._broken("in the middle of the answer")
            self._news.clear()
            await self._news.wait()

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    def hang_up(self) -> None:
        self._hung_up.set()
        self._room.set()

    def _broken(self, when: str) -> errors.ConnectionBroken:
        error = errors.ConnectionBroken(f"the in-process server ended {self.request} {when}")
        error.__cause__ = self._failure
        return error


def _timed_out(request: Request) -> errors.RequestTimedOut:
    return errors.RequestTimedOut(f"{request} was not answered within {request.timeout_seconds:g} s")
