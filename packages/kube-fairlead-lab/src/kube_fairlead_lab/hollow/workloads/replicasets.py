"""ReplicaSets: so many pods, whichever.

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

__all__ = ["replica_sets", "to_end"]

# At most so many pods of one set are made at once.
_BURST = 20


def replica_sets(caches: Caches) -> Controller:
    """The controller, for a manager to run."""

    async def run(context: Context) -> None:
        pods: OwnedPods[ReplicaSet] = OwnedPods(context, caches, ReplicaSet)

        async def handle(owner: ReplicaSet) -> float | None:
            return await _put_right(pods, owner)

        await pods.run(handle)

    return Controller(name="hollow-replicaset", run=run, workers=4)


async def _put_right(pods: OwnedPods[ReplicaSet], owner: ReplicaSet) -> float | None:
    wanted = 1 if owner.spec.replicas is None else owner.spec.replicas
    every = pods.of(owner)
    active = [pod for pod in every if not pod.deleting and not pod.finished]
    missing = wanted - len(active)
    if missing > 0:
        tree = pod_from(owner, metadata={"generateName": f"{owner.name}-"})
        async with tasks.TaskScope("hollow/replicaset") as scope:
            for number in range(min(missing, _BURST)):
                scope.start(pods.create(tree), name=f"create-{number}")
        # The watch of what was made brings it back here; so does this, should the watch be slow.
        return 0.0 if missing > _BURST else None
    surplus = to_end(active, -missing)
    for pod in surplus:
        await pods.delete(pod)
    if surplus:
        return None  # the status follows when they are seen to go
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


def to_end(pods: list[Pod], count: int) -> list[Pod]:
    """Which to end when there are too many: those that run nowhere first, then those not ready, then the youngest."""
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
