"""Serving methods on a socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

from kube_fairlead.base import logs, tasks
from kube_fairlead.base.clock import Clock, RealClock
from kube_fairlead.base.rpc.calls import Budget, Limits, Methods
from kube_fairlead.base.rpc.connection import Connection
from kube_fairlead.base.rpc.unixsocket import BoundSocket
from kube_fairlead.base.rpc.wire import Wire

__all__ = ["serving", "serving_path"]

_log = logs.get_logger(__name__)


@contextlib.asynccontextmanager
async def serving(
    listening: socket.socket, methods: Methods, *, limits: Limits | None = None, clock: Clock | None = None
) -> AsyncIterator[None]:
    """Serve on a socket that listens, for as long as the block lasts.

    At its end no connection is accepted any more. Calls under way are cancelled and end with UNAVAILABLE, each
    connection with a GOAWAY, and every handler has ended when this returns.
    """
    server = _Server(methods, limits or Limits(), clock or RealClock())
    accepting = await asyncio.start_server(server.accept, sock=listening)
    try:
        yield
    finally:
        accepting.close()
        await server.close()
        await accepting.wait_closed()


@contextlib.asynccontextmanager
async def serving_path(
    path: Path, methods: Methods, *, limits: Limits | None = None, clock: Clock | None = None
) -> AsyncIterator[None]:
    """Serve on a unix socket that only its owner may use; at the end of the block its name goes first.

    Raises:
        unixsocket.SocketTaken: another process serves there.
    """
    bound = BoundSocket(path)
    try:
        async with serving(bound.socket, methods, limits=limits, clock=clock):
            try:
                yield
            finally:
                bound.remove()
    finally:
        bound.remove()
        bound.socket.close()


class _Server:
    """The connections of one socket."""

    def __init__(self, methods: Methods, limits: Limits, clock: Clock) -> None:
        self._methods = methods
        self._limits = limits
        self._clock = clock
        self._budget = Budget(limits.pending_bytes_max)
        self._connections = tasks.TaskSet("rpc/server", on_failure=_failed)
        self._open: dict[asyncio.Task[None], Connection] = {}  # those that are not being ended
        self._closed = False

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A client has connected."""
        if self._closed or not self._make_room():
            writer.transport.abort()
            return
        wire = Wire(reader, writer, client_side=False)
        connection = Connection(wire, self._methods, self._limits, self._budget, self._clock)
        task = self._connections.start(connection.run(), name="connection")
        self._open[task] = connection
        task.add_done_callback(lambda task: self._open.pop(task, None))

    def _make_room(self) -> bool:
        """Whether one more connection may be opened. If there are too many, the one that is idle for longest is ended.

        Otherwise a process that opens connections and calls nothing would keep every other client away.
        """
        if len(self._open) < self._limits.connections_max:
            return True
        idle = [(one.idle_since, task) for task, one in self._open.items() if one.idle_since is not None]
        if not idle:
            _log.warning("connection refused: too many", connections=len(self._open))
            return False
        longest = min(idle, key=lambda pair: pair[0])[1]
        del self._open[longest]
        longest.cancel()
        return True

    async def close(self) -> None:
        """End every connection, and wait until its handlers have ended."""
        self._closed = True
        await self._connections.close()


def _failed(failure: BaseException) -> None:
    """A connection that fails by a mistake of ours ends alone."""
    _log.error("a connection failed", error=repr(failure))
