"""A small scheduler: binds each pod to the node with the fewest pods among those that it fits."""

from __future__ import annotations

from collections.abc import Iterator

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node, Pod
from kube_fairlead.api.time import format_time
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.client import patches, subresources
from kube_fairlead.client.informer import Handler
from kube_fairlead.client.objects import Key, key_of
from kube_fairlead.manager import Context, Controller
from kube_fairlead_lab.hollow.caches import BY_NODE, Caches
from kube_fairlead_lab.hollow.predicates import explain, unfit_reason

__all__ = ["SCHEDULER", "scheduler"]

SCHEDULER = "hollow-scheduler"

_SCHEDULER_NAME = "default-scheduler"
_WORKERS = 8


def scheduler(caches: Caches | None = None, *, scheduler_name: str = _SCHEDULER_NAME) -> Controller:
    """Return the controller, for a manager to run. Without `caches` each term has its own."""

    async def run(context: Context) -> None:
        if caches is not None:
            await _Scheduler(context, caches, scheduler_name).run()
            return
        async with Caches(context.client).running() as own:
            await _Scheduler(context, own, scheduler_name).run()

    return Controller(name=SCHEDULER, run=run, workers=_WORKERS)


class _Scheduler:
    """One run of the scheduler."""

    def __init__(self, context: Context, caches: Caches, scheduler_name: str) -> None:
        self._context = context
        self._client = context.client
        self._caches = caches
        self._scheduler_name = scheduler_name
        self._queue: WorkQueue[Key] = context.queue()
        self._assumed: dict[Key, tuple[str, str]] = {}  # uid and node of bound pods that the cache does not show yet
        self._load = _Load()
        self._written_reasons: dict[Key, str] = {}  # the message that was written for an unschedulable pod

    async def run(self) -> None:
        if not await self._context.wait_synced(self._caches.nodes, self._caches.pods):
            return
        self._caches.nodes.add_handler(
            Handler(
                on_add=lambda node: self._node_changed(node.name),
                on_update=self._node_updated,
                on_delete=lambda node: self._load.drop(node.name),
            )
        )
        self._caches.pods.add_handler(
            Handler(
                on_add=self._pod_changed, on_update=lambda _old, new: self._pod_changed(new), on_delete=self._pod_gone
            )
        )
        await self._context.reconcile(self._queue, self._handle)

    def _node_changed(self, name: str) -> None:
        self._load.put(name, len(self._pods_on(name)))
        for key in list(self._written_reasons):
            self._queue.add(key)

    def _node_updated(self, old: Node, new: Node) -> None:
        # Heartbeats do not affect scheduling.
        if (old.spec, old.metadata.labels, old.status.allocatable) != (
            new.spec,
            new.metadata.labels,
            new.status.allocatable,
        ):
            self._node_changed(new.name)

    def _pod_changed(self, pod: Pod) -> None:
        key = key_of(pod)
        if pod.spec.node_name:
            self._assumed.pop(key, None)
            self._written_reasons.pop(key, None)
            self._recount(pod.spec.node_name)
        elif not pod.deleting and pod.spec.scheduler_name == self._scheduler_name:
            self._queue.add(key)

    def _pod_gone(self, pod: Pod) -> None:
        self._assumed.pop(key_of(pod), None)
        self._written_reasons.pop(key_of(pod), None)
        if pod.spec.node_name:
            self._recount(pod.spec.node_name)
            for key in list(self._written_reasons):
                self._queue.add(key)

    def _pods_on(self, node: str) -> list[str]:
        there = [pod.key for pod in self._caches.pods.store.by_index(BY_NODE, node) if not pod.finished]
        return there + [str(key) for key, (_, chosen) in self._assumed.items() if chosen == node]

    def _recount(self, node: str) -> None:
        if self._caches.nodes.store.get(node) is not None:
            self._load.put(node, len(self._pods_on(node)))

    async def _handle(self, key: Key) -> float | None:
        pod = self._caches.pods.store.by_key(key)
        if pod is None or pod.spec.node_name or pod.deleting or self._assumed.get(key, ("", ""))[0] == pod.uid:
            return None
        chosen, reasons = self._choose(pod)
        if not chosen:
            await self._write_reason(pod, explain(reasons))
            return None
        self._assumed[key] = (pod.uid, chosen)
        self._load.put(chosen, self._load.of(chosen) + 1)
        try:
            await subresources.bind(self._client, pod.name, namespace=pod.namespace, node=chosen, uid=pod.uid)
        except BaseException as error:
            self._assumed.pop(key, None)
            self._recount(chosen)
            # Deleted, or bound by another scheduler: the watch shows it.
            if isinstance(error, api_errors.NotFound | api_errors.Conflict):
                return None
            raise
        return None

    def _choose(self, pod: Pod) -> tuple[str, list[str]]:
        reasons = []
        for name, count in self._load:
            node = self._caches.nodes.store.get(name)
            if node is None:
                continue
            why = unfit_reason(pod, node, count)
            if not why:
                return name, []
            reasons.append(why)
        return "", reasons

    async def _write_reason(self, pod: Pod, message: str) -> None:
        key = key_of(pod)
        if self._written_reasons.get(key) == message:
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": format_time(self._client.clock.now()),
        }
        patch = patches.StrategicMergePatch({"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}})
        self._written_reasons[key] = message
        try:
            await self._client.of(Pod).patch(pod.name, patch, namespace=pod.namespace, subresource="status")
        except (api_errors.NotFound, api_errors.Conflict):
            self._written_reasons.pop(key, None)


class _Load:
    """Number of pods per node; iterates from the emptiest to the fullest node."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._nodes: dict[int, dict[str, None]] = {}

    def __iter__(self) -> Iterator[tuple[str, int]]:
        for count in sorted(self._nodes):
            for name in list(self._nodes[count]):
                yield name, count

    def of(self, name: str) -> int:
        return self._counts.get(name, 0)

    def put(self, name: str, count: int) -> None:
        self.drop(name)
        self._counts[name] = count
        self._nodes.setdefault(count, {})[name] = None

    def drop(self, name: str) -> None:
        count = self._counts.pop(name, None)
        if count is not None:
            self._nodes[count].pop(name)
            if not self._nodes[count]:
                del self._nodes[count]
