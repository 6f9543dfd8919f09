"""Applies the defaults of a schema.

As in Kubernetes, a null where null is not allowed is the same as an absent value. With a default it is replaced,
without one it is removed.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/defaulting/algorithm.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/defaulting/prunenulls.go
"""

from __future__ import annotations

from typing import Any

import msgspec

from kube_fairlead_apiserver.schema.model import SchemaNode

__all__ = ["apply_defaults", "copy_json", "prune_nulls"]


def apply_defaults(node: SchemaNode, value: Any, *, nulls: bool = True) -> None:
    """Apply defaults in place; with ``nulls`` remove first the nulls that are not allowed and have no default."""
    if nulls:
        _prune_nulls(node, value)
    if _has_defaults(node):
        _default(node, value)


def prune_nulls(node: SchemaNode, value: Any) -> None:
    """Remove in place each null that its schema neither allows nor replaces by a default."""
    _prune_nulls(node, value)


def copy_json(value: Any) -> Any:
    """Return a deep copy of a JSON value, many times faster than copy.deepcopy."""
    return msgspec.to_builtins(value)


def _prune_nulls(node: SchemaNode, value: Any) -> None:
    if value.__class__ is dict:
        dropped: list[str] | None = None
        properties = node.properties
        additional = node.additional
        for key, item in value.items():
            if item is None:
                child = properties.get(key) or additional
                if child is not None and not child.nullable and child.default is None:
                    dropped = dropped or []
                    dropped.append(key)
            elif item.__class__ is dict or item.__class__ is list:
                child = properties.get(key) or additional
                if child is not None:
                    _prune_nulls(child, item)
        for key in dropped or ():
            del value[key]
    elif value.__class__ is list and node.items is not None:
        for item in value:
            if item.__class__ is dict or item.__class__ is list:
                _prune_nulls(node.items, item)


def _default(node: SchemaNode, value: Any) -> None:
    if value.__class__ is dict:
        _default_object(node, value)
    elif value.__class__ is list and node.items is not None:
        items = node.items
        replace_null = not items.nullable and items.default is not None
        below = _has_defaults(items)
        for index in range(len(value)):
            if replace_null and value[index] is None:
                value[index] = copy_json(items.default)
            if below:
                _default(items, value[index])


def _default_object(node: SchemaNode, value: dict[str, Any]) -> None:
    for key, child in node.properties.items():
        if child.default is not None and (key not in value or (value[key] is None and not child.nullable)):
            value[key] = copy_json(child.default)
    properties = node.properties
    additional = node.additional
    for key, item in value.items():
        child_or_none = properties.get(key)
        if child_or_none is None:
            if additional is None:
                continue
            child_or_none = additional
            if item is None and not additional.nullable:
                value[key] = item = copy_json(additional.default)  # noqa: PLW2901 - the new value is the item
        if (item.__class__ is dict or item.__class__ is list) and _has_defaults(child_or_none):
            _default(child_or_none, item)


def _has_defaults(node: SchemaNode) -> bool:
    """Return whether this subtree has a default; computed once per node, so that most subtrees are never walked."""
    known = node.defaults_below
    if known is None:
        node.defaults_below = True  # for a recursive schema, until the result is known
        known = node.defaults_below = any(
            child.default is not None or _has_defaults(child)
            for child in (*node.properties.values(), node.additional, node.items)
            if child is not None
        )
    return known
