"""A transport with a whole small API server behind it, for one resource, whose every misbehaviour a test decides.

It keeps the truth: each change ever made, in order. What a client was told can be held against it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.client import errors, retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.transport import Request, Response
from tests.unit.client import scripted

Object = dict[str, Any]


class ModelServer:
    """Serves config maps. Resource versions count changes."""

    def __init__(self) -> None:
        self.version = 1
        self.compacted = 0
        self.live: dict[str, Object] = {}
        self.truth: list[tuple[int, str, Object]] = []
        self.lists = 0
        self.refusals = 0
        self.supports_streamed_lists = True
        self._streams: set[_Stream] = set()

    def put(self, name: str) -> None:
        """Create, or change."""
        self.version += 1
        known = self.live.get(name)
        uid = known["metadata"]["uid"] if known else f"{name}-{self.version}"
        self.live[name] = scripted.config_map(name, self.version, uid=uid)
        self._record("MODIFIED" if known else "ADDED", self.live[name])

    def delete(self, name: str) -> None:
        if (known := self.live.pop(name, None)) is not None:
            self.version += 1
            self._record("DELETED", scripted.config_map(name, self.version, uid=known["metadata"]["uid"]))

    def replace(self, name: str) -> None:
        """Delete, and create another of the same name."""
        self.delete(name)
        self.put(name)

    def compact(self) -> None:
        """Forget history: no watch can go on from before now."""
        self.compacted = self.version

    def cut(self, *, inside_a_frame: bool = False) -> None:
        for stream in list(self._streams):
            stream.stop("inside" if inside_a_frame else "cut")

    def end(self) -> None:
        for stream in list(self._streams):
            stream.stop("end")

    def bookmark(self) -> None:
        for stream in self._streams:
            stream.push(scripted.bookmark(self.version))

    def _record(self, kind: str, item: Object) -> None:
        self.truth.append((self.version, kind, item))
        for stream in self._streams:
            stream.push(scripted.frame(kind, item))

    # The transport's side.

    async def send(self, request: Request) -> Response:
        await asyncio.sleep(0)
        self._may_refuse(request)
        query = dict(request.query)
        assert request.method == "GET"
        self.lists += 1
        after = query.get("continue", "")
        names = sorted(name for name in self.live if name > after)
        limit = int(query.get("limit", "0")) or len(names) or 1
        token = names[limit - 1] if len(names) > limit else ""
        items = [self.live[name] for name in names[:limit]]
        return Response(200, {}, json.dumps(scripted.listed(*items, version=self.version, token=token)).encode())

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[_Stream]:
        await asyncio.sleep(0)
        self._may_refuse(request)
        query = dict(request.query)
        stream = _Stream()
        if query.get("sendInitialEvents"):
            if not self.supports_streamed_lists:
                stream = _Stream(422, scripted.status(422, "Invalid", "sendInitialEvents is forbidden"))
            for item in self.live.values():
                stream.push(scripted.frame("ADDED", item))
            stream.push(scripted.bookmark(self.version, initial_events_end=True))
        elif (since := int(query["resourceVersion"])) < self.compacted:
            expired = scripted.status(410, "Expired", f"too old resource version: {since} ({self.compacted})")
            # Kubernetes says it either way, depending on where it notices.
            if since % 2:
                stream = _Stream(410, expired)
            else:
                stream.push(scripted.frame("ERROR", expired))
        else:
            for version, kind, item in self.truth:
                if version > since:
                    stream.push(scripted.frame(kind, item))
        self._streams.add(stream)
        try:
            yield stream
        finally:
            self._streams.discard(stream)

    async def close(self) -> None:
        self.cut()

    def _may_refuse(self, request: Request) -> None:
        if self.refusals:
            self.refusals -= 1
            raise errors.ServerUnreachable(f"{request}: refused by the test")


class _Stream:
    def __init__(self, status: int = 200, body: Mapping[str, Any] | None = None) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {}
        self._body = json.dumps(body).encode() if body else b""
        self._waiting: list[bytes] = []
        self._stop = ""
        self._changed = asyncio.Event()

    def push(self, frame: bytes) -> None:
        self._waiting.append(frame)
        self._changed.set()

    def stop(self, how: str) -> None:
        self._stop = how
        self._changed.set()

    async def read(self) -> bytes:
        return self._body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        while True:
            while self._waiting and not self._stop:
                yield self._waiting.pop(0)
            match self._stop:
                case "inside":
                    yield (self._waiting or [scripted.bookmark(9)])[0][:20]
                    raise errors.ConnectionBroken("cut by the test")
                case "cut":
                    raise errors.ConnectionBroken("cut by the test")
                case "end":
                    return
            self._changed.clear()
            await self._changed.wait()


def client_of(server: ModelServer, clock: Clock) -> Client:
    return Client(server, clock=clock, randomness=SeededRandomness(0), retry_policy=retry.NEVER)
