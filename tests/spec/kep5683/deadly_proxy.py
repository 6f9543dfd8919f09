"""A way to the API server on which whoever travels can be killed (-9) before or after any single write."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Literal

import aiohttp
from aiohttp import web

from kube_fairlead_lab.testing import ControlPlane

__all__ = ["DeadlyProxy", "deadly_proxy"]

When = Literal["before", "after"]
Fate = Callable[[str, str, When], bool]
"""Of a request's method and path, and the moment: whether it is the traveller's last."""

_DROPPED = frozenset({"transfer-encoding", "content-encoding", "content-length", "connection", "host", "authorization"})


class DeadlyProxy:
    """Hands every request on, as the administrator; what becomes of whom is for `fate` to say."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.fate: Fate = lambda _method, _path, _when: False
        self.kill: Callable[[], None] = lambda: None
        self.answered: list[tuple[str, str, int]] = []  # what the server answered, heard or not: method, path, status


@contextlib.asynccontextmanager
async def deadly_proxy(plane: ControlPlane, folder: Path) -> AsyncIterator[DeadlyProxy]:
    """Listen on loopback as long as the block lasts."""
    access = plane.access()
    context = ssl.create_default_context(cafile=str(access.ca_file))
    if access.certificate_file is not None:
        context.load_cert_chain(access.certificate_file, access.key_file)
    credentials = {"Authorization": f"Bearer {access.token}"} if access.token else {}
    made = DeadlyProxy(folder / "proxy.kubeconfig")

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if made.fate(request.method, request.path, "before"):
            made.kill()
            raise web.HTTPBadGateway
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _DROPPED} | credentials
        async with session.request(
            request.method, f"{access.url}{request.path_qs}", data=body, headers=headers, allow_redirects=False
        ) as got:
            made.answered.append((request.method, request.path, got.status))
            if made.fate(request.method, request.path, "after"):
                await got.read()
                made.kill()
                raise web.HTTPBadGateway
            kept = {key: value for key, value in got.headers.items() if key.lower() not in _DROPPED}
            answer = web.StreamResponse(status=got.status, headers=kept)
            await answer.prepare(request)
            with contextlib.suppress(ConnectionError, aiohttp.ClientError):
                async for chunk in got.content.iter_any():
                    await answer.write(chunk)
            return answer

    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.01)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0), timeout=timeout) as session:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            made.kubeconfig.write_text(json.dumps(_config(runner.addresses[0][1])), encoding="utf-8")
            yield made
        finally:
            await runner.cleanup()


def _config(port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxy", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "traveller", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "traveller"}}],
        "current-context": "proxy",
    }
