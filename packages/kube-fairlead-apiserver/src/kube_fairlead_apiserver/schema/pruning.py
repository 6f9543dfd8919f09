"""Prunes fields that are not in the schema.

As Kubernetes does for custom resources: ``x-kubernetes-preserve-unknown-fields`` keeps a subtree. An embedded resource
and the root of an object keep apiVersion, kind and metadata whatever the schema has.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/pruning/algorithm.go
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from kube_fairlead.api.fielderrors import MAX_PATH_CHARACTERS
from kube_fairlead_apiserver.schema.model import ANYTHING, SchemaNode

__all__ = ["MAX_PATHS", "prune"]

MAX_PATHS = 1000  # reported paths; all unknown fields are removed

_META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})


def prune(node: SchemaNode | None, value: Any, *, root: bool = True) -> list[str]:
    """Remove unknown fields in place; return their paths (``spec.foo``, ``spec.list[0].bar``), sorted.

    ``root``: value is a whole object, whose apiVersion, kind and metadata the schema does not describe.
    """
    removed = _prune_object(node or SchemaNode(), value, embedded=True) if root else _prune(node, value)
    if not removed:
        return []
    return sorted(path.removeprefix(".") for path in removed)


# Each function below returns the removed paths relative to its value, each starting with its separator ("." or
# "["), or None: an object with nothing to remove, which is nearly every one, allocates nothing.


def _prune(node: SchemaNode | None, value: Any) -> list[str] | None:
    if node is None:
        return _empty(value)
    if value.__class__ is dict:
        return _prune_object(node, value, embedded=node.embedded_resource)
    if value.__class__ is list:
        return _prune_list(node, value)
    return None


def _prune_object(node: SchemaNode, value: Any, *, embedded: bool) -> list[str] | None:
    if value.__class__ is not dict:
        return _prune(node, value)
    removed: list[str] | None = None
    unknown: list[str] | None = None
    properties = node.properties
    additional = node.additional
    for key, item in value.items():
        if embedded and key in _META_FIELDS:
            continue
        child = properties.get(key)
        if child is None:
            child = additional
            if child is None:
                if not node.preserve_unknown_fields:
                    unknown = unknown or []
                    unknown.append(key)
                continue
        if item.__class__ is dict or item.__class__ is list:
            # "additionalProperties: true" allows any key, but does not describe the values below it.
            below = _empty(item) if child is ANYTHING else _prune(child, item)
            if below:
                removed = removed or []
                _extend(removed, f".{key}", below)
    if unknown:
        removed = removed or []
        for key in unknown:
            del value[key]
        _extend(removed, ".", unknown)
    return removed


def _prune_list(node: SchemaNode, value: list[Any]) -> list[str] | None:
    removed: list[str] | None = None
    # Kubernetes carries "preserve" through a list to its items, whose own objects then keep unknown fields too.
    keep = node.preserve_unknown_fields
    for index, item in enumerate(value):
        below = _preserve(node.items, item) if keep else _prune(node.items, item)
        if below:
            removed = removed or []
            _extend(removed, f"[{index}]", below)
    return removed


def _preserve(node: SchemaNode | None, value: Any) -> list[str] | None:
    """Keep unknown fields here whatever the node has, and prune below the fields that it declares."""
    if node is None:
        return None
    removed: list[str] = []
    if value.__class__ is list:
        for index, item in enumerate(value):
            _extend(removed, f"[{index}]", _preserve(node.items, item) or ())
        return removed
    if value.__class__ is not dict:
        return None
    for key, item in value.items():
        if node.embedded_resource and key in _META_FIELDS:
            continue
        child = node.child(key)
        if child is not None:
            below = _empty(item) if child is ANYTHING else _prune(child, item)
            _extend(removed, f".{key}", below or ())
    return removed


def _empty(value: Any) -> list[str] | None:
    """Prune a value without a schema: its objects lose every field, its lists keep their length."""
    if value.__class__ is dict:
        removed: list[str] = []
        _extend(removed, ".", value)
        value.clear()
        return removed
    if value.__class__ is list:
        removed = []
        for index, item in enumerate(value):
            _extend(removed, f"[{index}]", _empty(item) or ())
        return removed
    return None


def _extend(removed: list[str], before: str, paths: Iterable[str]) -> None:
    """Add the paths below a field, up to the maximum number and length."""
    room = MAX_PATHS - len(removed)
    if room > 0:
        before = before[:MAX_PATH_CHARACTERS]
        removed += [(before + path)[:MAX_PATH_CHARACTERS] for path in itertools.islice(paths, room)]
