"""One HTTP/2 connection, read frame by frame, for a client and for a server.

The `h2` library keeps the state of the protocol; it reads nothing and has no limit on what a peer makes it hold, so
the limits are here: a frame is read only when its length is allowed, and its answers are flushed before the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from kube_fairlead.base.rpc.errors import ProtocolError, Unreachable

__all__ = ["Headers", "Wire", "decode_headers"]

_FRAME_HEADER_BYTES: Final = 9
# What HTTP/2 allows a peer that was given no other limit. The library would look only when it has the whole frame.
_FRAME_BYTES_MAX: Final = 16 << 10
# Of one header block, over all its frames. The library would hold 1 MiB of one that never ends. Once a block is whole,
# the library allows as many bytes of headers.
_HEADER_BLOCK_BYTES_MAX: Final = 64 << 10
_HEADERS: Final = 1
_SETTINGS: Final = 4
_GOAWAY: Final = 7
_CONTINUATION: Final = 9
_END_HEADERS: Final = 4
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

Headers = Iterable[tuple[str | bytes, str | bytes]]


class Wire:
    """The frames of a connection, in and out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, client_side: bool) -> None:
        self._reader = reader
        self._writer = writer
        self._client_side = client_side
        # Headers stay bytes: a library that decoded them would fail where a peer sends what is no UTF-8.
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=client_side, header_encoding=None))
        self._expects_settings = True
        self._goaway_sent = False
        self._frame = b""  # the head of the frame that is being read
        self._block_bytes = 0
        self.in_header_block = False  # the next frame must go on with it

    def open(self) -> None:
        """Begin as a client: the preface and the settings."""
        self.h2.initiate_connection()

    async def accept(self, *, streams_max: int) -> None:
        """Begin as a server: the settings, and the client's preface.

        A client may open streams before it has read how many it may. The library would end the connection then; with
        one more in its own count, the server itself refuses each such stream.
        """
        limit = h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS
        self._allow(limit, streams_max)
        self.h2.initiate_connection()
        self._allow(limit, streams_max + 1)
        await self.flush()
        try:
            preface = await self._reader.readexactly(len(_PREFACE))
        except asyncio.IncompleteReadError as error:
            raise Unreachable("the connection was closed before it began") from error
        if preface != _PREFACE:
            raise self._broken("the peer does not speak HTTP/2")
        self.h2.receive_data(preface)

    def _allow(self, limit: h2.settings.SettingCodes, count: int) -> None:
        self.h2.local_settings[limit] = count
        self.h2.local_settings.acknowledge()

    async def receive(self) -> list[h2.events.Event]:
        """Take in one frame, and no more than a frame may hold; what it means.

        Raises:
            ProtocolError: it is no frame, or has no place here.
            Unreachable: the connection was closed.
            OSError: it broke.
        """
        await self.begin_frame()
        return await self.finish_frame()

    async def begin_frame(self) -> None:
        """Wait for the head of a frame. Raises as `receive`."""
        self._frame = await self._read(_FRAME_HEADER_BYTES)
        length, kind = _head_of(self._frame)
        if length > _FRAME_BYTES_MAX or (self._expects_settings and kind != _SETTINGS):
            raise self._broken("the peer does not speak HTTP/2")
        self._expects_settings = False
        self._count_headers(length, kind, flags=self._frame[4])

    async def finish_frame(self) -> list[h2.events.Event]:
        """Wait for the rest of the frame; what it means. Raises as `receive`."""
        length, kind = _head_of(self._frame)
        frame = self._frame + await self._read(length)
        if kind == _GOAWAY and not self._client_side:
            # The client opens no further streams, and still reads its answers. The library would send none any more.
            return []
        try:
            return self.h2.receive_data(frame)
        except h2.exceptions.H2Error as error:
            self._goaway_sent = True  # by the library
            raise ProtocolError(f"the peer breaks HTTP/2: {error!r}") from error

    async def _read(self, length: int) -> bytes:
        try:
            return await self._reader.readexactly(length)
        except asyncio.IncompleteReadError as error:
            raise Unreachable("the connection was closed in the middle of a call") from error

    def _count_headers(self, length: int, kind: int, *, flags: int) -> None:
        if kind not in {_HEADERS, _CONTINUATION}:
            return
        self._block_bytes = length if kind == _HEADERS else self._block_bytes + length
        if self._block_bytes > _HEADER_BLOCK_BYTES_MAX:
            text = f"the peer sends a header block of more than {_HEADER_BLOCK_BYTES_MAX} bytes"
            raise self._broken(text, h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
        self.in_header_block = not flags & _END_HEADERS

    async def flush(self) -> None:
        """Write what is to be sent, as fast as the peer reads it."""
        self.write()
        await self._writer.drain()

    def write(self) -> None:
        """Write what is to be sent, without waiting. Nothing is written to a peer that has hung up."""
        data = self.h2.data_to_send()
        if data and not self._writer.transport.is_closing():
            self._writer.write(data)

    def room(self, stream: int) -> int:
        """How many bytes of a stream may be sent in the next frame; nothing, until the peer has read more."""
        return min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)

    def hang_up(self, *, reset: int = 0) -> None:
        """End the connection with a GOAWAY. What can be written at once is; nothing is waited for.

        Args:
            reset: a stream that is cancelled first.
        """
        with contextlib.suppress(h2.exceptions.H2Error):
            if reset:
                self.h2.reset_stream(reset, h2.errors.ErrorCodes.CANCEL)
            if not self._goaway_sent:
                self.h2.close_connection()
        with contextlib.suppress(OSError):
            self.write()
        self._writer.transport.abort()

    def _broken(self, text: str, code: h2.errors.ErrorCodes = h2.errors.ErrorCodes.PROTOCOL_ERROR) -> ProtocolError:
        with contextlib.suppress(h2.exceptions.H2Error):
            self.h2.close_connection(code)
        self._goaway_sent = True
        return ProtocolError(text)


def _head_of(frame: bytes) -> tuple[int, int]:
    """Length and kind."""
    return int.from_bytes(frame[:3], "big"), frame[3]


def decode_headers(headers: Headers) -> dict[str, str]:
    """Headers as text, whatever their bytes."""
    return {_text(key): _text(value) for key, value in headers}


def _text(header: str | bytes) -> str:
    return header if isinstance(header, str) else header.decode("utf-8", errors="replace")
