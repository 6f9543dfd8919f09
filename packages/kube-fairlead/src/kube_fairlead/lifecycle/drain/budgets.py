"""Disruption budgets as the eviction subresource reads them: which cover a pod, and whether they allow its eviction.

The API server decides. Computing its decision in advance avoids requests that it must reject, and shows when a retry
makes sense: when the status of the budget changes.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/core/pod/storage/eviction.go
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from kube_fairlead.api import selectors, wire
from kube_fairlead.api.core_v1 import Pod, PodPhase
from kube_fairlead.api.policy_v1 import PodDisruptionBudget

__all__ = ["Budgets", "Cover", "is_exempt"]


@dataclasses.dataclass(frozen=True, slots=True)
class Cover:
    """The budgets that cover a pod, sorted by name. The API server rejects the eviction of a pod with two."""

    budgets: tuple[PodDisruptionBudget, ...]

    @property
    def token(self) -> frozenset[tuple[str, str]]:
        """A value that changes when any of the budgets does."""
        return frozenset((budget.uid, budget.metadata.resource_version) for budget in self.budgets)

    @property
    def names(self) -> str:
        """The names, for messages."""
        return ", ".join(budget.key for budget in self.budgets)

    @property
    def single(self) -> PodDisruptionBudget | None:
        """The budget, if it is the only one and its status is of its present generation."""
        if len(self.budgets) != 1:
            return None
        budget = self.budgets[0]
        return budget if budget.status.observed_generation >= budget.metadata.generation else None


class Budgets:
    """All budgets at one moment. Selectors are parsed once."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: dict[str, list[tuple[PodDisruptionBudget, selectors.LabelMatcher]]] = {}
        for budget in sorted(budgets, key=lambda one: one.key):
            if budget.spec.selector is None:
                continue  # selects nothing
            matcher = selectors.label_selector_from(wire.to_dict(budget.spec.selector))
            self._by_namespace.setdefault(budget.namespace, []).append((budget, matcher))

    def covering(self, pod: Pod) -> Cover:
        """Return those that cover a pod."""
        known = self._by_namespace.get(pod.namespace, ())
        return Cover(tuple(budget for budget, matcher in known if matcher.matches(pod.metadata.labels)))


def is_exempt(pod: Pod) -> bool:
    """Whether budgets do not apply to the pod: it is pending, finished or terminating.

    The policy of a budget may also exempt a running pod that is not ready. Only the API server can decide that, so such
    a pod counts as exempt here, and its eviction is requested.
    """
    if pod.deleting or pod.finished or pod.status.phase == PodPhase.PENDING:
        return True
    ready = pod.condition("Ready")
    return ready is None or ready.status != "True"
