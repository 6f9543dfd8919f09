"""When a connection's next request is read: at once, or in its user's turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.apiserver.http.messages import Request
from fairlead.apiserver.http.site import Pace

__all__ = ["Lane"]


class Lane:
    """The place of one connection among those of its user.

    The next request is taken for one of the same user as the last; the handler finds out whether it is. While that
    user waits for its turn, the first bytes of a request are kept as they came: parsing them is work, too.
    """

    __slots__ = ("_go_on", "_pace", "_set_aside", "deferred", "known")

    def __init__(self, pace: Pace | None, go_on: Callable[[], None]) -> None:
        self._pace = pace
        self._go_on = go_on
        self._set_aside = 0.0  # for the next request, which has had its turn
        self.known: Any = None  # the handler's name for it; None: no request was answered, or its user need not wait
        self.deferred = False  # what has come waits for its turn

    def is_open(self) -> bool:
        """Whether a request that begins is read now. Else ``go_on`` is called when it is its turn."""
        if self.known is None or self._set_aside or self._pace is None:
            return True
        if not self.deferred:
            self._set_aside = self._pace.take_turn_of(self.known, self._take_turn)
            self.deferred = not self._set_aside
        return not self.deferred

    def enter(self, request: Request) -> None:
        """The request goes to the handler."""
        request.lane, request.set_aside, self._set_aside = self.known, self._set_aside, 0.0

    def leave(self) -> None:
        """The connection is gone."""
        if self.deferred and self._pace is not None:
            self._pace.withdraw(self.known, self._take_turn)
        self._go_on, self._pace, self.deferred = _nothing, None, False

    def _take_turn(self, set_aside: float) -> None:
        self.deferred = False
        self._set_aside = set_aside
        self._go_on()


def _nothing() -> None:
    return None
