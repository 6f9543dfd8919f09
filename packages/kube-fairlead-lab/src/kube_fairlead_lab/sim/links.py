"""Links between parties that talk to each other past the API server: an agent and its driver, a manager and its cloud.

Such a link is cut now and then. What is said meanwhile is heard when the link is whole again, in order, unless the
connection has not survived; who cannot even get through gives up after a while, as a kernel does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kube_fairlead.base.timeouts import timeout

__all__ = ["Link"]

_PATIENCE_SECONDS: Final = 20.0  # of a kernel whose packets are never answered


class Link:
    """One of them. `time` is the true time."""

    def __init__(self, name: str, time: Callable[[], float]) -> None:
        self.name = name
        self.well_since = 0.0
        self._time = time
        self._connected = asyncio.Event()
        self._connected.set()
        self._held: list[Callable[[], None]] = []
        self.on_heal: list[Callable[[], None]] = []

    @property
    def is_cut(self) -> bool:
        """Whether nothing gets through."""
        return not self._connected.is_set()

    def cut(self) -> None:
        """From now on nothing does."""
        self._connected.clear()

    def heal(self) -> None:
        """It is whole again. First `on_heal` decides what has survived, then what was held back arrives."""
        if not self.is_cut:
            return
        self.well_since = self._time()
        self._connected.set()
        for listener in self.on_heal:
            listener()
        held, self._held = self._held, []
        for word in held:
            word()

    def send(self, word: Callable[[], None]) -> None:
        """Let the other end hear something, now or when it can."""
        if self.is_cut:
            self._held.append(word)
        else:
            word()

    async def wait_connected(self) -> None:
        """Reach the other end.

        Raises:
            TimeoutError: it could not be reached.
        """
        if self.is_cut:
            async with timeout(_PATIENCE_SECONDS):
                await self._connected.wait()
