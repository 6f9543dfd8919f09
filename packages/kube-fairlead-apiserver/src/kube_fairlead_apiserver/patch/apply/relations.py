"""Divides an object into fields by its schema: which value is one leaf, and what identifies a list item.

A map is atomic or granular; a list is atomic, a set, or a map by keys. Without a schema, the type is deduced from the
value: maps are granular and lists atomic.

Upstream: sigs.k8s.io/structured-merge-diff/v6@v6.3.3/schema/elements.go,
    sigs.k8s.io/structured-merge-diff/v6@v6.3.3/typed/helpers.go,
    sigs.k8s.io/structured-merge-diff/v6@v6.3.3/typed/parser.go,
    k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/schemaconv/smd.go,
    k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/schemaconv/openapi.go
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from kube_fairlead_apiserver.patch.apply import elements
from kube_fairlead_apiserver.schema.model import ANYTHING, SchemaNode, compile_schema

__all__ = ["ListRelation", "child", "implied_structs", "item_element", "list_relation", "rooted", "zero_values"]

# Schemas live as long as their kinds; the caches hold them by identity and drop the least used.
_CACHE = 16384
_ABSENT: Any = object()
_NOTHING: dict[str, Any] = {}

_STRING = {"type": "string"}
_INTEGER = {"type": "integer", "format": "int64"}
_TIME = {"type": "string", "format": "date-time"}
_OBJECT_META = compile_schema(
    {
        "type": "object",
        "properties": {
            "annotations": {"type": "object", "additionalProperties": _STRING},
            "creationTimestamp": _TIME,
            "deletionGracePeriodSeconds": _INTEGER,
            "deletionTimestamp": _TIME,
            "finalizers": {
                "type": "array",
                "items": _STRING,
                "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
            },
            "generateName": _STRING,
            "generation": _INTEGER,
            "labels": {"type": "object", "additionalProperties": _STRING},
            "managedFields": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic"},
            "name": _STRING,
            "namespace": _STRING,
            "ownerReferences": {
                "type": "array",
                "items": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "properties": {
                        "apiVersion": _STRING,
                        "blockOwnerDeletion": {"type": "boolean"},
                        "controller": {"type": "boolean"},
                        "kind": _STRING,
                        "name": _STRING,
                        "uid": _STRING,
                    },
                },
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"],
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "uid",
            },
            "resourceVersion": _STRING,
            "selfLink": _STRING,
            "uid": _STRING,
        },
    }
)
_TYPE_META = {"apiVersion": compile_schema(_STRING), "kind": compile_schema(_STRING), "metadata": _OBJECT_META}


@functools.lru_cache(maxsize=1024)
def rooted(node: SchemaNode) -> SchemaNode:
    """Return the schema of a whole object. Open metadata, as in a CRD, becomes that of ObjectMeta."""
    metadata = node.properties.get("metadata")
    if metadata is not None and metadata.properties:
        return node
    return dataclasses.replace(node, properties={**node.properties, **_TYPE_META})


def child(node: SchemaNode, name: str) -> SchemaNode:
    """Return the schema of a field; an undeclared field may hold any value."""
    return node.properties.get(name) or node.additional or ANYTHING


class ListRelation(msgspec.Struct, frozen=True):
    """Identifies the items of a granular list: by keys, or by their own value when there are no keys."""

    keys: tuple[tuple[str, str, Any], ...]  # name, its JSON up to the value, default or _ABSENT; sorted by name


@functools.lru_cache(maxsize=_CACHE)
def list_relation(node: SchemaNode) -> ListRelation | None:
    """Return the relation of a list; None for an atomic list. Without a list type, the patch strategy determines it."""
    names: tuple[str, ...]
    if node.list_type == "map":
        names = node.list_map_keys
    elif node.list_type == "set":
        names = ()
    elif "merge" in node.patch_strategies and "x-kubernetes-list-type" not in node.source:
        names = (node.patch_merge_key,) if node.patch_merge_key else ()
    else:
        return None
    properties = node.items.properties if node.items is not None else {}
    keys = []
    for name in sorted(names):
        schema = properties.get(name)
        default = schema.default if schema is not None and schema.has_default else _ABSENT
        keys.append((name, elements.json_scalar(name) + ":", default))
    return ListRelation(tuple(keys))


def item_element(relation: ListRelation, item: Any) -> str | None:
    """Return the path element of a list item; None if it has none: a key is missing, or a set item is not a scalar."""
    if not relation.keys:
        return None if item is None or isinstance(item, (dict, list)) else elements.value_element(item)
    if not isinstance(item, dict):
        return None
    if len(relation.keys) == 1:
        name, prefix, default = relation.keys[0]
        value = item.get(name, default)
        return None if value is _ABSENT or value is None else f"k:{{{prefix}{elements.json_scalar(value)}}}"
    parts = []
    for name, prefix, default in relation.keys:
        value = item.get(name, default)
        if value is not _ABSENT and value is not None:
            parts.append(prefix + elements.json_scalar(value))
    return "k:{" + ",".join(parts) + "}" if parts else None


@functools.lru_cache(maxsize=_CACHE)
def implied_structs(node: SchemaNode) -> Mapping[str, SchemaNode]:
    """Return the fields that are present even when they are left out.

    In Kubernetes a struct that is not a pointer is always present; its schema has the default `{}`. So no manager owns
    `.spec` itself, only fields in it, and a container owns its empty `.resources`.
    """
    return {name: schema for name, schema in node.properties.items() if schema.has_default and schema.default == {}}


@functools.lru_cache(maxsize=_CACHE)
def zero_values(node: SchemaNode) -> Mapping[str, Any]:
    """Return the values of fields that are present even when they are left out.

    A struct holds `{}`. A required field holds the default of its schema (such as the zero value of a Go field that is
    not a pointer), else null.
    """
    zeros: dict[str, Any] = dict.fromkeys(implied_structs(node), _NOTHING)
    for name in node.required:
        if name not in zeros:
            schema = node.properties.get(name)
            zeros[name] = schema.default if schema is not None and schema.has_default else None
    return zeros
