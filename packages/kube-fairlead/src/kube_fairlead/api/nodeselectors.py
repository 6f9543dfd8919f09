"""Which nodes a NodeSelector means, as the scheduler reads it.

Upstream: k8s.io/component-helpers@v0.36.4/scheduling/corev1/nodeaffinity/nodeaffinity.go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kube_fairlead.api.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kube_fairlead.api.selectors import LabelRequirement, Operator

__all__ = ["selects"]

_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER_THAN,
    "Lt": Operator.LESS_THAN,
}


def selects(selector: NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    """Whether the node of this name and labels is meant. A malformed term means no node."""
    return any(_term(term, name, labels) for term in selector.node_selector_terms)


def _term(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    by_field = _all(term.match_fields, {"metadata.name": name})
    return by_field and _all(term.match_expressions, labels)


def _all(requirements: Iterable[NodeSelectorRequirement], values: Mapping[str, str]) -> bool:
    return all(_one(requirement, values) for requirement in requirements)


def _one(requirement: NodeSelectorRequirement, values: Mapping[str, str]) -> bool:
    operator = _OPERATORS.get(requirement.operator)
    if operator is None:
        return False
    condition = LabelRequirement(requirement.key, operator, requirement.values)
    return not condition.check() and condition.matches(values)
