"""What the server asks of the part that shares out the time of its event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

__all__ = ["Pace"]


class Pace(Protocol):
    """Says when the requests of a user, and the connections of an address, have their turn."""

    def take_turn_of(self, lane: Any, step: Callable[[float], None]) -> float:
        """What is set aside if it is the turn of a connection's user; else 0, and ``step`` is called when it is."""
        ...

    def withdraw(self, lane: Any, step: Callable[[float], None]) -> None:
        """Do not call it any more: the connection is gone."""
        ...

    def ran(self, lane: Any, seconds: float, set_aside: float) -> None:
        """A turn was used for something that took so long and was no request."""
        ...

    def run_in_turns(self, lane: Any, work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        """Run a part of an answer that is being sent, each step of it in its turn."""
        ...

    def still_there(self, lane: Any) -> None:
        """An answer is still being sent: its user counts as present."""
        ...

    def unidentified(self, address: str) -> Any:
        """The lane of an address's connections of whose users nothing is known yet; None: they need not wait."""
        ...

    def now(self) -> float:
        """The time by which steps are measured, in seconds."""
        ...

    async def begin_handshake(self, address: str) -> None:
        """Return when it is an address's turn to begin a TLS handshake."""
        ...
