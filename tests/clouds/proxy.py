"""A witness between a manager and Amazon's cloud: hands every call on, and remembers what it was about."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
import urllib.parse
from collections.abc import AsyncIterator, Callable

import aiohttp
from aiohttp import web

__all__ = ["CloudCall", "RecordingProxy", "recording_proxy"]

_INSTANCE = re.compile(r"i-[0-9a-f]{8,17}")
_DROPPED = frozenset({"transfer-encoding", "content-encoding", "content-length", "connection", "server", "date"})


@dataclasses.dataclass(frozen=True)
class CloudCall:
    """One call, as it went over the wire."""

    action: str
    parameters: dict[str, str]

    @property
    def instances(self) -> set[str]:
        """Every instance that it names."""
        return {found for value in self.parameters.values() for found in _INSTANCE.findall(value)}

    @property
    def values(self) -> set[str]:
        """Everything that it says."""
        return set(self.parameters.values())

    @property
    def changes_something(self) -> bool:
        """Whether it is more than a question."""
        return not self.action.startswith(("Describe", "Get", "List"))


class RecordingProxy:
    """Where it listens, and what it saw."""

    def __init__(self, target: str) -> None:
        self.url = ""
        self.calls: list[CloudCall] = []
        self._target = target
        self._session: aiohttp.ClientSession | None = None
        self._seen = asyncio.Event()

    async def wait_for(self, enough: Callable[[list[CloudCall]], bool], *, seconds: float = 60) -> None:
        """Wait until the calls so far are enough."""
        async with asyncio.timeout(seconds):
            while not enough(self.calls):
                self._seen.clear()
                await self._seen.wait()

    async def wait_for_more(self, action: str, number: int) -> None:
        """Wait until a call was made so many times more than now."""
        wanted = self.count(action) + number
        await self.wait_for(lambda _: self.count(action) >= wanted)

    def count(self, action: str) -> int:
        return sum(call.action == action for call in self.calls)

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        fields = dict(urllib.parse.parse_qsl(body.decode()))
        if self._session is None:
            raise RuntimeError("not running")
        headers = {key: value for key, value in request.headers.items() if key.lower() != "host"}
        async with self._session.request(
            request.method, f"{self._target}{request.path_qs}", data=body, headers=headers
        ) as answer:
            content = await answer.read()
            kept = {key: value for key, value in answer.headers.items() if key.lower() not in _DROPPED}
        self.calls.append(CloudCall(fields.pop("Action", request.path), fields))
        self._seen.set()
        return web.Response(status=answer.status, body=content, headers=kept)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[RecordingProxy]:
        application = web.Application(client_max_size=2**26)
        application.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            async with aiohttp.ClientSession() as self._session:
                yield self
        finally:
            await runner.cleanup()


def recording_proxy(target: str) -> contextlib.AbstractAsyncContextManager[RecordingProxy]:
    """Listen on a free port, in front of a target."""
    return RecordingProxy(target).running()
