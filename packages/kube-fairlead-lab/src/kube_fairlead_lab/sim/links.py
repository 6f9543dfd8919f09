"""Links that bypass the API server: between an agent and its driver, and between a manager and its cloud.

A link can be cut. What is sent meanwhile arrives in order when the link heals, unless the connection has not survived.
A caller that cannot connect gives up after a while, as a kernel does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kube_fairlead.base.timeouts import timeout

__all__ = ["Link"]

_PATIENCE_SECONDS: Final = 20.0  # a kernel's timeout for a connection


class Link:
    """One link. `time` returns the true time."""

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
        """Whether the link is cut."""
        return not self._connected.is_set()

    def cut(self) -> None:
        """Cut the link."""
        self._connected.clear()

    def heal(self) -> None:
        """Heal the link: first the `on_heal` listeners run, then the held messages arrive."""
        if not self.is_cut:
            return
        self.well_since = self._time()
        self._connected.set()
        for listener in self.on_heal:
            listener()
        held, self._held = self._held, []
        for message in held:
            message()

    def send(self, message: Callable[[], None]) -> None:
        """Deliver a message to the other end, now or when the link heals."""
        if self.is_cut:
            self._held.append(message)
        else:
            message()

    async def wait_connected(self) -> None:
        """Wait for a connection to the other end.

        Raises:
            TimeoutError: the other end cannot be reached.
        """
        if self.is_cut:
            async with timeout(_PATIENCE_SECONDS):
                await self._connected.wait()
