"""A channel without a socket: the driver runs in the caller's task. For tests, simulation and built-in drivers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kube_fairlead.driverapi.channels import DriverService
from kube_fairlead.driverapi.errors import DriverError, DriverGone, DriverRefused
from kube_fairlead.driverapi.messages import OfferedTransition, Progress, Reached, Work

__all__ = ["MemoryChannel"]


class MemoryChannel:
    """Calls a `DriverService` directly. With `connected` set to False, every call raises `DriverGone`."""

    def __init__(self, service: DriverService) -> None:
        self._service = service
        self.connected = True

    async def get_transitions(self, node_name: str) -> Sequence[OfferedTransition]:
        """Read the transitions that the driver offers."""
        self._check_connected()
        try:
            return await self._service.get_transitions(node_name)
        except Exception as error:
            raise _as_driver_error(error) from error

    async def start(self, work: Work, *, timeout_seconds: float | None = None) -> Reached:
        """Bring the node to the start state."""
        del timeout_seconds  # the work has its own deadline
        self._check_connected()
        try:
            return await self._service.start(work)
        except Exception as error:
            raise _as_driver_error(error) from error

    async def end(
        self, work: Work, on_progress: Callable[[Progress], None], *, timeout_seconds: float | None = None
    ) -> Reached:
        """Bring the node to the end state."""
        del timeout_seconds
        self._check_connected()
        try:
            return await self._service.end(work, on_progress)
        except Exception as error:
            raise _as_driver_error(error) from error

    def _check_connected(self) -> None:
        if not self.connected:
            raise DriverGone("the driver is not connected")


def _as_driver_error(error: Exception) -> DriverError:
    return error if isinstance(error, DriverError) else DriverRefused(f"{type(error).__name__}: {error}")
