"""A connection on a transport of memory, which checks its invariants after every event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kube_fairlead.base.tasks import TaskSet
from kube_fairlead_apiserver.http.connection import Connection
from kube_fairlead_apiserver.http.connection_state import AHEAD_BYTES
from kube_fairlead_apiserver.http.shared_state import Handler, SharedState

__all__ = ["READ_BYTES", "converse"]

READ_BYTES = 256 * 1024  # what uvloop and asyncio hand over at most


class Checked(Connection):
    """It checks its invariants after every event."""

    def _follow(self) -> None:
        super()._follow()
        self.check()

    def check(self) -> None:
        self._state.check()
        if not self._transport.is_closing():
            # What follows from the state has been carried out.
            assert (self._reading, self._wait) == self._state.outlook()
        assert len(self._unparsed) < AHEAD_BYTES + READ_BYTES


class Wire(asyncio.Transport):
    """Keeps what the server writes, and hands it bytes only while it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True
        self.closed = False
        self.sent = bytearray()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True


async def turns() -> None:
    for _ in range(12):  # more than any step of the connection or of `handle` takes
        await asyncio.sleep(0)


async def converse(handle: Handler, stream: bytes, pieces: Callable[[], int]) -> tuple[Wire, int]:
    """Send all of it, as far as the server reads; how much of it was not taken."""
    shared = SharedState(handle)
    failures: list[BaseException] = []
    shared.tasks = TaskSet("http", on_failure=failures.append)
    shared.date = b"date: today\r\n\r\n"
    wire = Wire()
    connection = Checked(shared)
    connection.connection_made(wire)
    start = 0
    stuck = 0
    while start < len(stream) and not wire.closed and stuck < 8:
        if not wire.reading:
            stuck += 1
            await turns()
            continue
        stuck = 0
        size = pieces()
        if size == 0:
            await turns()
            continue
        connection.data_received(stream[start : start + size])
        start += size
        connection.check()
    for _ in range(8):  # as many requests as there can be, and two more
        await turns()
        connection.check()
    connection.connection_lost(None)
    await shared.tasks.close()
    assert not failures
    return wire, max(0, len(stream) - start)
