"""The state that all connections of a server share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from kube_fairlead.base import logs
from kube_fairlead.base.tasks import TaskSet
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.http.response_writer import UnreadBytes, chosen_to_cut
from kube_fairlead_apiserver.http.scheduler import Scheduler
from kube_fairlead_apiserver.http.unidentified import UnidentifiedConnection, UnidentifiedConnections

__all__ = ["Handler", "ManagedConnection", "SharedState"]

Handler = Callable[[Request], Awaitable[Response]]

_CUT_AT_ONCE = 50
_UNCHECKED_BYTES = 16 << 20
_log = logs.get_logger(__name__)


class ManagedConnection(Protocol):
    """A connection, as the server uses it."""

    @property
    def held(self) -> UnreadBytes | None:
        """The bytes held for a client that does not read, and since when; None for one that reads."""
        ...

    def cut_overdue(self) -> bool:
        """Close the connection if the client takes too long."""
        ...

    def shut_down(self) -> None:
        """Close now when no request is in progress, else after its response."""
        ...

    def abort(self) -> None:
        """Abort the connection."""
        ...


def _log_failure(failure: BaseException) -> None:
    _log.error("connection failed while sending a response", error=repr(failure))


class SharedState:
    """The state that all connections of a server share."""

    def __init__(self, handler: Handler, scheduler: Scheduler | None = None) -> None:
        self.handler = handler
        self.scheduler = scheduler  # None: no fair scheduling
        self.tasks = TaskSet("http", on_failure=_log_failure)
        self.connections: set[ManagedConnection] = set()
        self.arriving = UnidentifiedConnections()
        self.unidentified: dict[ManagedConnection, UnidentifiedConnection] = {}  # the user is not known yet
        self.empty = asyncio.Event()
        self.empty.set()
        self.stopping = False
        self.now = 0.0  # updated once a second, which is enough for timeouts
        self.date = b""
        self._unchecked_bytes = 0  # held since the last check of the limit

    def forget(self, connection: ManagedConnection) -> None:
        """Remove a closed connection whose requests have ended."""
        self.connections.discard(connection)
        self.known(connection)
        if not self.connections:
            self.empty.set()

    def known(self, connection: ManagedConnection) -> None:
        """Note that the user of a connection is identified, or the connection is closed."""
        unidentified = self.unidentified.pop(connection, None)
        if unidentified is not None:
            self.arriving.leave(unidentified, self.now)

    def cut_overdue(self) -> None:
        """Close connections that take too long, a limited number at a time: other requests wait meanwhile."""
        cut = 0
        for connection in list(self.connections):
            cut += connection.cut_overdue()
            if cut >= _CUT_AT_ONCE:
                return
        self._cut_unread()

    def held_more(self, size: int) -> None:
        """Count bytes held for a client that does not read. Many of them trigger a check before the next second."""
        self._unchecked_bytes += size
        if self._unchecked_bytes > _UNCHECKED_BYTES:
            self._unchecked_bytes = 0
            asyncio.get_running_loop().call_soon(self._cut_unread)

    def _cut_unread(self) -> None:
        """Abort the connections that have not read for the longest time, while too much is held in total."""
        self._unchecked_bytes = 0
        held = {connection: found for connection in self.connections if (found := connection.held) is not None}
        for connection in chosen_to_cut(held):
            connection.abort()
