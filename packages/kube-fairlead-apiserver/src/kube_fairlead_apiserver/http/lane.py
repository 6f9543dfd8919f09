"""The turns of one connection: when its bytes are read, and when the next piece of its response is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kube_fairlead_apiserver.http.messages import Request
from kube_fairlead_apiserver.http.pace import Pace

__all__ = ["Lane", "Turn"]

# The cost of reading and decrypting beside the fixed cost of a step: estimated as a gigabyte per second.
_SECONDS_PER_BYTE = 1e-9


class Turn:
    """One activity of a connection, in the turns of its user.

    1. After `is_open` returned False, ``go_on`` is called once.
    2. The time set aside for a turn is charged once: when it is used, or by the request that takes it over.
    """

    __slots__ = ("_go_on", "_lane", "_pace", "deferred", "known", "set_aside")

    def __init__(self, pace: Pace | None, go_on: Callable[[], None]) -> None:
        self._pace = pace
        self._go_on = go_on
        self.set_aside = 0.0  # the time set aside for the current turn
        self.known: Any = None  # the handler's key of the user; None: not known, or need not wait
        self.deferred = False  # it waits for its turn
        self._lane: Any = None  # the lane of the current turn: `known` may change meanwhile

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
        """Charge the turn with this time, beside the fixed cost of a step."""
        if self.set_aside and self._pace is not None:
            set_aside, self.set_aside = self.set_aside, 0.0
            self._pace.ran(self._lane, seconds, set_aside)

    def leave(self) -> None:
        """Give up the turn: the activity has ended."""
        if self.deferred and self._pace is not None:
            self._pace.withdraw(self._lane, self._take)
        self.use(0.0)
        self._go_on, self._pace, self.deferred = _nothing, None, False

    def _take(self, set_aside: float) -> None:
        self.deferred = False
        self.set_aside = set_aside
        self._go_on()


class Lane(Turn):
    """The lane of one connection: when its received bytes are read.

    Received bytes are assumed to belong to the same user as the last request; the handler finds out whether they do.
    While that user waits for its turn, they are kept unparsed, because parsing is work, too. The first bytes of a
    connection are read at once, and may be a whole request. If not, the rest is read in turns of the client's address,
    until the handler identifies the user.
    """

    __slots__ = ("_address", "_request")

    def __init__(self, pace: Pace | None, go_on: Callable[[], None]) -> None:
        super().__init__(pace, go_on)
        self._address = ""
        self._request: Request | None = None  # that a handler works on

    def open(self, address: str) -> None:
        """The connection begins."""
        self._address = address

    def was_read(self, size: int) -> None:
        """Bytes were read that begin no request."""
        self.use(size * _SECONDS_PER_BYTE)
        if self._request is not None:
            self.known = self._request.lane
        elif self._address and self._pace is not None:
            self.known = self._pace.unidentified(self._address)

    def enter(self, request: Request) -> None:
        """Pass the request to the handler, with the turn in which its head was read."""
        request.lane, request.set_aside, self.set_aside = (
            self._lane if self.set_aside else self.known,
            self.set_aside,
            0.0,
        )
        self._request = request
        self._address = ""

    def leave(self) -> None:
        """The connection is closed."""
        super().leave()
        self._request = None  # it refers back to the connection

    def answered(self, request: Request) -> None:
        """The handler has returned its response."""
        self._request = None
        self.known = request.lane


def _nothing() -> None:
    return None
