"""policy/v1: disruption budgets, and evictions that respect them.

Upstream: k8s.io/api@v0.36.4/policy/v1/types.go
"""

from __future__ import annotations

from kube_fairlead.api.meta import Condition, DeleteOptions, KubeObject, LabelSelector
from kube_fairlead.api.parts import IntOrString, Part, Time, always, mapping

__all__ = ["Eviction", "PodDisruptionBudget", "PodDisruptionBudgetSpec", "PodDisruptionBudgetStatus"]


class PodDisruptionBudgetSpec(Part):
    """How many of which pods must stay; a missing selector selects none, an empty one all."""

    min_available: IntOrString | None = None
    selector: LabelSelector | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Part):
    """How many may go now."""

    observed_generation: int = 0
    disrupted_pods: dict[str, Time] = mapping()
    disruptions_allowed: int = always(0)
    current_healthy: int = always(0)
    desired_healthy: int = always(0)
    expected_pods: int = always(0)
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(KubeObject):
    """Limits voluntary disruption."""

    api_version: str = always("policy/v1")
    kind: str = always("PodDisruptionBudget")
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class Eviction(KubeObject):
    """Requests a pod's deletion, if its budgets allow it."""

    api_version: str = always("policy/v1")
    kind: str = always("Eviction")
    delete_options: DeleteOptions | None = None
