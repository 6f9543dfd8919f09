"""One compiled schema node, for custom resources and built-in kinds alike.

Both are OpenAPI v3 with the ``x-kubernetes-*`` extensions: a CRD has its own, those of built-in kinds are generated
data. Pruning, defaulting, validation, strategic merge, server-side apply and field validation all walk this tree, so a
rule about lists or maps is written once.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/structural.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/convert.go
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

__all__ = ["ANYTHING", "SchemaNode", "compile_schema"]

ListType = Literal["atomic", "set", "map"]
MapType = Literal["granular", "atomic"]


@dataclasses.dataclass(slots=True, eq=False)
class SchemaNode:
    """One node of a schema tree. Trees may be recursive (JSONSchemaProps is), so nodes compare by identity."""

    type: str = ""  # object, array, string, integer, number, boolean; "" = anything
    properties: dict[str, SchemaNode] = dataclasses.field(default_factory=dict)
    additional: SchemaNode | None = None  # values of a free-form map
    items: SchemaNode | None = None
    required: tuple[str, ...] = ()
    nullable: bool = False
    default: Any = None
    has_default: bool = False
    preserve_unknown_fields: bool = False
    int_or_string: bool = False
    is_quantity: bool = False  # a built-in quantity such as 500m or 2Gi
    is_micro_time: bool = False  # a built-in time with microseconds
    omitted: frozenset[str] = frozenset()  # built-in fields in which an empty value is the same as an absent one
    embedded_resource: bool = False
    list_type: ListType = "atomic"
    list_map_keys: tuple[str, ...] = ()
    map_type: MapType = "granular"
    patch_strategies: frozenset[str] = frozenset()  # of merge, replace, retainKeys
    patch_merge_key: str = ""
    format: str = ""
    source: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # the OpenAPI this was compiled from
    # Results that a function computed once about this node, for all objects.
    defaults_below: bool | None = dataclasses.field(default=None, init=False, repr=False)
    keyed_lists_below: bool | None = dataclasses.field(default=None, init=False, repr=False)
    embedded_below: bool | None = dataclasses.field(default=None, init=False, repr=False)
    parts: dict[str, tuple[SchemaNode, ...]] | None = dataclasses.field(default=None, init=False, repr=False)
    checker: Callable[[Any], bool] | None = dataclasses.field(default=None, init=False, repr=False)

    def child(self, name: str) -> SchemaNode | None:
        """Return the node of a field: a declared property, else the schema of the map's values, else None."""
        return self.properties.get(name) or self.additional


ANYTHING = SchemaNode(preserve_unknown_fields=True, nullable=True)


def compile_schema(
    source: Mapping[str, Any],
    resolve: Callable[[str], Mapping[str, Any]] | None = None,
    _compiled: dict[str, SchemaNode] | None = None,
) -> SchemaNode:
    """Compile OpenAPI v3; ``resolve`` returns the schema that a ``$ref`` names."""
    compiled: dict[str, SchemaNode] = {} if _compiled is None else _compiled
    reference = source.get("$ref")
    if reference is None and len(source.get("allOf", ())) == 1 and "$ref" in source["allOf"][0]:
        reference = source["allOf"][0]["$ref"]  # OpenAPI v3 wraps a $ref that has siblings (default) in allOf
    if reference is not None:
        if resolve is None:
            raise ValueError(f"schema refers to {reference}, but nothing here resolves references")
        node = compiled.get(reference)
        if node is None:
            node = compiled[reference] = SchemaNode()
            _fill(node, resolve(reference), resolve, compiled)
        if "default" in source or "x-kubernetes-patch-strategy" in source or "x-kubernetes-list-type" in source:
            node = dataclasses.replace(node)
            _fill_own(node, source)
        return node
    node = SchemaNode()
    _fill(node, source, resolve, compiled)
    return node


def _fill(
    node: SchemaNode,
    source: Mapping[str, Any],
    resolve: Callable[[str], Mapping[str, Any]] | None,
    compiled: dict[str, SchemaNode],
) -> None:
    if "$ref" in source and resolve is not None:
        _fill(node, resolve(source["$ref"]), resolve, compiled)
        return
    _fill_own(node, source)
    node.source = source
    node.type = source.get("type", "")
    node.format = source.get("format", "")
    node.required = tuple(source.get("required", ()))
    node.nullable = bool(source.get("nullable", False))
    node.preserve_unknown_fields = bool(source.get("x-kubernetes-preserve-unknown-fields", False))
    node.int_or_string = bool(source.get("x-kubernetes-int-or-string", False)) or node.format == "int-or-string"
    node.is_quantity = bool(source.get("x-fairlead-quantity", False))
    node.is_micro_time = bool(source.get("x-fairlead-micro-time", False))
    node.omitted = frozenset(source.get("x-fairlead-omitted", ()))
    node.embedded_resource = bool(source.get("x-kubernetes-embedded-resource", False))
    for name, schema in source.get("properties", {}).items():
        node.properties[name] = compile_schema(schema, resolve, compiled)
    additional = source.get("additionalProperties")
    if isinstance(additional, Mapping):
        node.additional = compile_schema(additional, resolve, compiled)
    elif additional is True:
        node.additional = ANYTHING
    items = source.get("items")
    if isinstance(items, Mapping):
        node.items = compile_schema(items, resolve, compiled)


def _fill_own(node: SchemaNode, source: Mapping[str, Any]) -> None:
    if "default" in source:
        node.default = source["default"]
        node.has_default = True
    if "x-kubernetes-list-type" in source:
        node.list_type = source["x-kubernetes-list-type"]
    if "x-kubernetes-list-map-keys" in source:
        node.list_map_keys = tuple(source["x-kubernetes-list-map-keys"])
    if "x-kubernetes-map-type" in source:
        node.map_type = source["x-kubernetes-map-type"]
    if "x-kubernetes-patch-strategy" in source:
        node.patch_strategies = frozenset(source["x-kubernetes-patch-strategy"].split(","))
    if "x-kubernetes-patch-merge-key" in source:
        node.patch_merge_key = source["x-kubernetes-patch-merge-key"]
