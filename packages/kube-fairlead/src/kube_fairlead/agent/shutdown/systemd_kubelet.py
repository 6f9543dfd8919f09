"""Control the kubelet of a Linux node through systemd and logind."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection
from typing import Final

from kube_fairlead.agent.shutdown.bus import BUS_ADDRESS, Bus, BusError, Peer, connected
from kube_fairlead.agent.shutdown.logind_listener import LOGIND, SYSTEMD
from kube_fairlead.agent.shutdown.pod_runtime import RuntimeFailed
from kube_fairlead.base import logs
from kube_fairlead.base.clock import Clock

__all__ = ["SystemdKubelet"]

_WHO: Final = "kubelet"
_UNIT: Final = "org.freedesktop.systemd1.Unit"
_ENDED: Final = frozenset({"inactive", "failed"})
_STOP_SECONDS: Final = 3.0
_START_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.05
_SIGKILL: Final = 9

_log = logs.get_logger(__name__)


class SystemdKubelet:
    """A `KubeletControl` for a kubelet that is a systemd unit."""

    def __init__(self, clock: Clock, *, unit: str = "kubelet.service", bus_address: str = BUS_ADDRESS) -> None:
        self._clock = clock
        self._unit = unit
        self._bus_address = bus_address

    async def ends_pods(self) -> bool:
        """Whether the kubelet holds a shutdown lock."""
        async with self._connected() as bus:
            (inhibitors,) = await bus.call(LOGIND, "ListInhibitors")
        return any(who == _WHO and "shutdown" in what.split(":") for what, who, *_ in inhibitors)

    async def stop(self) -> None:
        """Stop the unit and wait for its end; kill it if it does not stop. Without a unit, do nothing."""
        async with self._connected() as bus:
            unit = await self._load(bus)
            if await bus.get(unit, "LoadState") != "loaded" or await bus.get(unit, "ActiveState") in _ENDED:
                return
            await bus.call(SYSTEMD, "StopUnit", "ss", self._unit, "replace")
            try:
                async with self._clock.timeout(_STOP_SECONDS):
                    await self._wait(bus, unit, _ENDED)
            except TimeoutError:
                await bus.call(SYSTEMD, "KillUnit", "ssi", self._unit, "all", _SIGKILL)
            _log.info("kubelet stopped", unit=self._unit)

    async def start(self) -> None:
        """Start the unit, if there is one, and wait until it runs."""
        async with self._connected() as bus:
            unit = await self._load(bus)
            if await bus.get(unit, "LoadState") != "loaded":
                return
            await bus.call(SYSTEMD, "StartUnit", "ss", self._unit, "replace")
            try:
                async with self._clock.timeout(_START_SECONDS):
                    await self._wait(bus, unit, {"active"})
            except TimeoutError as error:
                raise RuntimeFailed(f"{self._unit} does not run {_START_SECONDS:g} s after it was started") from error
            _log.info("kubelet started", unit=self._unit)

    async def _wait(self, bus: Bus, unit: Peer, wanted: Collection[str]) -> None:
        while await bus.get(unit, "ActiveState") not in wanted:
            await self._clock.sleep(_POLL_SECONDS)

    async def _load(self, bus: Bus) -> Peer:
        (path,) = await bus.call(SYSTEMD, "LoadUnit", "s", self._unit)
        return Peer(SYSTEMD.service, path, _UNIT)

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[Bus]:
        try:
            async with connected(self._bus_address, self._clock) as bus:
                yield bus
        except BusError as error:
            raise RuntimeFailed(str(error)) from error
