"""Whether a pod fits a node, and if not, why. Pure.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go,
    k8s.io/kubernetes@v1.36.4/pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go,
    k8s.io/component-helpers@v0.36.4/scheduling/corev1/helpers.go,
    k8s.io/kubernetes@v1.36.4/pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go,
    k8s.io/kubernetes@v1.36.4/pkg/scheduler/framework/types.go
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kube_fairlead.api import nodeselectors
from kube_fairlead.api.core_v1 import Node, Pod, Taint, Toleration

__all__ = ["explain", "tolerates", "unfit_reason", "untolerated"]

_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def unfit_reason(pod: Pod, node: Node, pods_there: int) -> str:
    """Why the pod cannot run on the node, in kube-scheduler's words; empty if it can."""
    if node.spec.unschedulable and not _any_tolerates(pod.spec.tolerations, _UNSCHEDULABLE):
        return "node(s) were unschedulable"
    if not _is_wanted_by(pod, node):
        return "node(s) didn't match Pod's node affinity/selector"
    taint = untolerated(pod.spec.tolerations, node.spec.taints, ("NoSchedule", "NoExecute"))
    if taint is not None:
        return "node(s) had untolerated taint {" + f"{taint.key}: {taint.value}" + "}"
    if pods_there >= int(node.status.allocatable.get("pods", 0)):
        return "Too many pods"
    return ""


def explain(reasons: Iterable[str]) -> str:
    """Return all reasons in one line, as kube-scheduler writes it."""
    counted = Counter(reasons)
    if not counted:
        return "no nodes available to schedule pods"
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in counted.items()))
    return f"0/{counted.total()} nodes are available: {listed}."


def untolerated(tolerations: Sequence[Toleration], taints: Iterable[Taint], effects: Sequence[str]) -> Taint | None:
    """Return the first taint with one of these effects that is not tolerated."""
    return next((taint for taint in taints if taint.effect in effects and not _any_tolerates(tolerations, taint)), None)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether a toleration tolerates a taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or (bool(toleration.key) and toleration.value == taint.value)


def _any_tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


def _is_wanted_by(pod: Pod, node: Node) -> bool:
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or nodeselectors.selects(required, node.name, labels)
