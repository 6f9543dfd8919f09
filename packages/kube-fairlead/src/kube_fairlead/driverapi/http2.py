"""One gRPC call over one local connection. Nothing that the peer sends can do more than fail that call.

A connection per call keeps this small: calls to drivers are rare and local, cancelling one is hanging up, and there is
no shared state that a driver which misbehaves in one call could harm another through. A general client would bring
neither a limit on message sizes nor cancellation that is never lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import urllib.parse
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from typing import Final

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

from kube_fairlead.driverapi.contracts import MESSAGE_BYTES_MAX
from kube_fairlead.driverapi.errors import DriverError, DriverGone, DriverMisbehaved, DriverRefused

__all__ = ["Connect", "Target", "call"]

_FRAME_HEADER_BYTES: Final = 9
# What HTTP/2 allows a peer that was told nothing else. The library would look only when it has the whole frame.
_FRAME_BYTES_MAX: Final = 16 << 10
_SETTINGS: Final = 4
_PREFIX_BYTES: Final = 5
_OK: Final = 0
_UNIMPLEMENTED: Final = 12
# CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE: the call ended, not the work.
_GONE: Final = frozenset({1, 4, 14})
_RESETS_OF_THE_LEAVING: Final = frozenset({h2.errors.ErrorCodes.CANCEL, h2.errors.ErrorCodes.REFUSED_STREAM})
_STATUS_MAX: Final = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """What a call says of its server, and takes from it."""

    scheme: str = "http"
    authority: str = "localhost"
    message_bytes_max: int = MESSAGE_BYTES_MAX


Connect = Callable[[str], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""How to reach a path. Raises OSError when nobody listens there."""


