"""The rules for selectors inside objects.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/apis/meta/v1/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.validation import metadata

if TYPE_CHECKING:
    from kube_fairlead.api.core_v1 import (  # the API server has no other use for them
        NodeSelector,
        NodeSelectorRequirement,
    )

__all__ = ["MAX_SELECTOR_ITEMS", "validate_label_selector", "validate_node_selector"]

# Bounds our own kinds only; without it their CRDs could not have CEL rules on the items.
MAX_SELECTOR_ITEMS: Final = 64

_NEEDS_VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
_NO_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
_ONE_NUMBER = "must be specified single value when `operator` is 'Lt' or 'Gt'"
_ONE_FIELD_VALUE = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
_BAD_OPERATOR = "not a valid selector operator"


def validate_label_selector(selector: Mapping[str, Any], path: FieldPath) -> list[FieldError]:
    """A metav1.LabelSelector, as plain JSON."""
    errors = metadata.validate_labels(selector.get("matchLabels") or {}, path.child("matchLabels"))
    for i, expression in enumerate(selector.get("matchExpressions") or ()):
        spot = path.child("matchExpressions").index(i)
        operator = expression.get("operator") or ""
        values = tuple(expression.get("values") or ())
        if operator in {"Gt", "Lt"}:
            errors.append(FieldError.invalid(spot.child("operator"), operator, _BAD_OPERATOR))
        else:
            errors += _operator(operator, values, spot)
        errors += _key(expression.get("key") or "", spot) + _values(values, spot)
    return errors


def validate_node_selector(selector: NodeSelector, path: FieldPath) -> list[FieldError]:
    """A NodeSelector of one of our own kinds: it must select something, and its lists are bounded."""
    spot = path.child("nodeSelectorTerms")
    if not selector.node_selector_terms:
        return [FieldError.required(spot, "must have at least one node selector term")]
    errors = _bounded(selector.node_selector_terms, spot)
    for i, term in enumerate(selector.node_selector_terms):
        errors += _bounded(term.match_expressions, spot.index(i).child("matchExpressions"))
        errors += _bounded(term.match_fields, spot.index(i).child("matchFields"))
        for j, by_label in enumerate(term.match_expressions):
            where = spot.index(i).child("matchExpressions").index(j)
            errors += _operator(by_label.operator, by_label.values, where)
            errors += _key(by_label.key, where) + _values(by_label.values, where)
            errors += _bounded(by_label.values, where.child("values"))
        for j, by_field in enumerate(term.match_fields):
            errors += _node_field(by_field, spot.index(i).child("matchFields").index(j))
    return errors


def _bounded(items: Sequence[object], path: FieldPath) -> list[FieldError]:
    too_many = len(items) > MAX_SELECTOR_ITEMS
    return [FieldError.too_many(path, len(items), MAX_SELECTOR_ITEMS)] if too_many else []


def _operator(operator: str, values: tuple[str, ...], path: FieldPath) -> list[FieldError]:
    match operator:
        case "In" | "NotIn":
            return [] if values else [FieldError.required(path.child("values"), _NEEDS_VALUES)]
        case "Exists" | "DoesNotExist":
            return [FieldError.forbidden(path.child("values"), _NO_VALUES)] if values else []
        case "Gt" | "Lt":
            return [] if len(values) == 1 else [FieldError.required(path.child("values"), _ONE_NUMBER)]
        case _:
            return [FieldError.invalid(path.child("operator"), operator, _BAD_OPERATOR)]


def _key(key: str, path: FieldPath) -> list[FieldError]:
    return [FieldError.invalid(path.child("key"), key, message) for message in names.qualified_name(key)]


def _values(values: tuple[str, ...], path: FieldPath) -> list[FieldError]:
    spot = path.child("values")
    return [
        FieldError.invalid(spot.index(i), value, message)
        for i, value in enumerate(values)
        for message in names.label_value(value)
    ]


def _node_field(requirement: NodeSelectorRequirement, path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    if requirement.operator not in {"In", "NotIn"}:
        errors.append(FieldError.invalid(path.child("operator"), requirement.operator, _BAD_OPERATOR))
    elif len(requirement.values) != 1:
        errors.append(FieldError.required(path.child("values"), _ONE_FIELD_VALUE))
    if requirement.key != "metadata.name":
        errors.append(FieldError.invalid(path.child("key"), requirement.key, "not a valid field selector key"))
        return errors
    for i, value in enumerate(requirement.values):
        spot = path.child("values").index(i)
        errors += [FieldError.invalid(spot, value, message) for message in names.dns1123_subdomain(value)]
    return errors
