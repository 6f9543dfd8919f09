"""What all connections of a server share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from kube_fairlead.base import logs
from kube_fairlead.base.tasks import TaskSet
from kube_fairlead_apiserver.http.messages import Request, Response
from kube_fairlead_apiserver.http.pace import Pace
from kube_fairlead_apiserver.http.response_writer import Held, chosen_to_cut
from kube_fairlead_apiserver.http.unidentified import UnidentifiedConnection, UnidentifiedConnections

__all__ = ["Handler", "ManagedConnection", "SharedState"]

Handler = Callable[[Request], Awaitable[Response]]

_CUT_AT_ONCE = 50
_UNCHECKED_BYTES = 16 << 20
_log = logs.get_logger(__name__)


class ManagedConnection(Protocol):
    """A connection, as far as the server needs to know it."""

    @property
    def held(self) -> Held | None:
        """What is held for a client that does not read, and since when; None for one that does."""
        ...

    def cut_overdue(self) -> bool:
        """Hang up if the client takes too long."""
        ...

    def shut_down(self) -> None:
        """Close now when nothing is being answered, else after the answer."""
        ...

    def abort(self) -> None:
        """Hang up without a word."""
        ...


def _log_failure(failure: BaseException) -> None:
    _log.error("connection failed while sending a response", error=repr(failure))


class SharedState:
    """What all connections of a server share."""

    def __init__(self, handler: Handler, pace: Pace | None = None) -> None:
        self.handler = handler
        self.pace = pace  # None: everything has its turn at once
        self.tasks = TaskSet("http", on_failure=_log_failure)
        self.connections: set[ManagedConnection] = set()
        self.arriving = UnidentifiedConnections()
        self.unidentified: dict[ManagedConnection, UnidentifiedConnection] = {}  # the user is not known yet
        self.empty = asyncio.Event()
        self.empty.set()
        self.stopping = False
        self.now = 0.0  # to the second: enough to end what takes too long
        self.date = b""
        self._unchecked_bytes = 0  # held since it was last looked whether that is too much

    def forget(self, connection: ManagedConnection) -> None:
        """A connection is gone, and what it asked for has ended."""
        self.connections.discard(connection)
        self.known(connection)
        if not self.connections:
            self.empty.set()

    def known(self, connection: ManagedConnection) -> None:
        """The user of a connection is known, or the connection is gone."""
        unidentified = self.unidentified.pop(connection, None)
        if unidentified is not None:
            self.arriving.leave(unidentified, self.now)

    def cut_overdue(self) -> None:
        """Hang up on those who take too long, not on too many at a time: the others wait meanwhile."""
        cut = 0
        for connection in list(self.connections):
            cut += connection.cut_overdue()
            if cut >= _CUT_AT_ONCE:
                return
        self._cut_unread()

    def held_more(self, size: int) -> None:
        """So many bytes more are held for a client that does not read. Much of that is not left for the next second."""
        self._unchecked_bytes += size
        if self._unchecked_bytes > _UNCHECKED_BYTES:
            self._unchecked_bytes = 0
            asyncio.get_running_loop().call_soon(self._cut_unread)

    def _cut_unread(self) -> None:
        """Hang up on those who have not read for the longest time, while too much is held for all of them."""
        self._unchecked_bytes = 0
        held = {connection: found for connection in self.connections if (found := connection.held) is not None}
        for connection in chosen_to_cut(held):
            connection.abort()
