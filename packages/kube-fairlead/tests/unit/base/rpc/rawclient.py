"""A client that sends what it likes, frame by frame, and sees every event of its connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import h2.config
import h2.connection
import h2.events

from kube_fairlead.base.rpc import framing

E = TypeVar("E", bound=h2.events.Event)
REQUEST: tuple[tuple[str, str], ...] = (
    (":method", "POST"),
    (":scheme", "http"),
    (":authority", "localhost"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
)


def headers(path: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
    return [REQUEST[0], (":path", path), *REQUEST[1:], *more]


class RawClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(
                header_encoding="utf-8", validate_outbound_headers=False, normalize_outbound_headers=False
            )
        )
        self.h2.initiate_connection()
        self.seen: list[h2.events.Event] = []
        self.acknowledges = True

    def open(self, path: str, *more: tuple[str, str]) -> int:
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, headers(path, *more))
        return stream

    def call(self, path: str, request: bytes = b"", *more: tuple[str, str]) -> int:
        stream = self.open(path, *more)
        self.h2.send_data(stream, framing.encode_message(request), end_stream=True)
        return stream

    async def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    async def until(self, wanted: Callable[[h2.events.Event], bool]) -> h2.events.Event:
        """The first event of that kind, of those to come."""
        await self.flush()
        while True:
            data = await self.reader.read(65536)
            if not data:
                raise ConnectionResetError
            found = None
            for event in self.h2.receive_data(data):
                self.seen.append(event)
                if isinstance(event, h2.events.DataReceived) and self.acknowledges:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if found is None and wanted(event):
                    found = event
            await self.flush()
            if found is not None:
                return found

    async def next(self, kind: type[E]) -> E:
        """The first event of a kind, of those to come."""
        event = await self.until(lambda event: isinstance(event, kind))
        assert isinstance(event, kind)
        return event

    def all(self, kind: type[E]) -> list[E]:
        """The events of a kind until now."""
        return [event for event in self.seen if isinstance(event, kind)]

    async def status(self, stream: int) -> tuple[str, str]:
        """How a call ended: the status and its words."""
        while True:
            ends: list[h2.events.ResponseReceived | h2.events.TrailersReceived]
            ends = [*self.all(h2.events.ResponseReceived), *self.all(h2.events.TrailersReceived)]
            for event in ends:
                if event.stream_id == stream and event.stream_ended is not None:
                    found = {str(key): str(value) for key, value in event.headers or ()}
                    return found.get("grpc-status", found.get(":status", "")), found.get("grpc-message", "")
            await self.next(h2.events.StreamEnded)

    async def closed(self) -> None:
        """Wait until the server has closed the connection."""
        with contextlib.suppress(ConnectionError):
            await self.until(lambda _: False)


@contextlib.asynccontextmanager
async def connected(path: Path) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)
