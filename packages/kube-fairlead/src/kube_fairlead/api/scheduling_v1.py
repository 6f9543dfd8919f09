"""scheduling.k8s.io/v1: the order in which pods matter.

Upstream: k8s.io/api@v0.36.4/scheduling/v1/types.go
"""

from __future__ import annotations

from kube_fairlead.api.meta import KubeObject
from kube_fairlead.api.parts import always

__all__ = ["SYSTEM_CLUSTER_CRITICAL", "SYSTEM_NODE_CRITICAL", "PriorityClass"]

# The built-in classes; pods of system-cluster-critical and above end last when a node shuts down.
SYSTEM_CLUSTER_CRITICAL = 2_000_000_000
SYSTEM_NODE_CRITICAL = 2_000_001_000


class PriorityClass(KubeObject):
    """A name for a priority."""

    api_version: str = always("scheduling.k8s.io/v1")
    kind: str = always("PriorityClass")
    value: int = always(0)
    global_default: bool = False
    description: str = ""
    preemption_policy: str | None = None
