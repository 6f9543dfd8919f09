"""How an agent learns that its machine goes down: one `ShutdownListener` for each operating system."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

__all__ = ["ShutdownListener"]


class ShutdownListener(Protocol):
    """Hears the machine go down and makes it wait.

    Guarantees:
    1. While it runs and nothing is under way, the machine waits for us: it has been asked to, and asked again whenever
       that was lost.
    2. A shutdown that began before it ran is heard too, where the system can tell of it.
    3. `release` lets the machine go on, at once. It is the only thing that does, short of the system's own limit.
    """

    def running(self, needed_seconds: float) -> AbstractAsyncContextManager[None]:
        """Listen as long as the block lasts. It begins when the machine has been asked whether it is going down."""
        ...

    @property
    def problem(self) -> str:
        """Why the machine might not wait, or not for so long; empty when it will."""
        ...

    @property
    def preparing(self) -> bool | None:
        """Whether the machine is going down now; None where nobody can tell."""
        ...

    async def next_word(self) -> bool:
        """Wait for the next announcement: True, it goes down; False, that is called off."""
        ...

    async def release(self) -> None:
        """Everything is done: the machine may go down. Does nothing when it was not held up."""
        ...
