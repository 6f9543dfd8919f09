"""A real HTTP server on loopback whose answers a test writes: any status, any body, any misbehaviour."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from kube_fairlead.base.clock import Clock, RealClock
from kube_fairlead.base.environment import Environment
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client import retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.http import HttpTransport
from kube_fairlead.client.server_access import Access

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclasses.dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class ScriptedServer:
    """Gives the scripted answers one after the other, the last one for ever."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[Seen] = []
        self._script: list[Answer] = []

    def script(self, *answers: Answer) -> None:
        self._script = list(answers)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append(
            Seen(request.method, request.raw_path.partition("?")[0], dict(request.query), request.headers, body)
        )
        answer = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        return await answer(request)


@contextlib.asynccontextmanager
async def serving(context: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator[ScriptedServer]:
    """Run a scripted server, with TLS if a context is given."""
    server = ScriptedServer()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=context)
    await site.start()
    bound = runner.addresses[0][1]
    server.url = f"{'https' if context else 'http'}://127.0.0.1:{bound}"
    try:
        yield server
    finally:
        await runner.cleanup()


def client_for(
    access: Access | str,
    *,
    clock: Clock | None = None,
    environment: Mapping[str, str] | None = None,
    policy: retry.RetryPolicy = retry.DEFAULT,
    timeout_seconds: float = 10.0,
) -> Client:
    """A client of a scripted server."""
    clock = clock or RealClock()
    access = Access(server=access) if isinstance(access, str) else access
    transport = HttpTransport(access, clock=clock, environment=Environment(environment or {}))
    return Client(
        transport,
        clock=clock,
        randomness=SeededRandomness(0),
        retry_policy=policy,
        timeout_seconds=timeout_seconds,
    )


def answers(value: Any, status: int = 200, **headers: str) -> Answer:
    """A JSON answer."""

    async def answer(_: web.Request) -> web.StreamResponse:
        named = {key.replace("_", "-"): text for key, text in headers.items()}
        return web.json_response(value, status=status, headers=named)

    return answer


def answers_text(text: str, status: int) -> Answer:
    """An answer that is no JSON."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=text, status=status)

    return answer


def hangs_up() -> Answer:
    """Read the request, then reset the connection."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return answer


def streams(*chunks: bytes, then: str = "end") -> Answer:
    """A chunked body, then its proper end, a cut, or silence until the client goes away."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then == "cut":
            assert request.transport is not None
            request.transport.abort()
        elif then == "silence":
            await never()
        return response

    return answer


async def never() -> None:
    """Wait until cancelled."""
    import asyncio

    await asyncio.get_running_loop().create_future()


def status(code: int, reason: str, message: str = "sorry", **details: Any) -> dict[str, Any]:
    """A Status as servers send it."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }


def config_map(name: str, version: int, *, uid: str = "", **data: str) -> dict[str, Any]:
    """A small object."""
    metadata = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def frame(kind: str, item: Mapping[str, Any]) -> bytes:
    """One line of a watch."""
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def bookmark(version: int, *, initial_events_end: bool = False) -> bytes:
    """A line that says: nothing happened, up to here."""
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if initial_events_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return frame("BOOKMARK", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def listed(*items: Mapping[str, Any], version: int, token: str = "") -> dict[str, Any]:
    """A list as servers send it."""
    metadata = {"resourceVersion": str(version)} | ({"continue": token} if token else {})
    return {"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": list(items)}
