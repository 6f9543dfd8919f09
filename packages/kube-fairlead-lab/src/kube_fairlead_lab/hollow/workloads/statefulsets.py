"""StatefulSets: pods with stable names, created in order and deleted in reverse order.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/controller/statefulset/stateful_set_control.go,
    k8s.io/kubernetes@v1.36.4/pkg/controller/statefulset/stateful_set_utils.go
"""

from __future__ import annotations

from kube_fairlead.api.apps_v1 import StatefulSet
from kube_fairlead.api.core_v1 import Pod
from kube_fairlead.manager import Context, Controller
from kube_fairlead_lab.hollow.caches import Caches
from kube_fairlead_lab.hollow.workloads.pods import OwnedPods, is_ready, pod_from

__all__ = ["stateful_sets"]


def stateful_sets(caches: Caches) -> Controller:
    """Return the controller, for a manager to run."""

    async def run(context: Context) -> None:
        pods: OwnedPods[StatefulSet] = OwnedPods(context, caches, StatefulSet)

        async def handle(owner: StatefulSet) -> float | None:
            return await _reconcile(pods, owner)

        await pods.run(handle)

    return Controller(name="hollow-statefulset", run=run, workers=2)


async def _reconcile(pods: OwnedPods[StatefulSet], owner: StatefulSet) -> float | None:
    wanted = 1 if owner.spec.replicas is None else owner.spec.replicas
    by_name = {pod.name: pod for pod in pods.of(owner)}
    await _take_step(pods, owner, wanted, by_name)
    ready = sum(map(is_ready, by_name.values()))
    await pods.write_status(
        owner,
        {
            "replicas": len(by_name),
            "readyReplicas": ready,
            "currentReplicas": len(by_name),
            "updatedReplicas": len(by_name),
            "availableReplicas": ready,
            "observedGeneration": owner.metadata.generation,
        },
    )
    return None


async def _take_step(pods: OwnedPods[StatefulSet], owner: StatefulSet, wanted: int, by_name: dict[str, Pod]) -> None:
    """Take one step; the watch triggers the next. In order, each step waits for the pod before it."""
    in_order = owner.spec.pod_management_policy != "Parallel"
    for ordinal in range(wanted):
        name = f"{owner.name}-{ordinal}"
        pod = by_name.get(name)
        if pod is None:
            await pods.create(_pod(owner, name, ordinal))
        elif pod.finished and not pod.deleting:
            await pods.delete(pod)
        if in_order and (pod is None or not is_ready(pod)):
            return
    surplus = [pod for pod in by_name.values() if _ordinal(pod) >= wanted]
    for pod in sorted(surplus, key=_ordinal, reverse=True):
        if not pod.deleting:
            await pods.delete(pod)
        if in_order:
            return


def _pod(owner: StatefulSet, name: str, ordinal: int) -> dict[str, object]:
    labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(ordinal)}
    tree = pod_from(owner, metadata={"name": name, "labels": labels})
    tree["spec"] = tree["spec"] | {"hostname": name, "subdomain": owner.spec.service_name}
    return tree


def _ordinal(pod: Pod) -> int:
    tail = pod.name.rpartition("-")[2]
    return int(tail) if tail.isdigit() else 0