async def _unix_socket(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(path)


async def call(
    path: str,
    method: str,
    request: bytes,
    *,
    timeout_seconds: float | None = None,
    connect: Connect = _unix_socket,
    target: Target | None = None,
) -> AsyncGenerator[bytes, None]:
    """Call a method of whatever listens on a path; the messages of its answer, as they come.

    Close the generator to hang up. It ends when the server has ended the call with status OK.

    Args:
        path: where it listens.
        method: with its service.
        request: the message.
        timeout_seconds: how long the caller will wait, for the server to know.
        connect: how to reach the path.
        target: what else is particular to the server; None for one on this machine.

    Raises:
        DriverGone: nobody listens, or the connection broke.
        DriverRefused: the call ended with an error status.
        DriverMisbehaved: what came is no gRPC.
    """
    try:
        reader, writer = await connect(path)
    except OSError as error:
        raise DriverGone(f"cannot connect to {path}: {error.strerror or error}") from error
    except ValueError as error:  # a path that is no path
        raise DriverGone(f"cannot connect to {path!r}: {error}") from error
    exchange = _Exchange(reader, writer, target or Target())
    try:
        await exchange.send(method, request, timeout_seconds)
        async for message in exchange.messages():
            yield message
    except OSError as error:
        raise DriverGone(f"the connection to {path} broke: {error.strerror or error}") from error
    except h2.exceptions.H2Error as error:
        raise DriverMisbehaved(f"{path} does not speak HTTP/2: {error!r}") from error
    finally:
        exchange.hang_up()


class _Exchange:
    """The one stream of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: Target) -> None:
        self._target = target
        self._reader = reader
        self._writer = writer
        # Headers stay bytes: a library that decoded them would fail where a driver sends what is no UTF-8.
        self._connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding=None))
        self._stream = 0
        self._buffer = bytearray()
        self._status: Mapping[str, str] = {}
        self._ended = False
        self._expects_settings = True

    async def send(self, method: str, request: bytes, timeout_seconds: float | None) -> None:
        headers = [
            (":method", "POST"),
            (":scheme", self._target.scheme),
            (":path", method),
            (":authority", self._target.authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "fairlead"),
        ]
        if timeout_seconds is not None:
            headers.append(("grpc-timeout", _timeout(timeout_seconds)))
        self._connection.initiate_connection()
        self._stream = self._connection.get_next_available_stream_id()
        self._connection.send_headers(self._stream, headers)
        body = memoryview(b"\0" + len(request).to_bytes(4, "big") + request)
        while body and not self._ended:
            room = min(
                self._connection.local_flow_control_window(self._stream), self._connection.max_outbound_frame_size
            )
            if room <= 0:
                await self._receive()
                continue
            self._connection.send_data(self._stream, body[:room].tobytes(), end_stream=room >= len(body))
            body = body[room:]
            await self._flush()

    async def messages(self) -> AsyncGenerator[bytes, None]:
        while True:
            while (message := self._next_message()) is not None:
                yield message
            if self._ended:
                break
            await self._receive()
        if self._buffer:
            raise DriverMisbehaved("the answer ended in the middle of a message")
        _raise_for_status(self._status)

    def hang_up(self) -> None:
        """End the call, wherever it stands. What can be written at once is; nothing is waited for."""
        with contextlib.suppress(h2.exceptions.H2Error, OSError):
            if self._stream and not self._ended:
                self._connection.reset_stream(self._stream, h2.errors.ErrorCodes.CANCEL)
            self._connection.close_connection()
            self._writer.write(self._connection.data_to_send())
        self._writer.transport.abort()

    async def _flush(self) -> None:
        self._writer.write(self._connection.data_to_send())
        await self._writer.drain()

    async def _receive(self) -> None:
        """Take in one frame, and no more than a frame may hold."""
        try:
            header = await self._reader.readexactly(_FRAME_HEADER_BYTES)
            length = int.from_bytes(header[:3], "big")
            if length > _FRAME_BYTES_MAX or (self._expects_settings and header[3] != _SETTINGS):
                raise DriverMisbehaved("the driver does not speak HTTP/2")
            self._expects_settings = False
            frame = header + await self._reader.readexactly(length)
        except asyncio.IncompleteReadError as error:
            raise DriverGone("the driver closed the connection in the middle of a call") from error
        for event in self._connection.receive_data(frame):
            self._handle(event)
        await self._flush()
        # A peer that floods us is read frame by frame, with everybody else's turn in between.
        await asyncio.sleep(0)

    def _handle(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ConnectionTerminated():
                if not self._ended:
                    raise DriverGone("the driver is closing its connections")
            case h2.events.ResponseReceived(headers=headers):
                self._begin(_texts(headers))
            case h2.events.TrailersReceived(headers=headers):
                self._status = _texts(headers)
            case h2.events.DataReceived(data=data, flow_controlled_length=length):
                self._buffer += data
                self._connection.acknowledge_received_data(length, self._stream)
            case h2.events.StreamReset(error_code=code):
                if code in _RESETS_OF_THE_LEAVING:
                    raise DriverGone("the driver gave the call up")
                raise DriverMisbehaved(f"the driver reset the call with HTTP/2 error {int(code)}")
            case h2.events.StreamEnded():
                self._ended = True
            case _:
                pass  # settings, pings, priorities: the library has answered where an answer is due

    def _begin(self, headers: Mapping[str, str]) -> None:
        status, content_type = headers.get(":status"), headers.get("content-type", "")
        if status != "200" or not content_type.startswith("application/grpc"):
            raise DriverMisbehaved(f"the answer is no gRPC: status {status}, content type {content_type[:80]!r}")
        self._status = headers  # of an answer without a body, these are the trailers too

    def _next_message(self) -> bytes | None:
        if len(self._buffer) < _PREFIX_BYTES:
            return None
        length = int.from_bytes(self._buffer[1:_PREFIX_BYTES], "big")
        if self._buffer[0]:
            raise DriverMisbehaved("the message is compressed, which nobody asked for")
        if length > self._target.message_bytes_max:
            raise DriverMisbehaved(f"the message has {length} bytes, more than {self._target.message_bytes_max}")
        end = _PREFIX_BYTES + length
        if len(self._buffer) < end:
            return None
        message = bytes(self._buffer[_PREFIX_BYTES:end])
        del self._buffer[:end]
        return message


def _raise_for_status(trailers: Mapping[str, str]) -> None:
    text = trailers.get("grpc-status", "")
    if not (text.isascii() and text.isdigit() and len(text) <= 2 and int(text) <= _STATUS_MAX):
        raise DriverMisbehaved(f"the answer ended with gRPC status {text[:20]!r}")
    code = int(text)
    if code != _OK:
        raise _status_error(code, urllib.parse.unquote(trailers.get("grpc-message", "")))


def _status_error(code: int, words: str) -> DriverError:
    if code in _GONE:
        return DriverGone(words or f"the driver ended the call with gRPC status {code}", code=code)
    if code == _UNIMPLEMENTED:
        return DriverMisbehaved(words or "the driver does not know the method", code=code)
    return DriverRefused(words or f"the driver ended the call with gRPC status {code}", code=code)


def _texts(headers: Iterable[tuple[str | bytes, str | bytes]]) -> dict[str, str]:
    return {_text(key): _text(value) for key, value in headers}


def _text(header: str | bytes) -> str:
    return header if isinstance(header, str) else header.decode("utf-8", errors="replace")


def _timeout(seconds: float) -> str:
    # At most eight digits; days of milliseconds fit, and beyond that seconds are exact enough.
    milliseconds = max(1, round(seconds * 1000))
    return f"{milliseconds}m" if milliseconds < 10**8 else f"{min(milliseconds // 1000, 10**8 - 1)}S"
