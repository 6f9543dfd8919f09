"""A watch stream: frames out of chunks, events out of frames, and how it ended.

Upstream: k8s.io/client-go@v0.36.4/rest/watch/decoder.go,
    k8s.io/apimachinery@v0.36.4/pkg/watch/streamwatcher.go
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Generic, TypeVar

from kube_fairlead.client import errors, objects
from kube_fairlead.client.transport import StreamedResponse

__all__ = ["Bookmark", "Change", "ChangeType", "FrameSplitter", "WatchEvent", "events_of"]

_T = TypeVar("_T")


class ChangeType(enum.StrEnum):
    """What happened to an object, in the words of the wire."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclasses.dataclass(frozen=True, slots=True)
class Change(Generic[_T]):
    """An object came, changed or went. A deleted one is shown in its last state."""

    type: ChangeType
    object: _T

    @property
    def resource_version(self) -> str:
        """Where a watch resumes after this."""
        return objects.resource_version_of(self.object)


@dataclasses.dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing happened, up to here."""

    resource_version: str
    ends_initial_events: bool = False


WatchEvent = Change[_T] | Bookmark


class FrameSplitter:
    """Lines out of chunks that begin and end anywhere."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that this chunk completes, without their ends; empty ones are left out."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            if self._rest:
                self._rest += chunk[start:end]
                line = bytes(self._rest)
                self._rest.clear()
            else:
                line = chunk[start:end]
            start = end + 1
            if line.strip():
                yield line
        self._rest += chunk[start:]

    @property
    def rest(self) -> bytes:
        """What came after the last line end."""
        return bytes(self._rest).strip()


async def events_of(
    response: StreamedResponse, decode: Callable[[bytes], WatchEvent[_T]], what: str
) -> AsyncGenerator[WatchEvent[_T], None]:
    """The events of one stream. Ends when the server ended it between two events, as it does every few minutes.

    Raises:
        WatchBroken: it was cut off; every event before was whole.
        ApiError: the server reported an error in the stream.
    """
    splitter = FrameSplitter()
    try:
        async with contextlib.aclosing(response.chunks()) as chunks:
            async for chunk in chunks:
                for frame in splitter.feed(chunk):
                    yield decode(frame)
    except errors.TransportError as error:
        raise errors.WatchBroken(f"the watch of {what} was cut off: {error}") from error
    if splitter.rest:
        raise errors.WatchBroken(f"the watch of {what} ended in the middle of an event")
