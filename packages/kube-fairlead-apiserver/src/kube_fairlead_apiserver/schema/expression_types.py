"""Converts a schema to a CEL type, as Kubernetes declares it for expressions.

A part without a schema (x-kubernetes-preserve-unknown-fields, a list without items) is invisible inside an object; by
itself it is ``dyn``. An int-or-string is ``dyn`` everywhere.

Upstream: k8s.io/apiserver@v0.36.4/pkg/cel/common/schemas.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/common/adaptor.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/cel/model/schemas.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/common/valuesunstructured.go
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from kube_fairlead_apiserver.cel import errors, escaping, times, types, values
from kube_fairlead_apiserver.schema import model

__all__ = ["from_schema"]

_STRING = model.SchemaNode(type="string")
_OBJECT_META = model.SchemaNode(type="object", properties={"name": _STRING, "generateName": _STRING})
_KEYWORD_TOKENS = frozenset({"true", "false", "null", "in"})


def from_schema(node: model.SchemaNode, *, name: str = "object", resource_root: bool = False) -> types.CelType:
    """Return the type of this node's values; ``name`` is its name in compile errors.

    ``resource_root`` adds apiVersion, kind and metadata.name, which every resource has.
    """
    return _exposed(node, name, resource_root=resource_root) or types.DYN


def _exposed(node: model.SchemaNode, name: str, *, resource_root: bool) -> types.CelType | None:
    if node.int_or_string:
        return types.DYN
    origin = node
    if resource_root:
        node = _with_object_meta(node)
    match node.type:
        case "array":
            return _list_type(node, name)
        case "object":
            return _map_type(node, name) if _is_map(node) else _object_type(node, name, origin)
        case "string":
            return _STRING_FORMATS.get(node.format, types.STRING)
        case scalar:
            return _SCALARS.get(scalar)


def _is_map(node: model.SchemaNode) -> bool:
    # additionalProperties: true compiles to ANYTHING, which does not describe the values.
    return node.additional is not None and node.additional is not model.ANYTHING


def _with_object_meta(node: model.SchemaNode) -> model.SchemaNode:
    metadata = node.properties.get("metadata")
    complete = (
        {"kind", "apiVersion"} <= node.properties.keys()
        and metadata is not None
        and {"name", "generateName"} <= metadata.properties.keys()
    )
    if complete:
        return node
    properties = {**node.properties, "kind": _STRING, "apiVersion": _STRING, "metadata": _OBJECT_META}
    return dataclasses.replace(node, properties=properties)


def _list_type(node: model.SchemaNode, name: str) -> types.CelType | None:
    if node.items is None:
        return None
    element = _exposed(node.items, f"{name}.@idx", resource_root=node.items.embedded_resource)
    if element is None:
        return None
    return types.list_of(element, adapter=_list_adapter(node, element))


def _list_adapter(node: model.SchemaNode, element: types.CelType) -> types.Adapter | None:
    adapt = element.adapter
    match node.list_type:
        case "set":
            if adapt is None:
                return _expecting(list, "an array", "array", values.SetList)
            return _expecting(list, "an array", "array", lambda items: values.SetList(map(adapt, items)))
        case "map":
            keys = node.list_map_keys

            def map_list(items: list[Any]) -> values.MapList:
                return values.MapList(items, keys, element)

            return _expecting(list, "an array", "array", map_list)
        case _:
            if adapt is None:
                return None
            return _expecting(list, "an array", "array", lambda items: list(map(adapt, items)))


def _map_type(node: model.SchemaNode, name: str) -> types.CelType | None:
    additional = node.additional
    if additional is None:
        return None
    value = _exposed(additional, f"{name}.@elem", resource_root=additional.embedded_resource)
    if value is None:
        return None
    adapt = value.adapter
    if adapt is None:
        return types.map_of(types.STRING, value)

    def adapt_values(mapping: dict[str, Any]) -> dict[str, Any]:
        return {key: adapt(item) for key, item in mapping.items()}

    return types.map_of(types.STRING, value, adapter=_expecting(dict, "a map", "object", adapt_values))


def _object_type(node: model.SchemaNode, name: str, origin: model.SchemaNode) -> types.ObjectType:
    def load() -> Mapping[str, types.Field]:
        fields: dict[str, types.Field] = {}
        for json_name, property_node in node.properties.items():
            identifier = escaping.escape(json_name)
            if identifier is None:
                continue
            field_type = _exposed(property_node, f"{name}.{identifier}", resource_root=property_node.embedded_resource)
            if field_type is None:
                continue
            fields[identifier] = types.Field(json_name, field_type)
            if json_name in escaping.RESERVED and json_name not in _KEYWORD_TOKENS:
                fields.setdefault(json_name, fields[identifier])  # `self.namespace` needs no escape after a dot
        return fields

    return types.ObjectType(name, load, origin=origin)


def _expecting(kind: type, noun: str, type_name: str, convert: Callable[[Any], Any]) -> types.Adapter:
    """Convert JSON of the right type and reject any other; null is allowed where the schema allows it."""

    def adapt(value: Any) -> Any:
        if isinstance(value, kind):
            return convert(value)
        if value is None:
            return None
        raise errors.EvaluationError(f"invalid data, expected {noun} for the provided schema with type={type_name}")

    return adapt


def _text_adapter(noun: str, parse: Callable[[str], Any]) -> types.Adapter:
    def adapt(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, str):
            raise errors.EvaluationError(f"invalid data, expected string, got {type(value).__name__}")
        try:
            return parse(value)
        except ValueError as error:
            raise errors.EvaluationError(f"Invalid {noun} {value}: {error}") from None

    return adapt


def _number(value: Any) -> Any:
    # A whole number such as 1.0 may arrive as 1.
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("illegal base64 data") from None


_STRING_FORMATS = {
    "byte": types.BYTES.with_adapter(_text_adapter("byte formatted string", _decode_base64)),
    "date": types.TIMESTAMP.with_adapter(_text_adapter("date formatted string", times.parse_date)),
    "date-time": types.TIMESTAMP.with_adapter(
        _text_adapter("date-time formatted string", times.parse_schema_date_time)
    ),
    "duration": types.DURATION.with_adapter(_text_adapter("duration", times.parse_schema_duration)),
}
_SCALARS = {
    "boolean": types.BOOL,
    "integer": types.INT,
    "number": types.DOUBLE.with_adapter(_number),
}
