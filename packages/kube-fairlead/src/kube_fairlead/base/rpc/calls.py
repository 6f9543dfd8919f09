"""One call as a server sees it: its request as it arrives, and what may be said of it. No I/O."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from kube_fairlead.base.rpc import framing
from kube_fairlead.base.rpc.errors import ProtocolError, StatusError
from kube_fairlead.base.rpc.status import Code

__all__ = ["Budget", "Handler", "IncomingCall", "Limits", "Methods", "Send", "http_status", "method_of"]

Send = Callable[[bytes], Awaitable[None]]
"""Sends one message of an answer, and waits while the client does not read."""
Handler = Callable[[bytes, Send], Awaitable[None]]
"""Answers one call: its request, and how to send. It raises StatusError to end the call with another status than OK.

It is cancelled when the client cancels the call or hangs up, when the deadline comes, and when the server stops."""
Methods = Mapping[str, Handler]
"""What to call, by `/service/method`."""

_CONTENT_TYPE: Final = "application/grpc"
_ENCODINGS: Final = frozenset({"", "identity"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much clients can make a server hold."""

    message_bytes_max: int = framing.MESSAGE_BYTES_MAX
    pending_bytes_max: int = 64 << 20  # of requests that have not arrived whole, of all connections together
    connections_max: int = 4096  # beyond it, the connection that is idle for longest is ended
    streams_max: int = 100  # calls of one connection at a time, those that are being cancelled too
    request_seconds: float = 30.0  # from the first byte of a preface, header block or request to its last


class Budget:
    """Bytes of requests that have not arrived whole, over all connections of a server."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.used = 0

    def take(self, count: int) -> None:
        """So many bytes more are held.

        Raises:
            ProtocolError: they are too many.
        """
        self.used += count
        if self.used > self._bytes_max:
            raise ProtocolError(
                "the server holds too many requests that are not complete", code=Code.RESOURCE_EXHAUSTED
            )


class IncomingCall:
    """The request of one stream, from its headers on."""

    def __init__(self, stream: int, headers: Mapping[str, str], limits: Limits, budget: Budget) -> None:
        self.stream = stream
        self.path = headers.get(":path", "")
        self.timeout_seconds: float | None = None
        self.answering = False  # the headers of the answer are sent
        self.over = False  # nothing may be sent any more
        self.complete = asyncio.Event()
        self._buffer = framing.MessageBuffer(limits.message_bytes_max)
        self._budget = budget
        self._held = 0
        self._message: bytes | None = None
        self._fault: StatusError | None = None
        self.ended = False  # the client sends nothing more
        try:
            if (header := headers.get("grpc-timeout")) is not None:
                self.timeout_seconds = framing.decode_timeout(header)
        except ProtocolError as error:
            self._fail(error.code, str(error))
        if (encoding := headers.get("grpc-encoding", "")) not in _ENCODINGS:
            self._fail(Code.UNIMPLEMENTED, f"grpc-encoding {encoding[:20]!r} is not supported")

    def feed(self, data: bytes) -> None:
        """Bytes of the request have arrived. What is wrong with them is its answer."""
        if self._fault is not None:
            return
        if self._message is not None and data:
            self._fail(Code.UNIMPLEMENTED, "the request is more than one message")
            self.complete.set()
            return
        try:
            self._hold(data)
        except ProtocolError as error:
            # The answer does not wait for the rest: there may be a lot of it.
            self._fail(error.code, str(error))
            self.complete.set()

    def end(self) -> None:
        """The client has sent all of its request."""
        self.ended = True
        if self._fault is None and len(self._buffer):
            self._fail(Code.INTERNAL, "the request ended in the middle of a message")
        elif self._fault is None and self._message is None:
            self._fail(Code.UNIMPLEMENTED, "the request has no message")
        self.complete.set()

    def request(self) -> bytes:
        """The message, once the request is complete.

        Raises:
            StatusError: it is no request that could be answered.
        """
        if self._fault is not None:
            raise self._fault
        if self._message is None:
            raise RuntimeError("the request is not complete")
        return self._message

    def release(self) -> None:
        """Give back what the request held."""
        self._budget.used -= self._held
        self._held = 0

    def _hold(self, data: bytes) -> None:
        self._held += len(data)
        self._budget.take(len(data))
        self._buffer.feed(data)
        self._message = self._buffer.take()
        if self._message is not None and len(self._buffer):
            raise ProtocolError("the request is more than one message", code=Code.UNIMPLEMENTED)

    def _fail(self, code: Code, text: str) -> None:
        self._fault = StatusError(code, text)
        self._buffer = framing.MessageBuffer(0)
        self.release()


def http_status(headers: Mapping[str, str]) -> int:
    """200 for what is a gRPC request; else the status that says why it is none."""
    if headers.get(":method") != "POST":
        return 405
    content_type = headers.get("content-type", "")
    if content_type.split("+")[0].split(";")[0] != _CONTENT_TYPE:
        return 415
    return 200


def method_of(methods: Methods, path: str) -> Handler:
    """The handler of a method; for one that is not served, a handler that says so."""
    return methods.get(path) or _unimplemented(path)


def _unimplemented(path: str) -> Handler:
    async def refuse(request: bytes, send: Send) -> None:
        del request, send
        raise StatusError(Code.UNIMPLEMENTED, f"method {path[:200]} is not served here")

    return refuse
