"""Which connection may begin: those of whose users nothing is known yet are few, and shared out between addresses.

A connection is a newcomer from the start of its TLS handshake until it carries a request with valid credentials. What
one costs cannot be charged to a user. So newcomers are bounded, in all and by address; more of them wait, unread, for
as long as it takes. Pure: no clock, no socket.
"""

from __future__ import annotations

import collections
from collections.abc import Callable

from kube_fairlead_apiserver.shares import Ledger

__all__ = ["NEWCOMERS", "PATIENCE_SECONDS", "WAITING", "Newcomer", "Newcomers"]

# One address alone gets half of them.
NEWCOMERS = 2048
# So many may wait. When there are more, the newest of the address that has most of them goes.
WAITING = 4096
# A newcomer that has stayed one for so long makes room for another one that waits.
PATIENCE_SECONDS = 5.0


class Newcomer:
    """One connection. `begin` is called when it may begin, `cut` when it must make room; it need not, if it is busy."""

    __slots__ = ("address", "begin", "cut", "since")

    def __init__(self, address: str, *, begin: Callable[[], None], cut: Callable[[], None]) -> None:
        self.address = address
        self.begin = begin
        self.cut = cut
        self.since = 0.0


class Newcomers:
    """The newcomers, and those who wait to become one.

    Invariants:
    1. No more are there than `limit`, and one address leaves room for others (`Ledger`).
    2. Those of one address begin in the order in which they came; addresses take turns.
    3. None waits that could begin.
    4. No more wait than `most_waiting`: an address that has fewer of them than another one loses none.
    """

    def __init__(self, limit: int = NEWCOMERS, most_waiting: int = WAITING) -> None:
        self._ledger = Ledger(limit)
        self._most_waiting = most_waiting
        self.present: dict[Newcomer, None] = {}  # oldest first
        self._waiting: collections.OrderedDict[str, collections.OrderedDict[Newcomer, None]] = collections.OrderedDict()
        self.waiting = 0

    def arrive(self, newcomer: Newcomer, now: float) -> None:
        """A connection is there: it begins now, or later."""
        if newcomer.address not in self._waiting and self._ledger.fits(newcomer.address, 1):
            self._begin(newcomer, now)
            return
        self._waiting.setdefault(newcomer.address, collections.OrderedDict())[newcomer] = None
        self.waiting += 1
        if self.waiting > self._most_waiting:
            longest = max(self._waiting.values(), key=len)
            newest = next(reversed(longest))
            self._drop(newest)
            newest.cut()

    def leave(self, newcomer: Newcomer, now: float) -> None:
        """Its user is known, or it is gone. May be called again."""
        if newcomer in self.present:
            del self.present[newcomer]
            self._ledger.give(newcomer.address, 1)
            self._admit(now)
        elif newcomer in self._waiting.get(newcomer.address, ()):
            self._drop(newcomer)

    def make_room(self, now: float) -> None:
        """Cut off those who have been newcomers for too long, one for each that waits."""
        wanted = self.waiting
        addresses = set(self._waiting)
        for newcomer in list(self.present):
            if not wanted or newcomer.since > now - PATIENCE_SECONDS:
                return
            # One of an address that has less than its share does not make room for others.
            if newcomer.address in addresses or not self._ledger.fits(newcomer.address, 1):
                wanted -= 1
                newcomer.cut()

    def _admit(self, now: float) -> None:
        for address in list(self._waiting):
            if self._ledger.fits(address, 1):
                newcomer = next(iter(self._waiting[address]))
                self._drop(newcomer)
                if address in self._waiting:
                    self._waiting.move_to_end(address)
                self._begin(newcomer, now)
                return  # one has left, so one may begin

    def _begin(self, newcomer: Newcomer, now: float) -> None:
        self._ledger.take(newcomer.address, 1)
        newcomer.since = now
        self.present[newcomer] = None
        newcomer.begin()

    def _drop(self, newcomer: Newcomer) -> None:
        line = self._waiting[newcomer.address]
        del line[newcomer]
        self.waiting -= 1
        if not line:
            del self._waiting[newcomer.address]
