"""The API server: the real one, on the simulated disk."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.identity import RandomIds
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.base.randomness import Randomness, SeededRandomness
from kube_fairlead_apiserver.access_control import AccessControl
from kube_fairlead_apiserver.app import Observer
from kube_fairlead_apiserver.attributes import ANONYMOUS, Attributes, UserInfo
from kube_fairlead_apiserver.http.messages import Request
from kube_fairlead_apiserver.operations.core import Core
from kube_fairlead_apiserver.server import ApiServer, Dependencies
from kube_fairlead_apiserver.storage.store import Store
from kube_fairlead_lab.sim.clock import SimClock
from kube_fairlead_lab.sim.disk import Disk, DiskHandle
from kube_fairlead_lab.sim.environment import Actor, Environment, ProcessRun
from kube_fairlead_lab.sim.loop import SimLoop

__all__ = ["SERVER", "add_server", "fresh_disk"]

SERVER = "apiserver"


class _Trusting:
    """Authenticates every caller by the network's name, and authorizes everything: access is not simulated."""

    def authenticate(self, request: Request) -> UserInfo:
        """Return the user of the connection."""
        return request.trusted_user or ANONYMOUS

    def require(self, attributes: Attributes) -> None:
        """Allow everything."""


def _guard(_core: Core) -> AccessControl:
    trusting = _Trusting()
    return AccessControl(authenticator=trusting, authorizer=trusting)


def _make(
    log: DiskHandle,
    clock: Clock,
    randomness: Randomness,
    *,
    compaction_seconds: float,
    observers: Sequence[Observer] = (),
) -> ApiServer:
    world = Dependencies(clock, randomness, RandomIds(randomness), DiscardedMetrics())
    return ApiServer(log, world, _guard, compaction_seconds=compaction_seconds, observers=observers)


def add_server(
    environment: Environment,
    on_open: Callable[[Store], None],
    *,
    observers: Sequence[Observer] = (),
    compaction_seconds: float = 12.0,
) -> Actor:
    """Add the server; it listens as soon as it is ready. `opened` gets the store of each run."""

    async def main(process_run: ProcessRun) -> None:
        server = _make(
            environment.disk.open(),
            process_run.clock,
            process_run.randomness,
            compaction_seconds=compaction_seconds,
            observers=observers,
        )
        server.open()
        on_open(server.store)
        async with tasks.TaskScope("server") as scope:
            scope.start(server.run(), name="run")
            await server.wait_ready()
            environment.network.listen(process_run.process, server.app)
            environment.trace.add(SERVER, f"listens at revision {server.store.revision}")

    def died(process: object) -> None:
        serving = environment.network.server()
        if serving is not None and serving[0] is process:
            environment.network.server_died()

    environment.on_death.append(died)
    return environment.add(SERVER, main)


@functools.cache
def fresh_disk() -> Disk:
    """Return the disk of a new cluster. It is created once; every seed starts with a copy."""
    loop = SimLoop(SeededRandomness(0))
    disk = Disk(SeededRandomness(0))

    async def make() -> None:
        server = _make(disk.open(), SimClock(loop), SeededRandomness(0), compaction_seconds=3600.0)
        server.open()
        async with tasks.TaskScope("server", on_exit=tasks.OnExit.CANCEL) as scope:
            scope.start(server.run(), name="run")
            await server.wait_ready()

    try:
        loop.run_until_complete(make())
    finally:
        loop.close()
    return disk
