"""The interface to the fair scheduler of the event loop, as the HTTP server uses it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

__all__ = ["Scheduler"]


class Scheduler(Protocol):
    """Decides when the flow of a user, or of the connections of an address, has its turn on the event loop."""

    def take_turn(self, flow: Any, step: Callable[[float], None]) -> float:
        """Return the seconds reserved if it is the flow's turn; else 0, and ``step`` is called at its turn."""
        ...

    def withdraw(self, flow: Any, step: Callable[[float], None]) -> None:
        """Cancel the call of ``step``: the connection is closed."""
        ...

    def ran(self, flow: Any, seconds: float, reserved: float) -> None:
        """Charge a turn that was used for something other than a request."""
        ...

    def run_in_turn(self, flow: Any, work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        """Run a part of a response, each of its steps in its turn."""
        ...

    def keep_present(self, flow: Any) -> None:
        """Count the user as present: a response is still being sent."""
        ...

    def unidentified(self, address: str) -> Any:
        """Return the flow of an address's unidentified connections; None: they need not wait."""
        ...

    def now(self) -> float:
        """Read the clock that measures steps, in seconds."""
        ...

    async def begin_handshake(self, address: str) -> None:
        """Return when it is an address's turn to begin a TLS handshake."""
        ...
