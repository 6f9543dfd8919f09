"""scheduling.k8s.io/v1: the order in which pods matter.

Upstream: k8s.io/api@v0.36.4/scheduling/v1/types.go
"""

from __future__ import annotations

from kube_fairlead.api.meta import KubeObject
from kube_fairlead.api.parts import always

__all__ = ["PriorityClass"]

# The built-in classes; pods of system-cluster-critical and above end last when a node shuts down.


class PriorityClass(KubeObject):
    """A name for a priority."""

    api_version: str = always("scheduling.k8s.io/v1")
    kind: str = always("PriorityClass")
    value: int = always(0)
    global_default: bool = False
    description: str = ""
    preemption_policy: str | None = None
