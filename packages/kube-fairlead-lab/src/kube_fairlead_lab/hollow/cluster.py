"""A hollow cluster: kubelets, and the controllers that an API server alone does not have."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Iterable
from typing import Self

from kube_fairlead.base import tasks
from kube_fairlead.base.gates import FeatureGates
from kube_fairlead.base.metrics import DiscardedMetrics, Metrics
from kube_fairlead.client.client import Client
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.manager import Context, Controller, HealthChecks
from kube_fairlead_lab.hollow.caches import Caches
from kube_fairlead_lab.hollow.fleet import Fleet
from kube_fairlead_lab.hollow.heartbeat import HeartbeatOptions
from kube_fairlead_lab.hollow.kubelet import Kubelet
from kube_fairlead_lab.hollow.node_lifecycle import node_lifecycle
from kube_fairlead_lab.hollow.node_plans import NodePlan
from kube_fairlead_lab.hollow.scheduler import scheduler
from kube_fairlead_lab.hollow.workloads import workload_controllers

__all__ = ["HollowCluster", "HollowOptions"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HollowOptions:
    """Which components are hollow.

    `only_kubelets`: the real kube-controller-manager and kube-scheduler run elsewhere. `own_watches`: every kubelet
    watches its own pods, as real ones do, instead of sharing one watch. Without `with_scheduler` another scheduler
    has to run.
    """

    only_kubelets: bool = False
    own_watches: bool = False
    with_scheduler: bool = True
    heartbeat: HeartbeatOptions = dataclasses.field(default_factory=HeartbeatOptions)


class HollowCluster:
    """Hollow nodes and workload controllers. `async with cluster.running()`."""

    def __init__(
        self,
        client: Client,
        plans: Iterable[NodePlan],
        options: HollowOptions | None = None,
        *,
        metrics: Metrics | None = None,
    ) -> None:
        self._client = client
        self._options = options or HollowOptions()
        self._metrics = metrics or DiscardedMetrics()
        self._recorder = EventRecorder(client, controller="hollow.fairlead.dev", instance="hollow")
        self.caches = Caches(client)
        self.fleet = Fleet(
            client,
            plans,
            caches=self.caches,
            metrics=self._metrics,
            heartbeat=self._options.heartbeat,
            own_watches=self._options.own_watches,
        )

    def kubelet(self, name: str) -> Kubelet:
        """The kubelet of a node, to stop, start or power off.

        Raises:
            KeyError: no hollow node has this name.
        """
        return self.fleet.kubelet(name)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Run the cluster for the duration of the block, which begins when every node is registered."""
        stopping = asyncio.Event()
        async with (
            self._recorder.running(),
            self.caches.running(),
            tasks.TaskScope("hollow", on_exit=tasks.OnExit.CANCEL) as scope,
        ):
            scope.start(self.fleet.run(), name="fleet")
            async with tasks.TaskScope("hollow/controllers") as controlling:
                for controller in self._controllers():
                    controlling.start(self._run(controller, stopping), name=controller.name)
                try:
                    await self.fleet.wait_registered()
                    yield self
                finally:
                    stopping.set()

    def _controllers(self) -> list[Controller]:
        if self._options.only_kubelets:
            return []
        chosen = [node_lifecycle(self.caches), *workload_controllers(self.caches)]
        return [*chosen, scheduler(self.caches)] if self._options.with_scheduler else chosen

    async def _run(self, controller: Controller, stopping: asyncio.Event) -> None:
        context = Context(
            name=controller.name,
            client=self._client,
            recorder=self._recorder,
            stopping=stopping,
            metrics=self._metrics,
            gates=FeatureGates(),
            health=HealthChecks(),
            workers=controller.workers,
        )
        await controller.run(context)
