"""The shutdown manager of a real node, put together for its operating system."""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kube_fairlead.agent.agent import Agent
from kube_fairlead.agent.shutdown.configuration import AgentConfig, kubelet_is_configured
from kube_fairlead.agent.shutdown.cri.calls import CriCalls, Dial, named_pipe, unix_socket
from kube_fairlead.agent.shutdown.cri.runtime import CriRuntime
from kube_fairlead.agent.shutdown.event_recorder import ShutdownEventRecorder
from kube_fairlead.agent.shutdown.listener import ShutdownListener
from kube_fairlead.agent.shutdown.manager import ShutdownDependencies, ShutdownManager, ShutdownOptions
from kube_fairlead.agent.shutdown.pod_runtime import KubeletControl, PodRuntime
from kube_fairlead.agent.shutdown.state_file import Boot
from kube_fairlead.base import logs
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.environment import Environment
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.client.client import Client
from kube_fairlead.client.recorder import EventRecorder

if TYPE_CHECKING:  # Linux pays nothing for Windows
    from kube_fairlead.agent.windows.service import Service

__all__ = ["OWNERS", "ShutdownService", "ShutdownSettings", "current_boot", "is_supported"]

OWNERS: Final = ("auto", "kubelet", "agent")
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownSettings:
    """The settings of the command line and of its file."""

    config: AgentConfig
    environment: Environment
    owner: str = "auto"
    service: Service | None = None  # this process, on Windows


def is_supported() -> bool:
    """Whether this system announces its shutdowns."""
    return sys.platform in {"linux", "win32"}


def current_boot(clock: Clock) -> Boot:
    """Which boot this is. The monotonic clock counts from it."""
    return Boot(_boot_id(), clock.now() - dt.timedelta(seconds=clock.monotonic()))


def _boot_id() -> str:
    try:
        if sys.platform == "win32":
            from kube_fairlead.agent.windows.registry import Registry

            return Registry().boot_id()
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _System:
    """What differs between systems."""

    listener: ShutdownListener
    runtime: PodRuntime
    kubelet: KubeletControl


def _linux(settings: ShutdownSettings, clock: Clock) -> _System:
    from kube_fairlead.agent.shutdown.lock_store import find_lock_store
    from kube_fairlead.agent.shutdown.logind_listener import LogindListener, LogindPlaces
    from kube_fairlead.agent.shutdown.systemd_kubelet import SystemdKubelet

    config, environment = settings.config, settings.environment
    places = LogindPlaces()
    if address := environment.get("DBUS_SYSTEM_BUS_ADDRESS"):
        places = dataclasses.replace(places, bus_address=address)
    return _System(
        listener=LogindListener(clock, find_lock_store(environment, process_id=os.getpid()), places),
        runtime=_runtime(unix_socket(config.runtime_endpoint), clock),
        kubelet=SystemdKubelet(clock, unit=config.kubelet_unit, bus_address=places.bus_address),
    )


def _windows(settings: ShutdownSettings, clock: Clock, service: Service) -> _System:
    from kube_fairlead.agent.shutdown.preshutdown_listener import PreshutdownListener
    from kube_fairlead.agent.shutdown.windows_kubelet import WindowsKubelet
    from kube_fairlead.agent.windows.processes import Processes
    from kube_fairlead.agent.windows.registry import Registry
    from kube_fairlead.agent.windows.scm import ServiceManager

    config, manager = settings.config, ServiceManager()
    is_configured = kubelet_is_configured(config.kubelet_config_file)
    return _System(
        listener=PreshutdownListener(
            service,
            manager,
            Registry(),
            clock,
            kubelet=config.kubelet_unit,
            kubelet_owns=settings.owner == "kubelet" or (settings.owner == "auto" and is_configured),
        ),
        runtime=_runtime(named_pipe(config.runtime_endpoint), clock),
        kubelet=WindowsKubelet(
            clock,
            manager,
            Processes(),
            name=config.kubelet_unit,
            is_configured=is_configured,
        ),
    )


def _runtime(dial: Dial, clock: Clock) -> CriRuntime:
    calls = CriCalls(dial, clock)
    calls.make_ready()
    return CriRuntime(calls, clock)


class ShutdownService:
    """A shutdown manager with its dependencies for this system."""

    def __init__(
        self,
        client: Client,
        settings: ShutdownSettings,
        metrics: Metrics,
        *,
        node_name: str,
        folder: Path,
        agent: Agent | None,
        well_known_conditions: bool,
    ) -> None:
        config, clock, service = settings.config, client.clock, settings.service
        system = _linux(settings, clock) if service is None else _windows(settings, clock, service)
        own_pod = settings.environment.get("POD_UID")
        self._listener = system.listener
        self._recorder = EventRecorder(client, controller="fairlead.dev/shutdown", instance=node_name)
        self._manager = ShutdownManager(
            client,
            ShutdownOptions(
                node_name=node_name,
                config=config.shutdown,
                folder=folder,
                owner=settings.owner,
                # On Windows a configured kubelet may not receive the notice (nssm): `WindowsKubelet` checks that.
                kubelet_is_configured=service is None and kubelet_is_configured(config.kubelet_config_file),
                well_known_conditions=well_known_conditions,
                own_pods=frozenset({own_pod} if own_pod else ()),
            ),
            ShutdownDependencies(
                listener=system.listener,
                runtime=system.runtime,
                kubelet=system.kubelet,
                boot=current_boot(clock),
                agent=agent,
            ),
            ShutdownEventRecorder(self._recorder, metrics),
        )

    @property
    def problem(self) -> str:
        """Why the machine may not wait for its pods; empty: it waits."""
        return self._listener.problem

    async def run(self) -> None:
        """Run until cancelled."""
        async with self._recorder.running():
            await self._manager.run()
