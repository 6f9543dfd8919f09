"""Serving a driver: its sockets appear when it is ready, and go before it does."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

from kube_fairlead.base import logs
from kube_fairlead.base.clock import Clock, RealClock
from kube_fairlead.base.metrics import DiscardedMetrics, Metrics
from kube_fairlead.driverapi import contracts, server
from kube_fairlead.driverapi.messages import PluginInfo
from kube_fairlead.drivers.sdk import sockets
from kube_fairlead.drivers.sdk.driver import Driver
from kube_fairlead.drivers.sdk.pages import serving_pages
from kube_fairlead.drivers.sdk.service import Service
from kube_fairlead.manager import ServingOptions

__all__ = ["Options", "Serving", "serving"]

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Where and how a driver serves.

    Two processes of one driver may serve at once under names of their own (`instance`, such as a pod's uid), so that a
    new version is there before the old one goes. Under the same name the later is refused.
    """

    registry: Path = sockets.DEFAULT_REGISTRY
    plugins: Path | None = None  # the folder `plugins` beside the registry unless given
    instance: str = ""
    grace_seconds: float = 10.0  # how long calls under way may go on when the process is asked to stop
    pages: ServingOptions | None = None  # where probes and metrics are served (`sdk.pages`); None: nowhere

    @property
    def plugins_folder(self) -> Path:
        """Where the service socket is."""
        if self.plugins is not None:
            return self.plugins
        # Registries beside each other are those of several nodes: one driver serves each of them.
        is_usual = self.registry.name == sockets.DEFAULT_REGISTRY.name
        return self.registry.parent / ("plugins" if is_usual else f"{self.registry.name}-plugins")


class Serving:
    """A driver that is being served, and what the agent says to it."""

    def __init__(self, service_socket: Path, registration_socket: Path) -> None:
        self.service_socket = service_socket
        self.registration_socket = registration_socket
        self.registered = False
        self.last_error = ""
        self._told = asyncio.Event()

    async def wait_told(self) -> None:
        """Wait until the agent has said, once more, whether the driver is registered."""
        self._told.clear()
        await self._told.wait()

    def hear(self, registered: bool, error: str) -> None:  # noqa: FBT001 - the two fields of the message
        """What the agent says."""
        self.registered, self.last_error = registered, error
        if registered:
            _log.info("registered with the agent", socket=str(self.registration_socket))
        else:
            _log.warning("the agent refused the registration", error=error)
        self._told.set()


@contextlib.asynccontextmanager
async def serving(
    driver: Driver, options: Options | None = None, *, clock: Clock | None = None, metrics: Metrics | None = None
) -> AsyncIterator[Serving]:
    """Serve a driver as long as the block lasts.

    At its end the registration goes first, so that no new call comes; calls under way have their grace; what is left
    is told to come again, which an agent does, at the driver's other instance or its next life.

    Args:
        driver: what to serve.
        options: where.
        clock: for deadlines.
        metrics: what `/metrics` shows; the SDK adds its own to the driver's.

    Raises:
        addresses.AddressTaken: another process serves this driver there already.
        OSError: probes and metrics cannot be served where the options say.
    """
    options = options or Options()
    clock = clock or RealClock()
    metrics = metrics or DiscardedMetrics()
    service = Service(driver, clock, metrics)
    state = Serving(
        sockets.service_socket(options.plugins_folder, driver.name, options.instance),
        sockets.registration_socket(options.registry, driver.name, options.instance),
    )
    info = PluginInfo(
        type=contracts.PLUGIN_TYPE,
        name=driver.name,
        endpoint=str(state.service_socket),
        supported_versions=(contracts.DRIVER_VERSION,),
    )
    health = server.HealthHandler(frozenset({contracts.DRIVER_SERVICE}), lambda: driver.healthy, clock)
    handler = server.DriverHandler(service)
    async with (
        serving_pages(options.pages, driver, state, metrics=metrics, clock=clock),
        server.serving(state.service_socket, handler, health),
    ):
        async with server.serving(state.registration_socket, server.RegistrationHandler(info, state.hear), health):
            yield state
        with contextlib.suppress(TimeoutError):
            async with clock.timeout(options.grace_seconds):
                await handler.wait_idle()
