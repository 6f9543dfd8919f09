"""The node lifecycle controller: taints by conditions, detects missing heartbeats, evicts pods by taints.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/controller/nodelifecycle/node_lifecycle_controller.go,
    k8s.io/kubernetes@v1.36.4/pkg/controller/tainteviction/taint_eviction.go
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.core_v1 import Node, NodeCondition, Pod, Taint
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.client import patches
from kube_fairlead.client.informer import Handler
from kube_fairlead.manager import Context, Controller
from kube_fairlead_lab.hollow.caches import BY_NODE, Caches
from kube_fairlead_lab.hollow.heartbeat import NODE_LEASES
from kube_fairlead_lab.hollow.predicates import tolerates

__all__ = ["NODE_LIFECYCLE", "evicted_at", "node_lifecycle", "wanted_taints"]

NODE_LIFECYCLE: Final = "hollow-node-lifecycle"

_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_OURS: Final = {_NOT_READY, _UNREACHABLE, _UNSCHEDULABLE}
_KUBELETS: Final = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"})
# kube-controller-manager's --node-monitor-grace-period.
_SILENCE_SECONDS: Final = 50.0


def node_lifecycle(caches: Caches) -> Controller:
    """Return the controller, for a manager to run."""

    async def run(context: Context) -> None:
        await _NodeLifecycle(context, caches).run()

    return Controller(name=NODE_LIFECYCLE, run=run, workers=4)


def wanted_taints(node: Node, now: dt.datetime) -> tuple[Taint, ...]:
    """Return the taints that a node should have: foreign ones unchanged, its own by the node's conditions."""
    ready = node.condition("Ready")
    status = "Unknown" if ready is None else ready.status
    wanted: list[tuple[str, str]] = []
    if node.spec.unschedulable:
        wanted.append((_UNSCHEDULABLE, "NoSchedule"))
    if status != "True":
        key = _NOT_READY if status == "False" else _UNREACHABLE
        wanted += [(key, "NoSchedule"), (key, "NoExecute")]
    kept = [taint for taint in node.spec.taints if taint.key not in _OURS or (taint.key, taint.effect) in wanted]
    there = {(taint.key, taint.effect) for taint in kept}
    return (
        *kept,
        *(Taint(key=key, effect=effect, time_added=now) for key, effect in wanted if (key, effect) not in there),
    )


def evicted_at(pod: Pod, taints: Sequence[Taint]) -> dt.datetime | None:
    """When a pod must be evicted because of taints; None: it may stay."""
    moments: list[dt.datetime] = []
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        since = taint.time_added or dt.datetime.min.replace(tzinfo=dt.UTC)
        bearing = [one for one in pod.spec.tolerations if tolerates(one, taint)]
        if not bearing:
            moments.append(since)
        limits = [one.toleration_seconds for one in bearing if one.toleration_seconds is not None]
        if bearing and limits:
            moments.append(since + dt.timedelta(seconds=max(0, min(limits))))
    return min(moments, default=None)


class _NodeLifecycle:
    """One run of the controller."""

    def __init__(self, context: Context, caches: Caches) -> None:
        self._context = context
        self._client = context.client
        self._caches = caches
        self._leases = caches.of(Lease)
        self._queue: WorkQueue[str] = context.queue()

    async def run(self) -> None:
        nodes, pods = self._caches.nodes, self._caches.pods
        nodes.add_handler(
            Handler(
                on_add=lambda node: self._queue.add(node.name), on_update=lambda _old, new: self._queue.add(new.name)
            )
        )
        pods.add_handler(Handler(on_update=self._pod_updated))
        if await self._context.wait_synced(nodes, pods, self._leases):
            await self._context.reconcile(self._queue, self._handle)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if not old.spec.node_name and new.spec.node_name:
            self._queue.add(new.spec.node_name)

    async def _handle(self, name: str) -> float | None:
        node = self._caches.nodes.store.get(name)
        if node is None:
            return None
        now = self._client.clock.now()
        try:
            silent_in = await self._check_heartbeat(node, now)
            if silent_in is None:
                return 0.5  # the condition was just written; the taints follow when the watch shows it
            wanted = wanted_taints(node, now)
            if wanted != node.spec.taints:
                await self._write_taints(node, wanted)
                return None
            leaving_in = await self._evict(node, now)
        except (api_errors.NotFound, api_errors.Conflict):
            return 0.1
        return min(silent_in, leaving_in)

    async def _check_heartbeat(self, node: Node, now: dt.datetime) -> float | None:
        """Set the conditions to Unknown if heartbeats are missing: None; else the seconds until the next check."""
        lease = self._leases.store.get(node.name, NODE_LEASES)
        ready = node.condition("Ready")
        signs = (
            lease.spec.renew_time if lease is not None else None,
            ready.last_heartbeat_time if ready is not None else None,
            node.metadata.creation_timestamp,
        )
        heard = max((sign for sign in signs if sign is not None), default=now)
        left = _SILENCE_SECONDS - (now - heard).total_seconds()
        if left > 0 or (ready is not None and ready.status == "Unknown"):
            return max(left, 5.0)
        changed = [_unknown(condition, now) for condition in node.status.conditions if condition.type in _KUBELETS]
        status = {"conditions": [wire.to_dict(condition) for condition in changed]}
        await self._client.of(Node).patch(
            node.name, patches.StrategicMergePatch({"status": status}), subresource="status"
        )
        return None

    async def _write_taints(self, node: Node, taints: Sequence[Taint]) -> None:
        # Guarded by the resourceVersion: two writers of one list would undo each other.
        patch = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": [wire.to_dict(taint) for taint in taints] or None},
        }
        await self._client.of(Node).patch(node.name, patches.MergePatch(patch))

    async def _evict(self, node: Node, now: dt.datetime) -> float:
        again = _SILENCE_SECONDS
        if not any(taint.effect == "NoExecute" for taint in node.spec.taints):
            return again
        for pod in self._caches.pods.store.by_index(BY_NODE, node.name):
            moment = None if pod.deleting or pod.finished else evicted_at(pod, node.spec.taints)
            if moment is None:
                continue
            if moment > now:
                again = min(again, (moment - now).total_seconds())
                continue
            await self._client.of(Pod).delete(pod.name, namespace=pod.namespace, uid=pod.uid)
        return again


def _unknown(condition: NodeCondition, now: dt.datetime) -> NodeCondition:
    return wire.replace(
        condition,
        status="Unknown",
        reason="NodeStatusUnknown",
        message="Kubelet stopped posting node status.",
        last_transition_time=now,
    )
