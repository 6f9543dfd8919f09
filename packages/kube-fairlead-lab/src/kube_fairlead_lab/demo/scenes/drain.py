"""KEP-5683 end to end: a node is drained by its own agent and driver; a disruption budget blocks it for a while."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import tempfile
from collections.abc import AsyncIterator

from kube_fairlead import operations
from kube_fairlead.agent import launch
from kube_fairlead.api import wire
from kube_fairlead.api.apps_v1 import Deployment
from kube_fairlead.api.core_v1 import Namespace, Node, Pod
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.policy_v1 import PodDisruptionBudget
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION, NODE_DRAIN, NODE_UNCORDON
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.base.tasks import OnExit, TaskScope
from kube_fairlead.client import subresources
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.drivers import sdk
from kube_fairlead.drivers.drain.driver import DrainDriver
from kube_fairlead.lifecycle.facts import Settings
from kube_fairlead_lab.demo.context import SceneContext
from kube_fairlead_lab.hollow import HollowCluster, plan_nodes

__all__ = ["play"]

_SHOP = "shop"
_REPLICAS = 4


async def play(context: SceneContext) -> None:
    """Run the scene."""
    nodes = plan_nodes(2, prefix="rack-", clouds=[""])
    leaving, staying = (plan.name for plan in nodes)
    async with (
        HollowCluster(context.client, nodes).running(),
        _lifecycle_on(context, leaving),
        _Ready(context).watching() as ready,
    ):
        await _create_workloads(context)
        await ready.until(_REPLICAS)
        before = ready.on(leaving)
        context.narrate(
            f"{_REPLICAS} ready pods, {before} of them on {leaving}; a budget has minAvailable: {_REPLICAS}"
        )
        drain, uncordon = _Progress(context), _Progress(context)
        selected = await operations.select_nodes(context.client, [leaving])
        async with TaskScope("demo scene") as scope:
            context.narrate(f"$ fairlead drain {leaving}")
            draining = scope.start(operations.drain(context.client, selected, report=drain), name="drain")
            await drain.blocked.wait()
            context.check(
                ready.on(leaving) == before, "no pod was evicted, and the drain names the budget that blocks it"
            )
            context.narrate(f"$ kubectl scale deployment/web --replicas={_REPLICAS + 1}")
            deployments = context.client.of(Deployment).resource.gvr
            await subresources.set_scale(context.client, deployments, "web", _REPLICAS + 1, namespace=_SHOP)
            context.check(
                not (await draining)[leaving].failed,
                f"the budget's new status continued the drain, and {leaving} is empty",
            )
        context.check(ready.fewest >= _REPLICAS, f"there were never fewer than {_REPLICAS} ready pods")
        context.check(ready.on(leaving) == 0 and ready.on(staying) == _REPLICAS + 1, f"all pods are on {staying} now")
        await _expect_state(context, leaving, NODE_DRAIN.end)
        context.narrate(f"$ fairlead uncordon {leaving}")
        await operations.uncordon(context.client, selected, report=uncordon)
        await _expect_state(context, leaving, NODE_UNCORDON.end)


class _Progress:
    """Prints what `fairlead drain` shows in a terminal."""

    def __init__(self, context: SceneContext) -> None:
        self._context = context
        self._last = ""
        self.blocked = asyncio.Event()  # a disruption budget blocks an eviction

    def __call__(self, progress: operations.OperationProgress) -> None:
        match progress:
            case operations.EventRequested(node, operation, event):
                self._context.narrate(f"  node/{node}: {operation} requested (lifecycleevent/{event})")
            case operations.EventChanged(node, _, _, summary):
                if summary != self._last:
                    self._context.narrate(f"  node/{node}: {summary}")
                self._last = summary
                if "blocked: " in summary:
                    self.blocked.set()
            case operations.Ended(node, outcome):
                self._context.narrate(f"  node/{node}: {outcome.result}{outcome.message and ': ' + outcome.message}")
            case _:
                pass


class _Ready:
    """How many pods of the namespace are ready, on which node, and the lowest number since `until`."""

    def __init__(self, context: SceneContext) -> None:
        self._pods = Informer(context.client.of(Pod), namespace=_SHOP)
        self._changed = asyncio.Event()
        self._enough = 0
        self.fewest = 0

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[_Ready]:
        self._pods.add_handler(
            Handler(
                on_add=lambda _new: self._count(),
                on_update=lambda _old, _new: self._count(),
                on_delete=lambda _old: self._count(),
            )
        )
        async with self._pods.running():
            yield self

    def on(self, node: str) -> int:
        """Return the number of ready pods on a node."""
        return sum(pod.spec.node_name == node for pod in self._ready())

    async def until(self, number: int) -> None:
        """Wait for this number of ready pods, and record the lowest number from then on."""
        while len(self._ready()) < number:
            self._changed.clear()
            await self._changed.wait()
        self._enough = self.fewest = number

    def _ready(self) -> list[Pod]:
        conditions = ((pod, pod.condition("Ready")) for pod in self._pods.store if not pod.deleting)
        return [pod for pod, ready in conditions if ready is not None and ready.status == "True"]

    def _count(self) -> None:
        if self._enough:
            self.fewest = min(self.fewest, len(self._ready()))
        self._changed.set()


@contextlib.asynccontextmanager
async def _lifecycle_on(context: SceneContext, node: str) -> AsyncIterator[None]:
    """Run an agent and a drain driver for a node; they use real sockets, as on a node."""
    with tempfile.TemporaryDirectory(prefix="fl-") as folder:
        registry = pathlib.Path(folder) / "registry"
        settings = launch.LaunchSettings(
            node_name=node, registry=registry, state=pathlib.Path(folder), settings=Settings()
        )
        async with (
            TaskScope("demo agent", on_exit=OnExit.CANCEL) as scope,
            sdk.serving(DrainDriver(context.client, node_name=node), sdk.Options(registry=registry)) as driver,
        ):
            registration = scope.start(driver.wait_told(), name="registration")
            scope.start(launch.serve(context.client, settings, DiscardedMetrics()), name="agent")
            await registration
            context.check(
                driver.registered, f"the drain driver has registered with the agent of {node}, as kubelet plugins do"
            )
            yield


async def _create_workloads(context: SceneContext) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]}}
    spec = {"replicas": _REPLICAS, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "web", "namespace": _SHOP}
    await context.client.of(Namespace).create(Namespace(metadata=ObjectMeta(name=_SHOP)))
    await context.client.of(Deployment).create(wire.from_dict(Deployment, {"metadata": metadata, "spec": spec}))
    wanted = {"minAvailable": _REPLICAS, "selector": {"matchLabels": labels}}
    budget = wire.from_dict(PodDisruptionBudget, {"metadata": metadata, "spec": wanted})
    await context.client.of(PodDisruptionBudget).create(budget)


async def _expect_state(context: SceneContext, name: str, state: str) -> None:
    condition = (await context.client.of(Node).get(name)).condition(CONDITION_LIFECYCLE_TRANSITION)
    reached = condition.reason if condition is not None else ""
    context.check(reached == state, f"Node {name} has the condition reason {state}")
