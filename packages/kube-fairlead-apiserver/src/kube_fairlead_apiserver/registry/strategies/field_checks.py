"""The questions that the rules of many kinds ask of their fields, answered in Kubernetes' words.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/apps/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json

__all__ = ["changed", "complaints", "int_or_percent", "not_negative", "one_of", "percent_at_most_all", "percent_value"]


def complaints(path: FieldPath, value: Any, messages: Iterable[str]) -> list[FieldError]:
    """One error for each thing that is wrong with a value."""
    return [FieldError.invalid(path, value, message) for message in messages]


def not_negative(holder: Json, path: FieldPath, *fields: str) -> list[FieldError]:
    """Counts begin at zero."""
    return [
        FieldError.invalid(path.child(field), holder[field], "must be greater than or equal to 0")
        for field in fields
        if (holder.get(field) or 0) < 0
    ]


def one_of(holder: Json, path: FieldPath, field: str, allowed: tuple[str, ...]) -> list[FieldError]:
    """A field that is set has one of these values."""
    value = holder.get(field)
    return [] if value is None or value in allowed else [FieldError.not_supported(path.child(field), value, allowed)]


def changed(holder: Json, before: Json, path: FieldPath, *fields: str) -> list[FieldError]:
    """Fields that are set once."""
    return [
        FieldError.invalid(path.child(field), holder.get(field), "field is immutable")
        for field in fields
        if holder.get(field) != before.get(field)
    ]


def int_or_percent(value: int | str | None, path: FieldPath) -> list[FieldError]:
    """A number of pods, or a share of them."""
    if isinstance(value, str):
        return complaints(path, value, names.percent(value))
    if value is not None and value < 0:
        return [FieldError.invalid(path, value, "must be greater than or equal to 0")]
    return []


def percent_at_most_all(value: int | str | None, path: FieldPath) -> list[FieldError]:
    """A share is not more than everything."""
    if isinstance(value, str) and percent_value(value) > 100:
        return [FieldError.invalid(path, value, "must not be greater than 100%")]
    return []


def percent_value(value: int | str | None) -> int:
    """The number in a number or a percentage; what is neither counts as none."""
    if isinstance(value, str):
        return 0 if names.percent(value) else int(value[:-1])
    return value or 0
