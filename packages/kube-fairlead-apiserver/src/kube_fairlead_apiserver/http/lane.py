"""The turns of one connection: when what it sends is read, and when the next piece of its answer is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kube_fairlead_apiserver.http.messages import Request
from kube_fairlead_apiserver.http.pace import Pace

__all__ = ["Lane", "Turn"]

# What reading and decrypting cost beside the fixed cost of a step: an estimate, a gigabyte in a second.
_SECONDS_PER_BYTE = 1e-9


class Turn:
    """One thing that a connection does in turns of its user.

    1. While `is_open` says no, ``go_on`` is yet to be called, once.
    2. What is set aside for a turn is charged once: when it is used, or by the request that takes it over.
    """

    __slots__ = ("_go_on", "_lane", "_pace", "deferred", "known", "set_aside")

    def __init__(self, pace: Pace | None, go_on: Callable[[], None]) -> None:
        self._pace = pace
        self._go_on = go_on
        self.set_aside = 0.0  # for what is done next, whose turn has come
        self.known: Any = None  # the handler's name for the user; None: it is not known, or need not wait
        self.deferred = False  # it waits for its turn
        self._lane: Any = None  # in which it waits, or has its turn: what is known may change meanwhile

    def is_open(self) -> bool:
        """Whether it is the user's turn. Else ``go_on`` is called when it is."""
        if self.known is None or self.set_aside or self._pace is None:
            return True
        if not self.deferred:
            self._lane = self.known
            self.set_aside = self._pace.take_turn_of(self._lane, self._take)
            self.deferred = not self.set_aside
        return not self.deferred

    def use(self, seconds: float) -> None:
        """The turn is used for what took so long, beside the fixed cost of a step."""
        if self.set_aside and self._pace is not None:
            set_aside, self.set_aside = self.set_aside, 0.0
            self._pace.ran(self._lane, seconds, set_aside)

    def leave(self) -> None:
        """There is nothing to be done any more."""
        if self.deferred and self._pace is not None:
            self._pace.withdraw(self._lane, self._take)
        self.use(0.0)
        self._go_on, self._pace, self.deferred = _nothing, None, False

    def _take(self, set_aside: float) -> None:
        self.deferred = False
        self.set_aside = set_aside
        self._go_on()


class Lane(Turn):
    """The place of one connection among those of its user: when what it has sent is read.

    What comes is taken for a part of a request of the same user as the last one; the handler finds out whether it is.
    While that user waits for its turn, it is kept as it came: parsing it is work, too. The first bytes of a connection
    are read at once, and may be a whole request. If they are not, the rest is read in turns of the client's address,
    until the handler says whose request it is.
    """

    __slots__ = ("_address", "_request")

    def __init__(self, pace: Pace | None, go_on: Callable[[], None]) -> None:
        super().__init__(pace, go_on)
        self._address = ""
        self._request: Request | None = None  # which a handler has

    def open(self, address: str) -> None:
        """The connection begins."""
        self._address = address

    def was_read(self, size: int) -> None:
        """So many bytes were read, with which no request begins."""
        self.use(size * _SECONDS_PER_BYTE)
        if self._request is not None:
            self.known = self._request.lane
        elif self._address and self._pace is not None:
            self.known = self._pace.unidentified(self._address)

    def enter(self, request: Request) -> None:
        """The request goes to the handler, with the turn in which its head was read."""
        request.lane, request.set_aside, self.set_aside = (
            self._lane if self.set_aside else self.known,
            self.set_aside,
            0.0,
        )
        self._request = request
        self._address = ""

    def leave(self) -> None:
        """The connection is gone."""
        super().leave()
        self._request = None  # it leads back to the connection

    def answered(self, request: Request) -> None:
        """The handler has answered it."""
        self._request = None
        self.known = request.lane


def _nothing() -> None:
    return None
