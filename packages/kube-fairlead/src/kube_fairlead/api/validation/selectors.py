"""The rules for selectors inside objects.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/apis/meta/v1/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.validation import metadata

if TYPE_CHECKING:
    pass

__all__ = ["MAX_SELECTOR_ITEMS", "validate_label_selector"]

# Bounds our own kinds only; without it their CRDs could not have CEL rules on the items.
MAX_SELECTOR_ITEMS: Final = 64

_NEEDS_VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
_NO_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
_ONE_NUMBER = "must be specified single value when `operator` is 'Lt' or 'Gt'"
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
