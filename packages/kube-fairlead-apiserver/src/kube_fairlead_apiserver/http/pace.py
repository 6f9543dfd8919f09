"""The interface to the fair scheduler of the event loop, as the HTTP server uses it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

__all__ = ["Pace"]


class Pace(Protocol):
    """Decides when the requests of a user, and the connections of an address, have their turn."""

    def take_turn_of(self, lane: Any, step: Callable[[float], None]) -> float:
        """The time set aside if it is the turn of a connection's user; else 0, and ``step`` is called at its turn."""
        ...

    def withdraw(self, lane: Any, step: Callable[[float], None]) -> None:
        """Cancel the call of ``step``: the connection is closed."""
        ...

    def ran(self, lane: Any, seconds: float, set_aside: float) -> None:
        """Charge a turn that was used for something other than a request."""
        ...

    def run_in_turns(self, lane: Any, work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        """Run a part of a response, each of its steps in its turn."""
        ...

    def still_there(self, lane: Any) -> None:
        """A response is still being sent: its user counts as present."""
        ...

    def unidentified(self, address: str) -> Any:
        """The lane of an address's unidentified connections; None: they need not wait."""
        ...

    def now(self) -> float:
        """The clock that measures steps, in seconds."""
        ...

    async def begin_handshake(self, address: str) -> None:
        """Return when it is an address's turn to begin a TLS handshake."""
        ...
