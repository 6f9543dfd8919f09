"""The seam between an agent and its drivers. Over a socket it is gRPC; in tests and simulation it is a plain call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kube_fairlead.driverapi.messages import OfferedTransition, PluginInfo, Progress, Reached, Work

__all__ = ["DriverChannel", "DriverService", "RegistrationChannel"]


class DriverChannel(Protocol):
    """Calls one driver. Raises `errors.DriverError` only; cancelling a call ends it on the driver's side too.

    `timeout_seconds` tells the driver how long the caller will wait. The caller's own clock ends the wait.
    """

    async def get_transitions(self, node_name: str) -> Sequence[OfferedTransition]:
        """Which transitions the driver carries out."""
        ...

    async def start(self, work: Work, *, timeout_seconds: float | None = None) -> Reached:
        """Enter the start state."""
        ...

    async def end(
        self, work: Work, on_progress: Callable[[Progress], None], *, timeout_seconds: float | None = None
    ) -> Reached:
        """Bring the node to the end state, telling of progress on the way."""
        ...


class RegistrationChannel(Protocol):
    """Calls one plugin that wants to be known."""

    async def get_info(self) -> PluginInfo:
        """Who it is."""
        ...

    async def notify(self, *, registered: bool, error: str = "") -> None:
        """Tell it whether it is known now."""
        ...


class DriverService(Protocol):
    """The other side: what serves the calls. An exception is the answer; `errors.DriverRefused` chooses its words."""

    async def get_transitions(self, node_name: str) -> Sequence[OfferedTransition]:
        """Which transitions are carried out here."""
        ...

    async def start(self, work: Work) -> Reached:
        """Enter the start state."""
        ...

    async def end(self, work: Work, on_progress: Callable[[Progress], None]) -> Reached:
        """Bring the node to the end state."""
        ...
