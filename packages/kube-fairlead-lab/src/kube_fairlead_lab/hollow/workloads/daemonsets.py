"""DaemonSets: one pod on every eligible node.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/controller/daemon/daemon_controller.go,
    k8s.io/kubernetes@v1.36.4/pkg/controller/daemon/util/daemonset_util.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead.api import wire
from kube_fairlead.api.apps_v1 import DaemonSet
from kube_fairlead.api.core_v1 import Node, Pod
from kube_fairlead.client.informer import Handler
from kube_fairlead.client.objects import key_of
from kube_fairlead.manager import Context, Controller
from kube_fairlead_lab.hollow.caches import Caches
from kube_fairlead_lab.hollow.predicates import unfit_reason
from kube_fairlead_lab.hollow.workloads.pods import OwnedPods, is_ready, pod_from

__all__ = ["daemon_sets"]

# The tolerations of every daemon pod.
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


def daemon_sets(caches: Caches) -> Controller:
    """Return the controller, for a manager to run."""

    async def run(context: Context) -> None:
        await _DaemonSets(context, caches).run()

    return Controller(name="hollow-daemonset", run=run, workers=2)


class _DaemonSets:
    """One run of the controller."""

    def __init__(self, context: Context, caches: Caches) -> None:
        self._caches = caches
        self._pods: OwnedPods[DaemonSet] = OwnedPods(context, caches, DaemonSet)

    async def run(self) -> None:
        self._caches.nodes.add_handler(
            Handler(
                on_add=lambda _node: self._every(), on_update=self._node_updated, on_delete=lambda _node: self._every()
            )
        )
        await self._pods.run(self._reconcile)

    def _every(self) -> None:
        for owner in self._pods.owners.store:
            self._pods.queue.add(key_of(owner))

    def _node_updated(self, old: Node, new: Node) -> None:
        if (old.spec, old.metadata.labels) != (new.spec, new.metadata.labels):
            self._every()

    async def _reconcile(self, owner: DaemonSet) -> float | None:
        by_node: dict[str, list[Pod]] = {}
        for pod in self._pods.of(owner):
            by_node.setdefault(_node_of(pod), []).append(pod)
        ready = eligible = 0
        for node in self._caches.nodes.store:
            there = by_node.pop(node.name, [])
            tree = _pod(owner, node.name)
            # A full node is eligible, too: the scheduler reports why the pod does not fit.
            wanted = not unfit_reason(wire.from_dict(Pod, tree), node, pods_there=-1)
            eligible += wanted
            ready += any(map(is_ready, there))
            await self._reconcile_node(tree, there, wanted=wanted)
        for orphans in by_node.values():
            for pod in orphans:
                if not pod.deleting:
                    await self._pods.delete(pod)
        await self._pods.write_status(owner, _status(owner, eligible, ready))
        return None

    async def _reconcile_node(self, tree: dict[str, Any], there: list[Pod], *, wanted: bool) -> None:
        living = [pod for pod in there if not pod.deleting]
        for pod in living:
            if not wanted or pod.finished:
                await self._pods.delete(pod)
        # The next pod is created when the last one is gone: two daemons on a node would conflict.
        if wanted and not there:
            await self._pods.create(tree)


def _status(owner: DaemonSet, eligible: int, ready: int) -> dict[str, int]:
    return {
        "currentNumberScheduled": eligible,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": eligible,
        "numberReady": ready,
        "updatedNumberScheduled": eligible,
        "numberAvailable": ready,
        "numberUnavailable": eligible - ready,
        "observedGeneration": owner.metadata.generation,
    }


def _pod(owner: DaemonSet, node: str) -> dict[str, Any]:
    tree = pod_from(owner, metadata={"generateName": f"{owner.name}-"})
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    spec: dict[str, Any] = dict(tree["spec"])
    affinity = dict(spec.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [{**term, **here} for term in required.get("nodeSelectorTerms") or [{}]]
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    spec["affinity"] = affinity | {"nodeAffinity": node_affinity}
    tolerations = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED]
    if spec.get("hostNetwork"):
        tolerations.append(
            {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"}
        )
    spec["tolerations"] = [*(spec.get("tolerations") or []), *tolerations]
    return tree | {"spec": spec}


def _node_of(pod: Pod) -> str:
    """Its node, or the node that it is meant for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    for term in required.node_selector_terms if required is not None else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.values:
                return field.values[0]
    return ""
