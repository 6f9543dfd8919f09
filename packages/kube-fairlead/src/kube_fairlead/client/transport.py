"""The interface of transports: HTTP, in process, or the simulation's network."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

__all__ = ["Request", "Response", "StreamedResponse", "Transport"]

_NO_HEADERS: Mapping[str, str] = {}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as a plain value. The transport adds credentials, host and connection."""

    method: str
    path: str  # percent-encoded, from the server's root
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NO_HEADERS)
    body: bytes = b""
    timeout_seconds: float | None = None  # for the whole answer; a streamed one: for its headers

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclasses.dataclass(frozen=True, slots=True)
class Response:
    """A complete answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class StreamedResponse(Protocol):
    """An answer whose body is still coming."""

    @property
    def status(self) -> int:
        """The HTTP status code."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Header values by lower-case name."""
        ...

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it arrives. Ends when the server ended it; raises ConnectionBroken when it was cut off."""
        ...

    async def read(self) -> bytes:
        """The rest of the body, for a short one such as an error."""
        ...


class Transport(Protocol):
    """Carries requests to one API server.

    Raises errors of `kube_fairlead.client.errors` only, and only when no complete answer came; an answer of any status
    code is an answer. Cancelling a call gives it up at once.
    """

    async def send(self, request: Request) -> Response:
        """Send and wait for the whole answer."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamedResponse]:
        """Send and hold the answer open; leaving the block hangs up."""
        ...

    async def close(self) -> None:
        """Close connections. Calls under way fail."""
        ...
