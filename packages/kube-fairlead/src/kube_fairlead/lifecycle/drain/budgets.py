"""Disruption budgets as the eviction subresource sees them: which cover a pod, and whether they would let it go now.

The server has the last word. Knowing its answer beforehand spares it requests that it must refuse, and tells when
asking again makes sense: when the budget's own status says so, not when a timer does.

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
    """The budgets that cover a pod, in the order of their names. The server serves none or one, and refuses two."""

    budgets: tuple[PodDisruptionBudget, ...]

    @property
    def token(self) -> frozenset[tuple[str, str]]:
        """Changes when any of the budgets does."""
        return frozenset((budget.uid, budget.metadata.resource_version) for budget in self.budgets)

    @property
    def names(self) -> str:
        """For people."""
        return ", ".join(budget.key for budget in self.budgets)

    @property
    def single(self) -> PodDisruptionBudget | None:
        """The budget, if there is exactly one and its status is about its present spec."""
        if len(self.budgets) != 1:
            return None
        budget = self.budgets[0]
        return budget if budget.status.observed_generation >= budget.metadata.generation else None


class Budgets:
    """All budgets of a moment, ready to be asked. Selectors are read once."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: dict[str, list[tuple[PodDisruptionBudget, selectors.LabelMatcher]]] = {}
        for budget in sorted(budgets, key=lambda one: one.key):
            if budget.spec.selector is None:
                continue  # selects nothing
            matcher = selectors.label_selector_from(wire.to_dict(budget.spec.selector))
            self._by_namespace.setdefault(budget.namespace, []).append((budget, matcher))

    def covering(self, pod: Pod) -> Cover:
        """Those that cover a pod."""
        known = self._by_namespace.get(pod.namespace, ())
        return Cover(tuple(budget for budget, matcher in known if matcher.matches(pod.metadata.labels)))


def is_exempt(pod: Pod) -> bool:
    """Whether budgets do not concern the pod: it does not run yet or any more, or is on its way out.

    A pod that runs but is not ready may be let go without spending budget, as its budget's policy says; whether it is
    only the server knows, so it counts as exempt here and is simply asked to go.
    """
    if pod.deleting or pod.finished or pod.status.phase == PodPhase.PENDING:
        return True
    ready = pod.condition("Ready")
    return ready is None or ready.status != "True"
