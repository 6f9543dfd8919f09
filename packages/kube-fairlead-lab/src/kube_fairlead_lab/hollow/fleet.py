"""Many hollow kubelets in one process: they register, heartbeat, and run their pods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple, assert_never

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Namespace, Pod
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base import logs, tasks
from kube_fairlead.base.identity import RandomIds
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.base.reconcile import reconcile
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.client import patches
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.objects import Key, key_of
from kube_fairlead_lab.hollow.caches import BY_NODE, Caches
from kube_fairlead_lab.hollow.heartbeat import NODE_LEASES, Heartbeat, HeartbeatOptions
from kube_fairlead_lab.hollow.kubelet import Kubelet, Remove, Report, Wait
from kube_fairlead_lab.hollow.node_plans import NodePlan

__all__ = ["Fleet"]

# As many concurrent requests as a handful of real kubelets.
_WORKERS = 16

_log = logs.get_logger(__name__)


class _Place(NamedTuple):
    """A pod on a node."""

    node: str
    pod: Key


class Fleet:
    """The kubelets of some nodes. `kubelet` returns one by name, to stop it or power it off."""

    def __init__(
        self,
        client: Client,
        plans: Iterable[NodePlan],
        *,
        caches: Caches,
        metrics: Metrics,
        heartbeat: HeartbeatOptions | None = None,
        own_watches: bool = False,
    ) -> None:
        self._client = client
        self._caches = caches
        self._metrics = metrics
        self._queue: WorkQueue[_Place] = WorkQueue(client.clock, client.randomness)
        self._ids = RandomIds(client.randomness)
        self._kubelets: dict[str, Kubelet] = {}
        self._registered: set[str] = set()
        self._all_registered = asyncio.Event()
        self._heartbeat = Heartbeat(client, heartbeat or HeartbeatOptions())
        self._own: dict[str, Informer[Pod]] = {}
        for plan in plans:
            self._add(plan, own_watch=own_watches)

    @property
    def kubelets(self) -> list[Kubelet]:
        """All kubelets."""
        return list(self._kubelets.values())

    def kubelet(self, name: str) -> Kubelet:
        """The kubelet of a node.

        Raises:
            KeyError: the fleet has no such node.
        """
        return self._kubelets[name]

    def reboot(self, name: str) -> None:
        """Power a node off and on again."""
        kubelet = self._kubelets[name]
        kubelet.power_off(self._client.clock.now())
        kubelet.boot(self._ids.uuid())

    async def wait_registered(self) -> None:
        """Wait until every node is registered and ready."""
        await self._all_registered.wait()

    async def run(self) -> None:
        """Run the kubelets until cancelled. The nodes stay in the API, as after a power-off."""
        if not self._own:
            self._caches.pods.add_handler(self._handler())
        async with tasks.TaskScope("hollow/fleet", on_exit=tasks.OnExit.CANCEL) as scope:
            await self._ensure_lease_namespace()
            for name, informer in self._own.items():
                informer.add_handler(self._handler())
                scope.start(informer.run(), name=f"pods-{name}")
            scope.start(self._register_all(), name="register")
            scope.start(self._heartbeat.run(self._metrics), name="heartbeat")
            await reconcile(
                self._queue,
                self._handle,
                name="hollow-kubelets",
                stopping=asyncio.Event(),
                clock=self._client.clock,
                metrics=self._metrics,
                workers=_WORKERS,
            )

    def _add(self, plan: NodePlan, *, own_watch: bool) -> None:
        kubelet = Kubelet(plan, boot_id=self._ids.uuid(), on_change=lambda pod: self._kubelet_changed(plan.name, pod))
        self._kubelets[plan.name] = kubelet
        if own_watch:
            pods = self._client.of(Pod, keep=False)
            self._own[plan.name] = Informer(pods, field_selector=f"spec.nodeName={plan.name}")

    def _handler(self) -> Handler[Pod]:
        return Handler(
            on_add=self._pod_changed, on_update=lambda _old, new: self._pod_changed(new), on_delete=self._pod_gone
        )

    def _pod_changed(self, pod: Pod) -> None:
        if pod.spec.node_name in self._kubelets:
            self._queue.add(_Place(pod.spec.node_name, key_of(pod)))

    def _pod_gone(self, pod: Pod) -> None:
        kubelet = self._kubelets.get(pod.spec.node_name)
        if kubelet is not None:
            kubelet.runtime.forget(pod.uid)

    def _kubelet_changed(self, name: str, pod: Pod | None) -> None:
        """A sandbox or the whole kubelet has changed."""
        if pod is not None:
            self._queue.add(_Place(name, key_of(pod)))
            return
        self._heartbeat.changed(name)
        for one in self._own[name].store if self._own else self._caches.pods.store.by_index(BY_NODE, name):
            self._queue.add(_Place(name, key_of(one)))

    async def _handle(self, place: _Place) -> float | None:
        kubelet = self._kubelets[place.node]
        informer = self._own[place.node] if self._own else self._caches.pods
        pod = informer.store.by_key(place.pod)
        if pod is None or pod.spec.node_name != kubelet.name:
            return None
        if not kubelet.is_running or kubelet.name not in self._registered:
            return None  # handled again when it is
        now = self._client.clock.now()
        match kubelet.next_step(pod, now):
            case Report(status):
                await self._report(pod, status)
            case Remove():
                await self._remove(pod)
            case Wait(until):
                return None if until is None else max(0.0, (until - now).total_seconds())
            case other:
                assert_never(other)
        return None  # the watch shows the result

    async def _report(self, pod: Pod, status: dict[str, object]) -> None:
        patch = patches.StrategicMergePatch({"metadata": {"uid": pod.uid}, "status": status})
        try:
            await self._client.of(Pod).patch(pod.name, patch, namespace=pod.namespace, subresource="status")
        except (api_errors.NotFound, api_errors.Conflict):
            _log.debug("pod is gone or was replaced", pod=pod.key)

    async def _remove(self, pod: Pod) -> None:
        try:
            await self._client.of(Pod).delete(pod.name, namespace=pod.namespace, grace_period_seconds=0, uid=pod.uid)
        except (api_errors.NotFound, api_errors.Conflict):
            _log.debug("pod is gone or was replaced", pod=pod.key)

    async def _ensure_lease_namespace(self) -> None:
        try:
            await self._client.of(Namespace).create(Namespace(metadata=ObjectMeta(name=NODE_LEASES)))
        except api_errors.AlreadyExists:
            return

    async def _register_all(self) -> None:
        queue: WorkQueue[str] = WorkQueue(self._client.clock, self._client.randomness)
        stopping = asyncio.Event()
        for name in self._kubelets:
            queue.add(name)

        async def register(name: str) -> None:
            await self._register(name)
            if len(self._registered) == len(self._kubelets):
                stopping.set()

        if self._kubelets:
            await reconcile(
                queue,
                register,
                name="hollow-registration",
                stopping=stopping,
                clock=self._client.clock,
                metrics=self._metrics,
                workers=_WORKERS,
            )
        self._all_registered.set()

    async def _register(self, name: str) -> None:
        kubelet = self._kubelets[name]
        await self._heartbeat.register(kubelet)
        self._registered.add(name)
        self._kubelet_changed(name, None)
