"""Which connection may begin: connections whose user is not known yet are bounded, and shared between addresses.

A connection is unidentified from the start of its TLS handshake until it carries a request with valid credentials. Its
cost cannot be charged to a user. So unidentified connections are bounded, in total and by address. More of them wait,
unread, without a time limit. Pure: no clock, no socket.
"""

from __future__ import annotations

import collections
from collections.abc import Callable

from kube_fairlead_apiserver.user_limits import SharedLimit

__all__ = ["PATIENCE_SECONDS", "UNIDENTIFIED", "WAITING", "UnidentifiedConnection", "UnidentifiedConnections"]

# A single address gets at most half of them.
UNIDENTIFIED = 2048
# Connections that may wait. Above this, the newest connection of the address with the most of them is closed.
WAITING = 4096
# A connection that is unidentified for longer than this makes room for one that waits.
PATIENCE_SECONDS = 5.0


class UnidentifiedConnection:
    """One connection. `begin` is called when it may begin, `cut` when it must make room; a busy one may ignore it."""

    __slots__ = ("address", "begin", "cut", "since")

    def __init__(self, address: str, *, begin: Callable[[], None], cut: Callable[[], None]) -> None:
        self.address = address
        self.begin = begin
        self.cut = cut
        self.since = 0.0


_Queue = collections.OrderedDict[UnidentifiedConnection, None]


class UnidentifiedConnections:
    """The unidentified connections that have begun, and those that wait to begin.

    Invariants:
    1. At most `limit` have begun, and one address leaves room for others (`SharedLimit`).
    2. Those of one address begin in the order in which they came; addresses take turns.
    3. No connection waits that could begin.
    4. At most `most_waiting` wait; the address with the most waiting connections loses one first.
    """

    def __init__(self, limit: int = UNIDENTIFIED, most_waiting: int = WAITING) -> None:
        self._ledger = SharedLimit(limit)
        self._most_waiting = most_waiting
        self.present: dict[UnidentifiedConnection, None] = {}  # oldest first
        self._waiting: collections.OrderedDict[str, _Queue] = collections.OrderedDict()  # by address
        self.waiting = 0

    def arrive(self, connection: UnidentifiedConnection, now: float) -> None:
        """Accept a connection: it begins now, or later."""
        if connection.address not in self._waiting and self._ledger.fits(connection.address, 1):
            self._begin(connection, now)
            return
        self._waiting.setdefault(connection.address, collections.OrderedDict())[connection] = None
        self.waiting += 1
        if self.waiting > self._most_waiting:
            longest = max(self._waiting.values(), key=len)
            newest = next(reversed(longest))
            self._drop(newest)
            newest.cut()

    def leave(self, connection: UnidentifiedConnection, now: float) -> None:
        """Remove a connection: its user is identified, or it is closed. May be called again."""
        if connection in self.present:
            del self.present[connection]
            self._ledger.give(connection.address, 1)
            self._admit(now)
        elif connection in self._waiting.get(connection.address, ()):
            self._drop(connection)

    def make_room(self, now: float) -> None:
        """Cut connections that are unidentified for too long, one for each that waits."""
        wanted = self.waiting
        addresses = set(self._waiting)
        for connection in list(self.present):
            if not wanted or connection.since > now - PATIENCE_SECONDS:
                return
            # A connection of an address below its share does not make room for others.
            if connection.address in addresses or not self._ledger.fits(connection.address, 1):
                wanted -= 1
                connection.cut()

    def _admit(self, now: float) -> None:
        for address in list(self._waiting):
            if self._ledger.fits(address, 1):
                connection = next(iter(self._waiting[address]))
                self._drop(connection)
                if address in self._waiting:
                    self._waiting.move_to_end(address)
                self._begin(connection, now)
                return  # one has left, so one may begin

    def _begin(self, connection: UnidentifiedConnection, now: float) -> None:
        self._ledger.take(connection.address, 1)
        connection.since = now
        self.present[connection] = None
        connection.begin()

    def _drop(self, connection: UnidentifiedConnection) -> None:
        line = self._waiting[connection.address]
        del line[connection]
        self.waiting -= 1
        if not line:
            del self._waiting[connection.address]
