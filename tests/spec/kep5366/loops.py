"""Managers in this process on a real control plane, with a control loop that is counted."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from kube_fairlead import client
from kube_fairlead.api import core_v1
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.environment import Environment
from kube_fairlead.base.gates import FeatureGates
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.base.randomness import SystemRandomness
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.client.transport import Request, Response, StreamedResponse, Transport
from kube_fairlead.cloud.assembly import CloudManager, CloudSettings
from kube_fairlead.cloud.providers.fake import FakeCloud
from kube_fairlead.controllers.event_gc import event_gc
from kube_fairlead.controllers.stall import stall
from kube_fairlead.election import Lock, TermOverrun, Timing
from kube_fairlead.lifecycle.garbage_collection import Retention
from kube_fairlead.lifecycle.stalls import StallLimits
from kube_fairlead.manager import Context, Controller, GroupPlan, Manager, ManagerOptions
from kube_fairlead_lab.hollow.scheduler import scheduler
from tests.spec.kep5366.components import until

TIMING = Timing(lease_duration_seconds=12, renew_deadline_seconds=9, retry_period_seconds=0.2)
# For a replica without others: it waits for them only so long before it leads again.
ALONE = Timing(lease_duration_seconds=12, renew_deadline_seconds=9, retry_period_seconds=0.04)
HURRIED = Timing(lease_duration_seconds=12, renew_deadline_seconds=9, retry_period_seconds=0.01)


class Loops:
    """The control loops of all replicas: how many run now, and how many ever did at once."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.most = 0
        self.begun = 0

    @contextlib.contextmanager
    def counted(self, name: str) -> Iterator[None]:
        self.running.append(name)
        self.begun += 1
        self.most = max(self.most, len(self.running))
        try:
            yield
        finally:
            self.running.remove(name)


class SlowTransport:
    """Holds chosen requests back until told otherwise, as an API server does that takes its time."""

    def __init__(self, inner: Transport, gate: Gate) -> None:
        self._inner = inner
        self._gate = gate

    async def send(self, request: Request) -> Response:
        if self._gate.concerns(request):
            self._gate.waiting += 1
            await self._gate.opened.wait()
            self._gate.waiting -= 1
        return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamedResponse]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


class Gate:
    """Closed, it keeps requests to a resource from getting through."""

    def __init__(self) -> None:
        self.resource = "-"
        self.waiting = 0
        self.opened = asyncio.Event()

    def concerns(self, request: Request) -> bool:
        return request.method != "GET" and f"/{self.resource}" in request.path


@dataclasses.dataclass
class Replica:
    name: str
    manager: Manager
    task: asyncio.Task[None]
    gate: Gate
    overruns: list[TermOverrun]
    metrics: PrometheusMetrics

    @property
    def leads(self) -> bool:
        return any(group.leadership.term is not None for group in self.manager.groups)


def no_controllers() -> tuple[Controller, ...]:
    """A manager that has nothing but the loop that is counted."""
    return ()


def controllers_of_the_controller_manager() -> tuple[Controller, ...]:
    return event_gc(Retention()), stall(StallLimits())


def controllers_of_the_cloud_controller_manager() -> tuple[Controller, ...]:
    cloud = FakeCloud("sky", name="sky")
    manager = CloudManager(cloud, cloud.supported_platforms(), CloudSettings(node_monitor_period_seconds=0.2))
    return (manager.as_controller(instance="test"),)


def controllers_of_the_scheduler() -> tuple[Controller, ...]:
    return (scheduler(scheduler_name="nobodys"),)


class Fleet:
    """Replicas of one manager under one lock. Its loop marks every ConfigMap of the namespace with its name.

    Beside it run the controllers of a component, which must come and go as it does.
    """

    def __init__(
        self, kubeconfig: Path, lock: Lock, beside: Callable[[], tuple[Controller, ...]] = no_controllers
    ) -> None:
        self.lock = lock
        self._beside = beside
        self.loops = Loops()
        self._kubeconfig = kubeconfig
        self._tasks = tasks.TaskSet("fleet", on_failure=lambda _failure: None)
        self.replicas: dict[str, Replica] = {}

    async def start(
        self, name: str, *, shutdown_timeout_seconds: float = 10, gates: str = "", timing: Timing = TIMING
    ) -> Replica:
        """Start one and wait until it knows the Lease."""
        gate, metrics, overruns = Gate(), PrometheusMetrics(), list[TermOverrun]()

        def connect() -> Client:
            connected = client.connect(kubeconfig_path=self._kubeconfig, environment=Environment({}))
            return connected.with_transport(lambda inner: SlowTransport(inner, gate))

        options = ManagerOptions(
            component="test-manager",
            identity=name,
            groups=(GroupPlan(lock=self.lock, controllers=(self._controller(name), *self._beside()), connect=connect),),
            timing=timing,
            shutdown_timeout_seconds=shutdown_timeout_seconds,
            gates=FeatureGates.parse(gates),
        )
        manager = Manager(
            options, clock=RealClock(), randomness=SystemRandomness(), metrics=metrics, on_overrun=overruns.append
        )
        task = self._tasks.start(manager.run(), name=name)
        replica = self.replicas[name] = Replica(name, manager, task, gate, overruns, metrics)
        await self.until(lambda: manager.ready.report("readyz").status == 200 and bool(manager.groups), "it is ready")
        return replica

    async def until_leads(self, replica: Replica) -> None:
        """Wait until its loop runs."""
        await self.until(lambda: replica.name in self.loops.running, f"{replica.name} leads")

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        async def holds() -> bool:
            return condition()

        await until(holds, what=what)

    async def close(self) -> None:
        """End all. A term that left something behind is a failure."""
        for replica in self.replicas.values():
            replica.gate.opened.set()
        await self._tasks.close()
        for replica in self.replicas.values():
            assert "fairlead_leaks_total{" not in replica.metrics.exposition().decode()

    def _controller(self, name: str) -> Controller:
        async def run(context: Context) -> None:
            queue: WorkQueue[str] = context.queue()
            maps = context.client.of(core_v1.ConfigMap)
            informer = Informer(maps, namespace=self.lock.namespace)
            informer.add_handler(
                Handler(
                    on_add=lambda found: queue.add(found.name),
                    on_update=lambda _old, new: queue.add(new.name),
                )
            )

            async def mark(key: str) -> None:
                known = informer.store.get(key, self.lock.namespace)
                if known is not None and known.metadata.labels.get("marked-by") != name:
                    patch = MergePatch({"metadata": {"labels": {"marked-by": name}}})
                    await maps.patch(key, patch, namespace=self.lock.namespace)

            with self.loops.counted(name):
                async with informer.running():
                    await context.reconcile(queue, mark)

        return Controller(name="marker", run=run, workers=2)
