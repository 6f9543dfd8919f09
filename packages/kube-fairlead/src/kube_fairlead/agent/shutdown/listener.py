"""How the agent receives the announcement of a shutdown: one `ShutdownListener` for each operating system."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

__all__ = ["ShutdownListener"]


class ShutdownListener(Protocol):
    """Receives the announcement of a shutdown and delays the shutdown.

    Guarantees:
    1. While it runs and no shutdown is in progress, the operating system waits for the agent: the listener requests it,
       and requests it again whenever it was lost.
    2. A shutdown that began before it ran is announced too, where the operating system shows it.
    3. `release` ends the delay at once. Nothing else does, except the operating system's own limit.
    """

    def running(self, needed_seconds: float) -> AbstractAsyncContextManager[None]:
        """Listen for the time of the block, which begins when `preparing` is known."""
        ...

    @property
    def problem(self) -> str:
        """Why the operating system might not wait long enough; empty when it will."""
        ...

    @property
    def preparing(self) -> bool | None:
        """Whether the node is shutting down; None if the operating system cannot say."""
        ...

    async def next_announcement(self) -> bool:
        """Wait for the next announcement: True, the node shuts down; False, the shutdown is cancelled."""
        ...

    async def release(self) -> None:
        """End the delay: the node may shut down. Does nothing when there is no delay."""
        ...
