"""What is sent to a client whose connection breaks in the middle of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kube_fairlead_apiserver.http.response_writer import ResponseWriter
from kube_fairlead_apiserver.http.streams import PIECE_BYTES, Stream


class Breaking:
    """A transport that fails with the first write, as one does whose client has reset the connection."""

    def __init__(self) -> None:
        self.writes = 0

    def write(self, _data: object) -> None:
        self.writes += 1

    def is_closing(self) -> bool:
        return self.writes > 0

    def get_write_buffer_size(self) -> int:
        return 0


class Endless(Stream):
    over = False

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def next_piece(self) -> bytes | None:
        self.asked += 1
        return b"x" if self.asked < 100 else None

    def listen(self, listener: Callable[[], None] | None) -> None:
        del listener

    def _release(self) -> None:
        self.asked = 0


async def test_a_large_answer() -> None:
    transport = Breaking()
    await ResponseWriter(transport, lambda: None).send(b"head", b"x" * PIECE_BYTES * 20)
    assert transport.writes == 1, "each piece more is a warning in the log: SSL connection is closed"


async def test_a_stream() -> None:
    transport, source = Breaking(), Endless()
    writer = ResponseWriter(transport, lambda: None)
    writer._source, writer._chunked = source, True
    writer._done = asyncio.get_running_loop().create_future()
    writer._fill()
    assert (transport.writes, source.asked) == (1, 1)
