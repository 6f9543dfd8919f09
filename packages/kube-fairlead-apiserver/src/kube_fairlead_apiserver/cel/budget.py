"""The cost budget of evaluations, in cel-go's units: about one per operation, more for operations on large values.

Upstream: github.com/google/cel-go@v0.26.0/interpreter/runtimecost.go,
    k8s.io/apiserver@v0.36.4/pkg/apis/cel/config.go
"""

from __future__ import annotations

__all__ = ["MATCH_CONDITIONS_COST_MAX", "PER_CALL_COST_MAX", "VALIDATION_COST_MAX", "Budget"]

# Kubernetes' limits: for one evaluation, for all rules on one object, for all match conditions of one webhook.
PER_CALL_COST_MAX = 1_000_000
VALIDATION_COST_MAX = 10_000_000
MATCH_CONDITIONS_COST_MAX = 2_500_000


class Budget:
    """The remaining cost of a group of evaluations. Each may use at most ``per_call`` of it."""

    __slots__ = ("per_call", "remaining")

    def __init__(self, total: int = VALIDATION_COST_MAX, *, per_call: int = PER_CALL_COST_MAX) -> None:
        self.remaining = total
        self.per_call = per_call

    @property
    def exhausted(self) -> bool:
        """Whether the group has spent more than its budget."""
        return self.remaining < 0
