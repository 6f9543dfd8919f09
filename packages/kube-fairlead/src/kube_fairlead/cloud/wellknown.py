"""The names that Kubernetes and others gave to what a cloud controller manager reads and writes.

Upstream: k8s.io/cloud-provider@v0.36.4/api/well_known_annotations.go,
    k8s.io/cloud-provider@v0.36.4/api/well_known_taints.go
"""

from __future__ import annotations

from typing import Final

from kube_fairlead.api.core_v1 import Node, Taint, TaintEffect

__all__ = [
    "ANNOTATION_CONFIRM_DELETION",
    "ANNOTATION_LOAD_BALANCER_PROVIDER",
    "ANNOTATION_PLATFORMS",
    "ANNOTATION_PROVIDED_NODE_IP",
    "FINALIZER_LOAD_BALANCER",
    "LABEL_EXCLUDE_FROM_LOAD_BALANCERS",
    "LABEL_INSTANCE_TYPE",
    "LABEL_INSTANCE_TYPE_BETA",
    "LABEL_PLATFORM",
    "LABEL_REGION",
    "LABEL_REGION_BETA",
    "LABEL_ZONE",
    "LABEL_ZONE_BETA",
    "SHUTDOWN_TAINT",
    "TAINTS_OF_AUTOSCALERS",
    "TAINT_TO_BE_DELETED",
    "TAINT_UNINITIALIZED",
    "has_taint",
    "is_ready",
    "ready_status",
    "without_taint",
]

TAINT_UNINITIALIZED: Final = "node.cloudprovider.kubernetes.io/uninitialized"
SHUTDOWN_TAINT: Final = Taint(key="node.cloudprovider.kubernetes.io/shutdown", effect=TaintEffect.NO_SCHEDULE)
TAINT_TO_BE_DELETED: Final = "ToBeDeletedByClusterAutoscaler"
# A node that bears one of these was announced to go away: its machine vanishing is no surprise.
TAINTS_OF_AUTOSCALERS: Final = frozenset({TAINT_TO_BE_DELETED, "karpenter.sh/disrupted"})

LABEL_PLATFORM: Final = "node.cloudprovider.kubernetes.io/platform"
LABEL_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
LABEL_INSTANCE_TYPE_BETA: Final = "beta.kubernetes.io/instance-type"
LABEL_ZONE: Final = "topology.kubernetes.io/zone"
LABEL_ZONE_BETA: Final = "failure-domain.beta.kubernetes.io/zone"
LABEL_REGION: Final = "topology.kubernetes.io/region"
LABEL_REGION_BETA: Final = "failure-domain.beta.kubernetes.io/region"
LABEL_EXCLUDE_FROM_LOAD_BALANCERS: Final = "node.kubernetes.io/exclude-from-external-load-balancers"

ANNOTATION_PROVIDED_NODE_IP: Final = "alpha.kubernetes.io/provided-node-ip"
# A user's confirmation that a node whose machine has vanished may be deleted, however many vanished with it.
ANNOTATION_CONFIRM_DELETION: Final = "cloud.fairlead.dev/confirm-deletion"
# Which of several cloud controller managers handles a Service's load balancer.
ANNOTATION_LOAD_BALANCER_PROVIDER: Final = "cloud.fairlead.dev/load-balancer-provider"
# On the Lease of a cloud controller manager: the platforms whose nodes are its own.
ANNOTATION_PLATFORMS: Final = "cloud.fairlead.dev/platforms"

FINALIZER_LOAD_BALANCER: Final = "service.kubernetes.io/load-balancer-cleanup"


def has_taint(node: Node, *keys: str) -> bool:
    """Whether a node bears a taint of one of these keys."""
    return any(taint.key in keys for taint in node.spec.taints)


def without_taint(node: Node, key: str) -> tuple[Taint, ...]:
    """A node's taints, but for those of this key."""
    return tuple(taint for taint in node.spec.taints if taint.key != key)


def ready_status(node: Node) -> str:
    """What the Ready condition says; a node without one has not said anything yet."""
    condition = node.condition("Ready")
    return condition.status if condition is not None else "Unknown"


def is_ready(node: Node) -> bool:
    """Whether the node's Ready condition is True."""
    return ready_status(node) == "True"
