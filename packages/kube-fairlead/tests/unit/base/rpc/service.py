"""A service for every test of the server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.rpc import client, server
from kube_fairlead.base.rpc.calls import Handler, Limits, Send
from kube_fairlead.base.rpc.errors import StatusError
from kube_fairlead.base.rpc.status import Code


class Service:
    """Its methods, and what it saw."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.release = asyncio.Event()
        self.running = 0
        self.sent = 0

    def methods(self) -> dict[str, Handler]:
        return {
            "/s/Echo": self.echo,
            "/s/Count": self.count,
            "/s/Hang": self.hang,
            "/s/Cling": self.cling,
            "/s/Fail": self.fail,
            "/s/Refuse": self.refuse,
            "/s/Late": self.late,
        }

    async def echo(self, request: bytes, send: Send) -> None:
        await send(request)

    async def count(self, request: bytes, send: Send) -> None:
        """As many messages of 1000 bytes as the request says."""
        self.entered.set()
        for _ in range(int(request)):
            await send(b"x" * 1000)
            self.sent += 1

    async def hang(self, request: bytes, send: Send) -> None:
        self.running += 1
        self.entered.set()
        if request:
            await send(request)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        finally:
            self.running -= 1

    async def cling(self, request: bytes, send: Send) -> None:
        """Takes its time to end when it is cancelled."""
        self.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
            await self.release.wait()

    async def fail(self, request: bytes, send: Send) -> None:
        raise KeyError("disk")

    async def refuse(self, request: bytes, send: Send) -> None:
        raise StatusError(Code.FAILED_PRECONDITION, request.decode())

    async def late(self, request: bytes, send: Send) -> None:
        raise TimeoutError("the handler's own")


@contextlib.asynccontextmanager
async def serving(
    folder: Path, service: Service | None = None, *, clock: Clock | None = None, limits: Limits | None = None
) -> AsyncIterator[Path]:
    path = folder / "s"
    async with server.serving_path(path, (service or Service()).methods(), clock=clock, limits=limits):
        yield path


async def unary(path: Path, method: str, request: bytes = b"", *, timeout_seconds: float | None = None) -> bytes:
    target = client.Target(str(path), message_bytes_max=8 << 20)
    return await client.unary(target, f"/s/{method}", request, timeout_seconds=timeout_seconds)
