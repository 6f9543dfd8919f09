"""Validates a value against a schema, with Kubernetes' field errors.

Almost every object is valid, so a compiled check runs first (`fast_validation`). Only an invalid value is walked again
for the exact errors (`detailed_validation`). On update, an invalid value that has not changed is accepted (ratcheting):
a schema that became stricter must not block unrelated changes.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/validation/validation.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/validation/ratcheting.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/registry/customresource/strategy.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead.api.fielderrors import ErrorType, FieldError, FieldPath
from kube_fairlead_apiserver.schema import (
    comparison_budget,
    detailed_validation,
    embedded_resources,
    fast_validation,
    list_uniqueness,
)
from kube_fairlead_apiserver.schema.correlation import CorrelatedValue
from kube_fairlead_apiserver.schema.model import SchemaNode

__all__ = ["blocks_rules", "validate", "validate_schema"]

_BLOCKING = frozenset(
    {
        ErrorType.NOT_SUPPORTED,
        ErrorType.REQUIRED,
        ErrorType.TOO_LONG,
        ErrorType.TOO_MANY,
        ErrorType.TYPE_INVALID,
    }
)
_BLOCKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_TOO_COSTLY = (
    f"validation takes more than {comparison_budget.MOST_COMPARISONS} comparisons; "
    "use fewer or less deep anyOf, allOf, oneOf and not in the schema, or fewer values in the object"
)


def validate(node: SchemaNode, value: Any, path: FieldPath | None = None, *, old: Any = None) -> list[FieldError]:
    """Validate a custom resource against its schema, without its CEL rules.

    ``old`` is the object that an update replaces.

    Order and texts are Kubernetes': schema, then embedded resources, then lists of type set and map.
    """
    base = path or FieldPath()
    pair = None if old is None else CorrelatedValue(node, value, old)
    errors = validate_schema(node, value, base, pair)
    errors += embedded_resources.validate_embedded(node, value, base)
    # Lists ratchet as a whole: an object that already had duplicates may have any.
    if old is None or not list_uniqueness.validate_lists(node, old, base):
        errors += list_uniqueness.validate_lists(node, value, base)
    return errors


def validate_schema(
    node: SchemaNode, value: Any, path: FieldPath, pair: CorrelatedValue | None = None
) -> list[FieldError]:
    """Validate only the OpenAPI part."""
    try:
        with comparison_budget.limited():
            if fast_validation.checker(node)(value):
                return []
            return list(detailed_validation.explain(node, "", value, path, pair).errors.values())
    except comparison_budget.TooCostly:
        return [FieldError.forbidden(path, _TOO_COSTLY)]


def blocks_rules(errors: list[FieldError]) -> FieldError | None:
    """Return the error in place of CEL's when the object's form does not allow the evaluation of rules."""
    if any(error.type in _BLOCKING for error in errors):
        return FieldError.invalid(FieldPath(), None, _BLOCKED)
    return None
