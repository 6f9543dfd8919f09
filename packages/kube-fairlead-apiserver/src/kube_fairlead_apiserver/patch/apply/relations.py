"""How a schema divides an object into fields: what is one leaf, what is taken apart, and what names a list item.

A map is atomic or granular; a list is atomic, a set, or a map by keys. Where there is no schema, types are deduced
from the value: maps are granular and lists atomic.

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

# Schemas live as long as their kinds do; the caches hold them by identity and forget the least used.
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
    """The schema of a whole object: one that leaves metadata open, as those of CRDs do, gets it filled in."""
    metadata = node.properties.get("metadata")
    if metadata is not None and metadata.properties:
        return node
    return dataclasses.replace(node, properties={**node.properties, **_TYPE_META})


def child(node: SchemaNode, name: str) -> SchemaNode:
    """The schema of a field; anything goes where none is declared."""
    return node.properties.get(name) or node.additional or ANYTHING


class ListRelation(msgspec.Struct, frozen=True):
    """How the items of a granular list are identified: by keys, or without keys by their own value."""

    keys: tuple[tuple[str, str, Any], ...]  # name, its JSON up to the value, default or _ABSENT; sorted by name


@functools.lru_cache(maxsize=_CACHE)
def list_relation(node: SchemaNode) -> ListRelation | None:
    """None for an atomic list. A schema without a list type may still say it by its patch strategy."""
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
    """The path element of a list item; None if it has none, for it lacks its keys or is no scalar in a set."""
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
    """Fields that are there even when they are left out.

    In Kubernetes a struct that is no pointer is always present, and its schema says so with the default `{}`. So
    no manager owns `.spec` itself, only fields in it, and a container owns its empty `.resources`.
    """
    return {name: schema for name, schema in node.properties.items() if schema.has_default and schema.default == {}}


@functools.lru_cache(maxsize=_CACHE)
def zero_values(node: SchemaNode) -> Mapping[str, Any]:
    """What the fields of a struct hold that are there even when they are left out.

    A struct holds `{}`. A field that is required holds what the schema gives as its default (a Go field that is no
    pointer has its zero value for one), else null.
    """
    zeros: dict[str, Any] = dict.fromkeys(implied_structs(node), _NOTHING)
    for name in node.required:
        if name not in zeros:
            schema = node.properties.get(name)
            zeros[name] = schema.default if schema is not None and schema.has_default else None
    return zeros
