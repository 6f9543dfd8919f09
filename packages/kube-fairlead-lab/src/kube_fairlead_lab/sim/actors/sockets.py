"""The folder in which the drivers of a node register: one socket each, which outlives a killed driver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Final

from kube_fairlead.base.clock import Clock
from kube_fairlead.claimant.socket_folder import SocketFile, SocketFolder
from kube_fairlead.driverapi.channels import DriverChannel, RegistrationChannel
from kube_fairlead_lab.sim.actors.drivers import DriverHost

__all__ = ["SimChannels", "SimFolder"]

_FOLDER: Final = Path("/registry")


class SimFolder(SocketFolder):
    """The sockets of some drivers as one agent sees them. A restarted driver creates its socket again."""

    def __init__(self, hosts: Mapping[str, DriverHost], clock: Clock, agent: str) -> None:
        super().__init__(_FOLDER, clock)
        self._hosts = hosts
        self._agent = agent

    async def changes(self) -> AsyncGenerator[list[SocketFile], None]:
        """Yield the sockets, now and whenever a driver starts."""
        news = asyncio.Event()
        for host in self._hosts.values():
            host.on_socket[self._agent] = news.set
        while True:
            news.clear()
            yield [
                SocketFile(_FOLDER / f"{name}.sock", inode=host.lives, changed_ns=host.lives, owner=0)
                for name, host in sorted(self._hosts.items())
                if host.lives
            ]
            await news.wait()


class SimChannels:
    """Opens channels to the sockets."""

    def __init__(self, hosts: Mapping[str, DriverHost]) -> None:
        self._hosts = hosts

    def registration(self, path: str) -> RegistrationChannel:
        """Return the channel to a driver that registers."""
        return self._hosts[Path(path).stem]

    def driver(self, path: str) -> DriverChannel:
        """Return the channel to the driver."""
        return self._hosts[Path(path).stem]
