"""ReplicaSets: a number of interchangeable pods.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/controller/replicaset/replica_set.go,
    k8s.io/kubernetes@v1.36.4/pkg/controller/controller_utils.go
"""

from __future__ import annotations

from kube_fairlead.api.apps_v1 import ReplicaSet
from kube_fairlead.api.core_v1 import Pod
from kube_fairlead.base import tasks
from kube_fairlead.manager import Context, Controller
from kube_fairlead_lab.hollow.caches import Caches
from kube_fairlead_lab.hollow.workloads.pods import OwnedPods, is_ready, pod_from

__all__ = ["replica_sets", "to_delete"]

# Pods of one set that are created at once.
_BURST = 20


def replica_sets(caches: Caches) -> Controller:
    """Return the controller, for a manager to run."""

    async def run(context: Context) -> None:
        pods: OwnedPods[ReplicaSet] = OwnedPods(context, caches, ReplicaSet)

        async def handle(owner: ReplicaSet) -> float | None:
            return await _reconcile(pods, owner)

        await pods.run(handle)

    return Controller(name="hollow-replicaset", run=run, workers=4)


async def _reconcile(pods: OwnedPods[ReplicaSet], owner: ReplicaSet) -> float | None:
    wanted = 1 if owner.spec.replicas is None else owner.spec.replicas
    every = pods.of(owner)
    active = [pod for pod in every if not pod.deleting and not pod.finished]
    missing = wanted - len(active)
    if missing > 0:
        tree = pod_from(owner, metadata={"generateName": f"{owner.name}-"})
        async with tasks.TaskScope("hollow/replicaset") as scope:
            for number in range(min(missing, _BURST)):
                scope.start(pods.create(tree), name=f"create-{number}")
        # The watch of the new pods queues it again; so does this, if the watch is slow.
        return 0.0 if missing > _BURST else None
    surplus = to_delete(active, -missing)
    for pod in surplus:
        await pods.delete(pod)
    if surplus:
        return None  # the status follows when the watch shows the deletions
    ready = sum(map(is_ready, active))
    await pods.write_status(
        owner,
        {
            "replicas": len(active),
            "fullyLabeledReplicas": len(active),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": owner.metadata.generation,
        },
    )
    return None


def to_delete(pods: list[Pod], count: int) -> list[Pod]:
    """Return the surplus pods to delete: unassigned ones first, then unready ones, then the youngest."""
    ranked = sorted(
        pods,
        key=lambda pod: (
            bool(pod.spec.node_name),
            pod.status.phase == "Running",
            is_ready(pod),
            -(pod.metadata.creation_timestamp.timestamp() if pod.metadata.creation_timestamp else 0.0),
            pod.name,
        ),
    )
    return ranked[: max(0, count)]
