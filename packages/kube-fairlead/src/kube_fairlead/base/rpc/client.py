"""Calls: one connection for each. Nothing that the server sends can do more than fail that call.

A connection per call keeps this small: calls are rare and mostly local, cancelling one is hanging up, and there is no
shared state through which a server that misbehaves in one call could harm another. A general client would bring
neither a limit on message sizes nor cancellation that is never lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Final

import h2.errors
import h2.events

from kube_fairlead.base.rpc import framing, status
from kube_fairlead.base.rpc.errors import ProtocolError, StatusError, Unreachable
from kube_fairlead.base.rpc.wire import Wire, decode_headers

__all__ = ["Connect", "Target", "call", "unary"]

_RESETS_OF_A_STOPPING_SERVER: Final = frozenset({h2.errors.ErrorCodes.CANCEL, h2.errors.ErrorCodes.REFUSED_STREAM})

Connect = Callable[[str], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""How to reach a path. Raises OSError if no server listens there."""


async def _unix_socket(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(path)


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A server: where it listens, how it is reached, and how large its messages may be."""

    path: str
    scheme: str = "http"
    authority: str = "localhost"
    message_bytes_max: int = framing.MESSAGE_BYTES_MAX
    connect: Connect = _unix_socket


async def unary(target: Target, method: str, request: bytes, *, timeout_seconds: float | None = None) -> bytes:
    """Call a method that answers with one message.

    Raises:
        RpcError: as `call` does; a ProtocolError too if the answer is no message, or several.
    """
    messages = call(target, method, request, timeout_seconds=timeout_seconds)
    name = method.rpartition("/")[2]
    answer: bytes | None = None
    async with contextlib.aclosing(messages):
        async for message in messages:
            if answer is not None:
                raise ProtocolError(f"{name} was answered twice")
            answer = message
    if answer is None:
        raise ProtocolError(f"{name} was answered with nothing")
    return answer


async def call(
    target: Target, method: str, request: bytes, *, timeout_seconds: float | None = None
) -> AsyncGenerator[bytes, None]:
    """Call a method; the messages of its answer, as they come.

    Close the generator to hang up. It ends when the server has ended the call with status OK.

    Args:
        target: the server.
        method: `/service/method`.
        request: the message.
        timeout_seconds: how long the caller will wait, for the server to know. The caller's own clock ends the wait.

    Raises:
        Unreachable: no server listens, or the connection broke.
        StatusError: the call ended with an error status.
        ProtocolError: what came is not gRPC.
    """
    path = target.path
    try:
        reader, writer = await target.connect(path)
    except OSError as error:
        raise Unreachable(f"cannot connect to {path}: {error.strerror or error}") from error
    except ValueError as error:  # a path that is no path
        raise Unreachable(f"cannot connect to {path!r}: {error}") from error
    exchange = _Exchange(Wire(reader, writer, client_side=True), target.message_bytes_max)
    try:
        await exchange.send(_headers(target, method, timeout_seconds), request)
        async for message in exchange.messages():
            yield message
    except OSError as error:
        raise Unreachable(f"the connection to {path} broke: {error.strerror or error}") from error
    finally:
        exchange.hang_up()


def _headers(target: Target, method: str, timeout_seconds: float | None) -> list[tuple[str, str]]:
    headers = [
        (":method", "POST"),
        (":scheme", target.scheme),
        (":path", method),
        (":authority", target.authority),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("user-agent", "fairlead"),
    ]
    if timeout_seconds is not None:
        headers.append(("grpc-timeout", framing.encode_timeout(timeout_seconds)))
    return headers


class _Exchange:
    """The one stream of one connection."""

    def __init__(self, wire: Wire, message_bytes_max: int) -> None:
        self._wire = wire
        self._stream = 0
        self._buffer = framing.MessageBuffer(message_bytes_max)
        self._trailers: Mapping[str, str] = {}
        self._ended = False

    async def send(self, headers: list[tuple[str, str]], request: bytes) -> None:
        self._wire.open()
        self._stream = self._wire.h2.get_next_available_stream_id()
        self._wire.h2.send_headers(self._stream, headers)
        body = memoryview(framing.encode_message(request))
        while body and not self._ended:
            room = self._wire.room(self._stream)
            if room <= 0:
                await self._receive()
                continue
            self._wire.h2.send_data(self._stream, body[:room].tobytes(), end_stream=room >= len(body))
            body = body[room:]
            await self._wire.flush()

    async def messages(self) -> AsyncGenerator[bytes, None]:
        while True:
            while (message := self._buffer.take()) is not None:
                yield message
            if self._ended:
                break
            await self._receive()
        if len(self._buffer):
            raise ProtocolError("the answer ended in the middle of a message")
        _raise_for_status(self._trailers)

    def hang_up(self) -> None:
        """End the call, wherever it stands."""
        self._wire.hang_up(reset=0 if self._ended else self._stream)

    async def _receive(self) -> None:
        for event in await self._wire.receive():
            self._handle(event)
        await self._wire.flush()
        # A peer that floods us is read frame by frame, and other tasks run in between.
        await asyncio.sleep(0)

    def _handle(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ConnectionTerminated():
                if not self._ended:
                    raise Unreachable("the server is closing its connections")
            case h2.events.ResponseReceived(headers=headers):
                self._begin(decode_headers(headers))
            case h2.events.TrailersReceived(headers=headers):
                self._trailers = decode_headers(headers)
            case h2.events.DataReceived(data=data, flow_controlled_length=length):
                self._buffer.feed(data)
                self._wire.h2.acknowledge_received_data(length, self._stream)
            case h2.events.StreamReset(error_code=code):
                if code in _RESETS_OF_A_STOPPING_SERVER:
                    raise Unreachable("the server cancelled the call")
                raise ProtocolError(f"the server reset the call with HTTP/2 error {int(code)}")
            case h2.events.StreamEnded():
                self._ended = True
            case _:
                pass  # settings, pings, priorities: the library has answered where an answer is due

    def _begin(self, headers: Mapping[str, str]) -> None:
        http_status, content_type = headers.get(":status"), headers.get("content-type", "")
        if http_status != "200" or not content_type.startswith("application/grpc"):
            raise ProtocolError(f"the answer is not gRPC: status {http_status}, content type {content_type[:80]!r}")
        self._trailers = headers  # of an answer without a body, these are the trailers too


def _raise_for_status(trailers: Mapping[str, str]) -> None:
    text = trailers.get("grpc-status", "")
    code = status.decode_code(text)
    if code is None:
        raise ProtocolError(f"the answer ended with gRPC status {text[:20]!r}")
    if code is not status.Code.OK:
        words = status.decode_text(trailers.get("grpc-message", ""))
        raise StatusError(code, words or f"the call ended with gRPC status {int(code)}")
