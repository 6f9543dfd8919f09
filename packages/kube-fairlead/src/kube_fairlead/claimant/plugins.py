"""The registry of drivers, with the order, timeouts, backoff and messages of the kubelet's plugin manager.

For each socket in the folder, one task: connect and GetInfo, validate, read the transitions and publish them, register,
notify. A failure is reported to the plugin and retried with backoff. When a socket is removed or created again, its
registration ends. A process that dies without removing its socket stays registered.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/kubelet/pluginmanager/operationexecutor/operation_generator.go,
    k8s.io/kubernetes@v1.36.4/pkg/kubelet/pluginmanager/operationexecutor/operation_executor.go,
    k8s.io/kubernetes@v1.36.4/pkg/kubelet/pluginmanager/reconciler/reconciler.go
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, Protocol

from kube_fairlead.api import names, reserved
from kube_fairlead.base import logs, tasks
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.base.randomness import Randomness
from kube_fairlead.claimant.driver_directory import DriverDirectory, Registration
from kube_fairlead.claimant.socket_folder import SocketFile, SocketFolder
from kube_fairlead.claimant.transition_publisher import TransitionPublisher, TransitionRefused
from kube_fairlead.driverapi import contracts
from kube_fairlead.driverapi.channels import DriverChannel, RegistrationChannel
from kube_fairlead.driverapi.errors import DriverError
from kube_fairlead.driverapi.messages import OfferedTransition, PluginInfo

__all__ = ["Channels", "PluginRegistry"]

_INFO_SECONDS: Final = 10.0 + 1.0  # to connect, and to respond
_NOTIFY_SECONDS: Final = 5.0
_TRANSITIONS_SECONDS: Final = 45.0
_BACKOFF: Final = Backoff(initial_seconds=0.5, factor=2.0, cap_seconds=122.0, jitter=0.0)
_TRANSITIONS_MAX: Final = 100

_log = logs.get_logger(__name__)


class Channels(Protocol):
    """How the registry calls sockets: by gRPC, or in memory in a test."""

    def registration(self, path: str) -> RegistrationChannel:
        """Return a channel to a plugin that registers."""
        ...

    def driver(self, path: str) -> DriverChannel:
        """Return a channel to a driver."""
        ...


class _RegistrationFailed(Exception):
    """Raised when a plugin is not registered; the message is sent to the plugin."""


@dataclasses.dataclass(frozen=True, slots=True)
class _SocketTask:
    file: SocketFile
    task: asyncio.Task[None]


class PluginRegistry:
    """Registers a driver for each socket in the folder.

    Invariants:
    1. One task per socket; it and its registration end before another task begins for the same path.
    2. A driver is in the directory only while its transitions are published and it was notified of its registration.
    """

    def __init__(
        self,
        folder: SocketFolder,
        directory: DriverDirectory,
        publisher: TransitionPublisher,
        channels: Channels,
        *,
        node_name: str,
        clock: Clock,
        randomness: Randomness,
        metrics: Metrics,
        on_registered: Callable[[str], None] = lambda _driver: None,
    ) -> None:
        self._folder = folder
        self._directory = directory
        self._publisher = publisher
        self._channels = channels
        self._node_name = node_name
        self._clock = clock
        self._randomness = randomness
        self._on_registered = on_registered
        self._tasks: dict[str, _SocketTask] = {}
        self._endpoints: set[str] = set()
        self._plugins = metrics.gauge(
            "fairlead_plugin_manager_total_plugins",
            "Number of sockets known to the plugin manager, by state.",
            ["socket_path", "state"],
        )

    async def run(self) -> None:
        """Follow the folder. Runs until cancelled."""
        async with (
            tasks.TaskScope("plugins", on_exit=tasks.OnExit.CANCEL) as scope,
            contextlib.aclosing(self._folder.changes()) as changes,
        ):
            async for files in changes:
                await self._reconcile(files, scope)

    async def _reconcile(self, files: list[SocketFile], scope: tasks.TaskScope) -> None:
        present = {str(file.path): file for file in files}
        # Unregistrations come before registrations, as in the kubelet.
        for path, running in list(self._tasks.items()):
            if present.get(path) != running.file:
                del self._tasks[path]
                await tasks.cancel_and_wait(running.task)
                self._plugins.labels(socket_path=path, state="desired_state_of_world").set(0)
        for path, file in present.items():
            if path not in self._tasks:
                self._plugins.labels(socket_path=path, state="desired_state_of_world").set(1)
                self._tasks[path] = _SocketTask(file, scope.start(self._manage(file), name=path))

    async def _manage(self, file: SocketFile) -> None:
        """Register the plugin of a socket, and keep it registered until cancelled."""
        delays = _BACKOFF.delays(self._randomness)
        path = str(file.path)
        log = _log.bind(socket=path)
        while True:
            channel = self._channels.registration(path)
            try:
                async with self._registered(file, channel) as registration:
                    log.info("driver registered", driver=registration.driver, endpoint=registration.endpoint)
                    self._on_registered(registration.driver)
                    await asyncio.Event().wait()
            except _RegistrationFailed as failure:
                delay = next(delays)
                log.warning("driver not registered", error=str(failure), again_in_seconds=delay)
                await self._notify_failure(channel, str(failure))
                await self._clock.sleep(delay)

    @contextlib.asynccontextmanager
    async def _registered(self, file: SocketFile, channel: RegistrationChannel) -> AsyncIterator[Registration]:
        path = str(file.path)
        info = await self._get_info(channel)
        if info.type != contracts.PLUGIN_TYPE:
            raise _RegistrationFailed(f"no handler registered for plugin type: {info.type} at socket {path}")
        endpoint = info.endpoint or path
        self._validate(info, endpoint, file.owner)
        self._endpoints.add(endpoint)
        try:
            driver = self._channels.driver(endpoint)
            transitions = await self._transitions(info.name, driver)
            registration = Registration(
                driver=info.name, endpoint=endpoint, owner=file.owner, channel=driver, transitions=transitions
            )
            # A driver must be notified before it is called. The notification also shows that it still runs.
            await self._notify(channel)
            self._validate_owner(info.name, file.owner)
            self._directory.add(registration)
            self._plugins.labels(socket_path=path, state="actual_state_of_world").set(1)
            try:
                with self._publisher.kept_published(info.name, transitions):
                    yield registration
            finally:
                self._directory.remove(registration)
                self._plugins.labels(socket_path=path, state="actual_state_of_world").set(0)
        finally:
            self._endpoints.discard(endpoint)

    async def _get_info(self, channel: RegistrationChannel) -> PluginInfo:
        try:
            async with self._clock.timeout(_INFO_SECONDS):
                return await channel.get_info()
        except (DriverError, TimeoutError) as error:
            raise _RegistrationFailed(f"failed to get plugin info: {_error_text(error)}") from error

    def _validate(self, info: PluginInfo, endpoint: str, owner: int) -> None:
        def invalid(problem: str) -> _RegistrationFailed:
            return _RegistrationFailed(f"plugin validation failed with err: {problem}")

        if problems := names.qualified_name(info.name):
            raise invalid(f"driver name {info.name[:80]!r}: {'; '.join(problems)}")
        if info.name == reserved.DRIVER_SHUTDOWN:
            raise invalid(f"driver name {info.name} is reserved")
        if contracts.DRIVER_VERSION not in info.supported_versions:
            offered = ", ".join(info.supported_versions)[:200] or "none"
            raise invalid(f"none of the supported services is {contracts.DRIVER_VERSION}: {offered}")
        if not endpoint.startswith("/"):
            raise invalid(f"endpoint {endpoint[:120]!r} is not an absolute path")
        if endpoint in self._endpoints:
            raise invalid(f"endpoint {endpoint} is registered already")
        self._validate_owner(info.name, owner)

    def _validate_owner(self, driver: str, owner: int) -> None:
        # Two sockets with one driver name are a rolling update. A socket of another user would replace the driver.
        if any(other.owner != owner for other in self._directory.of_driver(driver)):
            raise _RegistrationFailed(
                f"plugin validation failed with err: driver {driver} is registered by another user"
            )

    async def _transitions(self, name: str, driver: DriverChannel) -> tuple[OfferedTransition, ...]:
        try:
            async with self._clock.timeout(_TRANSITIONS_SECONDS):
                offered = tuple(await driver.get_transitions(self._node_name))
        except (DriverError, TimeoutError) as error:
            raise _RegistrationFailed(
                f"plugin registration failed with err: GetTransitions: {_error_text(error)}"
            ) from error
        if len(offered) > _TRANSITIONS_MAX:
            problem = f"{len(offered)} transitions exceed the maximum of {_TRANSITIONS_MAX}"
            raise _RegistrationFailed(f"plugin registration failed with err: {problem}")
        if problem := _naming_problem(offered):
            raise _RegistrationFailed(f"plugin registration failed with err: {problem}")
        try:
            await self._publisher.publish(name, offered)
        except TransitionRefused as error:
            raise _RegistrationFailed(f"plugin registration failed with err: {error}") from error
        return offered

    async def _notify(self, channel: RegistrationChannel) -> None:
        try:
            async with self._clock.timeout(_NOTIFY_SECONDS):
                await channel.notify(registered=True)
        except (DriverError, TimeoutError) as error:
            raise _RegistrationFailed(f"failed to send registration status: {_error_text(error)}") from error

    async def _notify_failure(self, channel: RegistrationChannel, error: str) -> None:
        with contextlib.suppress(DriverError, TimeoutError):
            async with self._clock.timeout(_NOTIFY_SECONDS):
                await channel.notify(registered=False, error=error)


def _naming_problem(offered: Sequence[OfferedTransition]) -> str:
    """Return what is wrong with the names of the offered transitions. Checked before any is published."""
    seen: set[str] = set()
    for one in offered:
        if not one.name:
            return (
                f"the transition from {one.start[:80]!r} to {one.end[:80]!r} has no name; every one needs a unique name"
            )
        if problems := names.dns1123_subdomain(one.name):
            return f"the transition name {one.name[:80]!r} is not valid: {'; '.join(problems)}"
        if one.name in seen:
            return f"transition {one.name} is offered twice; every one needs a unique name"
        seen.add(one.name)
    return ""


def _error_text(error: Exception) -> str:
    return str(error) or "timed out"
