"""Serves a driver on its sockets, from registration to the end of its last call."""

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

    Two processes of one driver may serve at once if each has its own `instance`, such as a pod's uid: a new version
    starts before the old one stops. A second process with the same instance is rejected.
    """

    registry: Path = sockets.DEFAULT_REGISTRY
    plugins: Path | None = None  # the folder `plugins` beside the registry unless given
    instance: str = ""
    grace_seconds: float = 10.0  # how long running calls may take when the process stops
    pages: ServingOptions | None = None  # where probes and metrics are served (`sdk.pages`); None: they are not

    @property
    def plugins_folder(self) -> Path:
        """The folder of the service socket."""
        if self.plugins is not None:
            return self.plugins
        # Registries in one folder belong to several nodes, and each has its own driver process.
        is_usual = self.registry.name == sockets.DEFAULT_REGISTRY.name
        return self.registry.parent / ("plugins" if is_usual else f"{self.registry.name}-plugins")


class Serving:
    """A driver that is being served, and the result of its registration with the agent."""

    def __init__(self, service_socket: Path, registration_socket: Path) -> None:
        self.service_socket = service_socket
        self.registration_socket = registration_socket
        self.registered = False
        self.last_error = ""
        self._answered = asyncio.Event()

    async def wait_told(self) -> None:
        """Wait for the next answer of the agent to the registration."""
        self._answered.clear()
        await self._answered.wait()

    def hear(self, registered: bool, error: str) -> None:  # noqa: FBT001 - the two fields of the message
        """Receive the answer of the agent to the registration."""
        self.registered, self.last_error = registered, error
        if registered:
            _log.info("registered with the agent", socket=str(self.registration_socket))
        else:
            _log.warning("agent rejected the registration", error=error)
        self._answered.set()


@contextlib.asynccontextmanager
async def serving(
    driver: Driver, options: Options | None = None, *, clock: Clock | None = None, metrics: Metrics | None = None
) -> AsyncIterator[Serving]:
    """Serve a driver while the block lasts.

    At its end the registration socket is removed first, so that no new call comes. Running calls get
    `Options.grace_seconds`. Then they fail as Unavailable, and the agent repeats them at another instance of the driver
    or after its restart.

    Args:
        driver: the driver to serve.
        options: where and how.
        clock: for deadlines.
        metrics: shown by `/metrics`; the SDK adds its own.

    Raises:
        socket_addresses.AddressTaken: another process serves this driver on the same path.
        OSError: probes and metrics cannot be served at the address of the options.
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
