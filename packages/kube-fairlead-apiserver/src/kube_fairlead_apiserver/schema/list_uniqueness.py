"""Validates the uniqueness of items in lists of type set (whole items) and map (their keys).

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/listtype/validation.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead.api import golang
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead_apiserver.schema.model import SchemaNode

__all__ = ["validate_lists"]


def validate_lists(node: SchemaNode, value: Any, path: FieldPath | None = None) -> list[FieldError]:
    """Return a Duplicate error for the second of each group of equal items, at any depth."""
    if value.__class__ is not dict or not _keyed_lists_below(node):
        return []
    return _walk(node, value, path or FieldPath())


def _walk(node: SchemaNode, value: Any, path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    if value.__class__ is list:
        if node.list_type == "set":
            errors += [FieldError.duplicate(path.index(i), value[i]) for i in _repeated(value)]
        elif node.list_type == "map":
            errors += _validate_map(node, value, path)
        if node.items is not None and _keyed_lists_below(node.items):
            for index, item in enumerate(value):
                errors += _walk(node.items, item, path.index(index))
    elif value.__class__ is dict:
        for key, item in value.items():
            child = node.properties.get(key)
            if child is not None:
                if _keyed_lists_below(child):
                    errors += _walk(child, item, path.child(key))
            elif node.additional is not None and _keyed_lists_below(node.additional):
                errors += _walk(node.additional, item, path.key(key))
    return errors


def _validate_map(node: SchemaNode, value: list[Any], path: FieldPath) -> list[FieldError]:
    for index, item in enumerate(value):
        if item is not None and item.__class__ is not dict:
            return [FieldError.invalid(path.index(index), item, "must be an object for an array of list-type map")]
    keys = [{key: item[key] for key in node.list_map_keys if key in item} if item else {} for item in value]
    return [FieldError.duplicate(path.index(index), keys[index]) for index in _repeated(keys)]


def _repeated(items: list[Any]) -> list[int]:
    """Return the positions where an item occurs for the second time; a third occurrence is not reported."""
    if len(items) < 2:
        return []
    seen: dict[Any, int] = {}
    repeated: list[int] = []
    for index, item in enumerate(items):
        compound = item.__class__ is dict or item.__class__ is list
        identity = golang.json_text(item) if compound else (item.__class__, item)
        seen[identity] = seen.get(identity, 0) + 1
        if seen[identity] == 2:
            repeated.append(index)
    return repeated


def _keyed_lists_below(node: SchemaNode) -> bool:
    """Return whether this subtree has a set or map list.

    Computed once per node, so that most objects are never walked.
    """
    known = node.keyed_lists_below
    if known is None:
        node.keyed_lists_below = True  # for a recursive schema, until the result is known
        known = node.keyed_lists_below = node.list_type != "atomic" or any(
            _keyed_lists_below(child)
            for child in (*node.properties.values(), node.additional, node.items)
            if child is not None
        )
    return known
