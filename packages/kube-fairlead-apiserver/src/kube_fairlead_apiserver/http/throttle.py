"""Throttles of one connection: when its bytes are read, and when the next piece of its response is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kube_fairlead_apiserver.http.messages import Request
from kube_fairlead_apiserver.http.scheduler import Scheduler

__all__ = ["ReadThrottle", "Throttle"]

# The cost of reading and decrypting beside the fixed cost of a step: estimated as a gigabyte per second.
_SECONDS_PER_BYTE = 1e-9


class Throttle:
    """Delays one activity of a connection until the scheduler gives its flow the next turn.

    1. After `is_open` returned False, ``go_on`` is called once.
    2. The time reserved for a turn is charged once: when it is used, or by the request that takes it over.
    """

    __slots__ = ("_flow", "_go_on", "_scheduler", "deferred", "known", "reserved")

    def __init__(self, scheduler: Scheduler | None, go_on: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._go_on = go_on
        self.reserved = 0.0  # seconds reserved for the current turn
        self.known: Any = None  # the flow of the user; None: not known, or need not wait
        self.deferred = False  # it waits for its turn
        self._flow: Any = None  # the flow of the current turn: `known` may change meanwhile

    def is_open(self) -> bool:
        """Return whether it is the flow's turn. If not, ``go_on`` is called when it is."""
        if self.known is None or self.reserved or self._scheduler is None:
            return True
        if not self.deferred:
            self._flow = self.known
            self.reserved = self._scheduler.take_turn(self._flow, self._take)
            self.deferred = not self.reserved
        return not self.deferred

    def use(self, seconds: float) -> None:
        """Charge the turn with this time, beside the fixed cost of a step."""
        if self.reserved and self._scheduler is not None:
            reserved, self.reserved = self.reserved, 0.0
            self._scheduler.ran(self._flow, seconds, reserved)

    def leave(self) -> None:
        """Give up the turn: the activity has ended."""
        if self.deferred and self._scheduler is not None:
            self._scheduler.withdraw(self._flow, self._take)
        self.use(0.0)
        self._go_on, self._scheduler, self.deferred = _nothing, None, False

    def _take(self, reserved: float) -> None:
        self.deferred = False
        self.reserved = reserved
        self._go_on()


class ReadThrottle(Throttle):
    """Delays the reading of a connection's received bytes.

    Received bytes are assumed to belong to the same user as the last request; the handler finds out whether they do.
    While the user's flow waits for its turn, they are kept unparsed, because parsing is work, too. The first bytes of a
    connection are read at once, and may be a whole request. If not, the rest is read in turns of the address's flow,
    until the handler identifies the user.
    """

    __slots__ = ("_address", "_request")

    def __init__(self, scheduler: Scheduler | None, go_on: Callable[[], None]) -> None:
        super().__init__(scheduler, go_on)
        self._address = ""
        self._request: Request | None = None  # that a handler works on

    def open(self, address: str) -> None:
        """Note the address of a new connection."""
        self._address = address

    def was_read(self, size: int) -> None:
        """Charge bytes that were read and begin no request."""
        self.use(size * _SECONDS_PER_BYTE)
        if self._request is not None:
            self.known = self._request.flow
        elif self._address and self._scheduler is not None:
            self.known = self._scheduler.unidentified(self._address)

    def enter(self, request: Request) -> None:
        """Pass the request to the handler, with the turn in which its head was read."""
        request.flow, request.reserved, self.reserved = (
            self._flow if self.reserved else self.known,
            self.reserved,
            0.0,
        )
        self._request = request
        self._address = ""

    def leave(self) -> None:
        """Give up the turn: the connection is closed."""
        super().leave()
        self._request = None  # it refers back to the connection

    def answered(self, request: Request) -> None:
        """Note the flow of the request: the handler has returned its response."""
        self._request = None
        self.known = request.flow


def _nothing() -> None:
    return None
