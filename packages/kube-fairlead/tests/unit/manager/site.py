"""Replicas of a manager on the embedded API server and virtual time, and a controller for them to run."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
from contextlib import AbstractAsyncContextManager

from kube_fairlead.api import core_v1
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base import tasks
from kube_fairlead.base.gates import FeatureGates
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.transport import Request, Response, StreamedResponse
from kube_fairlead.election import Lock, TermOverrun
from kube_fairlead.manager import Context, Controller, GroupPlan, Manager, ManagerOptions
from tests.unit.election.world import LOCK, Network, World


class OneTransport:
    """Lets every term have a client of its own over one network, which is closed only at the end."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.was_used = False
        self.is_open = True

    async def send(self, request: Request) -> Response:
        self.was_used = True
        return await self._network.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamedResponse]:
        self.was_used = True
        return self._network.stream(request)

    async def close(self) -> None:
        self.is_open = False


@dataclasses.dataclass
class Replica:
    manager: Manager
    task: asyncio.Task[None]
    network: Network
    metrics: PrometheusMetrics
    overruns: list[TermOverrun]
    transports: list[OneTransport]

    def leaks(self) -> dict[str, float]:
        """What its terms left behind: how many, by kind."""
        found = re.findall(
            r'^fairlead_leaks_total{kind="(\w+)"} (\S+)$', self.metrics.exposition().decode(), re.MULTILINE
        )
        return {kind: float(count) for kind, count in found}

    @property
    def leads(self) -> list[str]:
        return [group.lock.name for group in self.manager.groups if group.leadership.term is not None]


class Site:
    """Starts replicas of one manager, and ends them all."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._tasks = tasks.TaskSet("site", on_failure=lambda _: None)
        self.replicas: dict[str, Replica] = {}
        self.expected_leaks: set[str] = set()

    def start(
        self,
        name: str,
        *controllers: Controller,
        groups: dict[str, tuple[Controller, ...]] | None = None,
        gates: str = "",
        leader_elect: bool = True,
        shutdown_timeout_seconds: float = 10,
    ) -> Replica:
        world = self.world
        network = world.network_of(world.client(name))
        transports: list[OneTransport] = []

        def connect() -> Client:
            transports.append(OneTransport(network))
            return Client(transports[-1], clock=world.clock, randomness=SeededRandomness(f"{name}/{len(transports)}"))

        plans = groups or {LOCK.name: controllers}
        options = ManagerOptions(
            component="test-manager",
            identity=name,
            groups=tuple(
                GroupPlan(lock=Lock("kube-system", lock), controllers=members, connect=connect)
                for lock, members in plans.items()
            ),
            leader_elect=leader_elect,
            gates=FeatureGates.parse(gates),
            shutdown_timeout_seconds=shutdown_timeout_seconds,
            watchdog=False,
        )
        metrics, overruns = PrometheusMetrics(), list[TermOverrun]()
        manager = Manager(
            options,
            clock=world.clock,
            randomness=SeededRandomness(name),
            metrics=metrics,
            on_overrun=overruns.append,
        )
        task = self._tasks.start(manager.run(), name=name)
        self.replicas[name] = Replica(manager, task, network, metrics, overruns, transports)
        return self.replicas[name]

    async def until_leads(self, replica: Replica, count: int = 1) -> None:
        await self.world.until(lambda: len(replica.leads) >= count)
        await self.world.clock.settle()

    async def close(self) -> None:
        """End all. A leak that no test expects is a failure of whatever test it happened in."""
        async with tasks.TaskScope("site") as scope:
            await self.world.until(scope.start(self._tasks.close(), name="close").done)
        assert {kind for replica in self.replicas.values() for kind in replica.leaks()} == self.expected_leaks


def config_map(name: str) -> core_v1.ConfigMap:
    return core_v1.ConfigMap(metadata=ObjectMeta(name=name))


class Copier:
    """A controller as they are written: for every ConfigMap `x` there must be a Secret `x`."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0

    def controller(self, name: str = "copier") -> Controller:
        return Controller(name=name, run=self.run)

    async def run(self, context: Context) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        queue: WorkQueue[str] = context.queue()
        maps = context.client.of(core_v1.ConfigMap)
        informer = Informer(maps, namespace="default", field_selector="metadata.name!=kube-root-ca.crt")
        informer.add_handler(Handler(on_add=lambda found: queue.add(found.name)))

        async def copy(name: str) -> None:
            secret = core_v1.Secret(metadata=ObjectMeta(name=name))
            with contextlib.suppress(Exception):
                await context.client.of(core_v1.Secret).create(secret, namespace="default")

        try:
            async with informer.running():
                await context.reconcile(queue, copy)
        finally:
            self.running -= 1


async def copied(world: World) -> set[str]:
    return {secret.name for secret in (await world.admin.of(core_v1.Secret).list(namespace="default")).items}
