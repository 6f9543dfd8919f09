"""Validates the type and metadata of embedded resources (``x-kubernetes-embedded-resource``).

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/objectmeta/algorithm.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/objectmeta/validation.go,
    k8s.io/apimachinery@v0.36.4/pkg/runtime/schema/group_version.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead_apiserver.schema.model import SchemaNode
from kube_fairlead_apiserver.schema.objectmeta import decode_metadata, validate_metadata

__all__ = ["coerce_embedded", "validate_embedded"]


def coerce_embedded(node: SchemaNode, value: Any, *, root: bool = True) -> tuple[FieldError | None, list[str]]:
    """Convert type and metadata of embedded resources to Go's form in place; with ``root`` those of value as well.

    Returns the first error and the sorted paths of unknown metadata fields, which are removed.
    """
    unknown: list[str] = []
    try:
        _coerce(node, value, FieldPath(), unknown, embedded=root)
    except _Malformed as malformed:
        return malformed.error, sorted(unknown)
    return None, sorted(unknown)


class _Malformed(Exception):
    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


def _coerce(node: SchemaNode, value: Any, path: FieldPath, unknown: list[str], *, embedded: bool) -> None:
    if not embedded and not _embedded_below(node):
        return
    if value.__class__ is list and node.items is not None:
        for index, item in enumerate(value):
            _coerce(node.items, item, path.index(index), unknown, embedded=node.items.embedded_resource)
    elif value.__class__ is dict:
        if embedded:
            _coerce_type_and_metadata(value, path, unknown)
        for key, item in value.items():
            child = node.properties.get(key)
            if child is not None:
                _coerce(child, item, path.child(key), unknown, embedded=child.embedded_resource)
            elif node.additional is not None:
                below = node.additional
                _coerce(below, item, path.key(key), unknown, embedded=below.embedded_resource)


def _coerce_type_and_metadata(value: dict[str, Any], path: FieldPath, unknown: list[str]) -> None:
    for key in ("apiVersion", "kind"):
        if key in value and value[key].__class__ is not str:
            raise _Malformed(FieldError.invalid(path.child(key), value[key], "must be a string"))
    if "metadata" in value:
        where = path.child("metadata")
        try:
            value["metadata"], dropped = decode_metadata(value["metadata"])
        except ValueError as error:
            raise _Malformed(FieldError.invalid(where, value["metadata"], str(error))) from None
        unknown.extend(f"{where}.{name}" for name in dropped)


def validate_embedded(
    node: SchemaNode, value: Any, path: FieldPath | None = None, *, root: bool = False
) -> list[FieldError]:
    """Return the errors in type and metadata of embedded resources; with ``root`` those of value as well."""
    if not root and not _embedded_below(node):
        return []
    return _validate(node, value, path or FieldPath(), embedded=root or node.embedded_resource)


def _validate(node: SchemaNode, value: Any, path: FieldPath, *, embedded: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if value.__class__ is list and node.items is not None and _embedded_below(node):
        for index, item in enumerate(value):
            errors += _validate(node.items, item, path.index(index), embedded=node.items.embedded_resource)
    elif value.__class__ is dict:
        if embedded:
            errors += _validate_type(value, path)
            errors += _validate_metadata(value, path)
        if not _embedded_below(node):
            return errors
        for key, item in value.items():
            child = node.properties.get(key)
            if child is not None:
                errors += _validate(child, item, path.child(key), embedded=child.embedded_resource)
            elif node.additional is not None:
                below = node.additional
                errors += _validate(below, item, path.key(key), embedded=below.embedded_resource)
    return errors


def _validate_type(value: dict[str, Any], path: FieldPath) -> list[FieldError]:
    errors = [FieldError.required(path.child(key)) for key in ("apiVersion", "kind") if key not in value]
    for key in ("apiVersion", "kind"):
        if key not in value:
            continue
        where, text = path.child(key), value[key]
        if text.__class__ is not str:
            errors.append(FieldError.invalid(where, text, "must be a string"))
        elif not text:
            errors.append(FieldError.invalid(where, text, "must not be empty"))
        elif key == "apiVersion" and text.count("/") > 1:
            errors.append(FieldError.invalid(where, text, f"unexpected GroupVersion string: {text}"))
        elif key == "kind" and (messages := names.dns1035_label(text.lower())):
            problem = "may have mixed case, but should otherwise match: " + ",".join(messages)
            errors.append(FieldError.invalid(where, text, problem))
    return errors


def _validate_metadata(value: dict[str, Any], path: FieldPath) -> list[FieldError]:
    if "metadata" not in value:
        return []
    where = path.child("metadata")
    metadata = value["metadata"]
    try:
        decoded, _ = decode_metadata(dict(metadata) if metadata.__class__ is dict else metadata)
    except ValueError as error:
        return [FieldError.invalid(where, metadata, str(error))]
    return validate_metadata(decoded, where)


def _embedded_below(node: SchemaNode) -> bool:
    """Return whether this subtree has an embedded resource.

    Computed once per node, so that most objects are never walked.
    """
    known = node.embedded_below
    if known is None:
        node.embedded_below = True  # for a recursive schema, until the result is known
        known = node.embedded_below = node.embedded_resource or any(
            _embedded_below(child)
            for child in (*node.properties.values(), node.additional, node.items)
            if child is not None
        )
    return known
