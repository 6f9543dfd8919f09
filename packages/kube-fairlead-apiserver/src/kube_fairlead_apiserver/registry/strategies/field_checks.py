"""Validation of fields that many kinds share, with Kubernetes' messages.

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
    """Return one error for each message about a value."""
    return [FieldError.invalid(path, value, message) for message in messages]


def not_negative(holder: Json, path: FieldPath, *fields: str) -> list[FieldError]:
    """Validate that a number is not negative."""
    return [
        FieldError.invalid(path.child(field), holder[field], "must be greater than or equal to 0")
        for field in fields
        if (holder.get(field) or 0) < 0
    ]


def one_of(holder: Json, path: FieldPath, field: str, allowed: tuple[str, ...]) -> list[FieldError]:
    """Validate an optional field with enumerated values."""
    value = holder.get(field)
    return [] if value is None or value in allowed else [FieldError.not_supported(path.child(field), value, allowed)]


def changed(holder: Json, before: Json, path: FieldPath, *fields: str) -> list[FieldError]:
    """Errors for immutable fields that changed."""
    return [
        FieldError.invalid(path.child(field), holder.get(field), "field is immutable")
        for field in fields
        if holder.get(field) != before.get(field)
    ]


def int_or_percent(value: int | str | None, path: FieldPath) -> list[FieldError]:
    """Validate a number of pods or a percentage."""
    if isinstance(value, str):
        return complaints(path, value, names.percent(value))
    if value is not None and value < 0:
        return [FieldError.invalid(path, value, "must be greater than or equal to 0")]
    return []


def percent_at_most_all(value: int | str | None, path: FieldPath) -> list[FieldError]:
    """Validate that a percentage is at most 100%."""
    if isinstance(value, str) and percent_value(value) > 100:
        return [FieldError.invalid(path, value, "must not be greater than 100%")]
    return []


def percent_value(value: int | str | None) -> int:
    """Return the number of an integer or a percentage; 0 for anything else."""
    if isinstance(value, str):
        return 0 if names.percent(value) else int(value[:-1])
    return value or 0
