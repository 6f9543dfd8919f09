"""The interface between an agent and its drivers: gRPC over a socket, or a function call in tests and simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kube_fairlead.driverapi.messages import OfferedTransition, PluginInfo, Progress, Reached, Work

__all__ = ["DriverChannel", "DriverService", "RegistrationChannel"]


class DriverChannel(Protocol):
    """Calls one driver. Raises `errors.DriverError` only. Cancelling a call also cancels it in the driver.

    `timeout_seconds` is sent to the driver as the time limit of the call. The caller ends the call by its own clock.
    """

    async def get_transitions(self, node_name: str) -> Sequence[OfferedTransition]:
        """Read the transitions that the driver offers."""
        ...

    async def start(self, work: Work, *, timeout_seconds: float | None = None) -> Reached:
        """Bring the node to the start state."""
        ...

    async def end(
        self, work: Work, on_progress: Callable[[Progress], None], *, timeout_seconds: float | None = None
    ) -> Reached:
        """Bring the node to the end state. `on_progress` receives the progress."""
        ...


class RegistrationChannel(Protocol):
    """Calls one plugin that registers."""

    async def get_info(self) -> PluginInfo:
        """Read its name, type and endpoint."""
        ...

    async def notify(self, *, registered: bool, error: str = "") -> None:
        """Report whether the agent registered it."""
        ...


class DriverService(Protocol):
    """Serves the calls, in the driver. An exception fails the call; `errors.DriverRefused` sets the message."""

    async def get_transitions(self, node_name: str) -> Sequence[OfferedTransition]:
        """The transitions that the driver offers."""
        ...

    async def start(self, work: Work) -> Reached:
        """Bring the node to the start state."""
        ...

    async def end(self, work: Work, on_progress: Callable[[Progress], None]) -> Reached:
        """Bring the node to the end state."""
        ...
