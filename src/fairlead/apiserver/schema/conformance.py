"""Bringing a built-in object into shape, as a typed decoder would: what does not fit is refused, the rest is canonical.

Kubernetes decodes built-in kinds into Go structs. So a string where a number belongs is a bad request, not an invalid
object; a null says nothing; and quantities come back in their canonical spelling.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from fairlead.api.quantity import Quantity
from fairlead.api.time import parse_time
from fairlead.apiserver.schema.model import Node

__all__ = ["Unfit", "conform"]

_JSON_NAMES = {str: "string", bool: "bool", int: "number", float: "number", dict: "object", list: "array"}
_GO_NAMES = {"integer": "int64", "number": "float64", "boolean": "bool", "string": "string"}


class Unfit(ValueError):
    """A value that its type cannot hold; the message is in the words of Go's decoder."""


def conform(node: Node, value: Any, path: str = "") -> Any:
    """The value as its type holds it. Objects and lists are changed in place."""
    cls = value.__class__
    kind = node.type
    if kind == "object" or (not kind and (node.properties or node.additional is not None)):
        if cls is not dict:
            raise _unfit(value, path, "object")
        _object(node, value, path)
        return value
    if kind == "array":
        if cls is not list:
            raise _unfit(value, path, "array")
        _array(node, value, path)
        return value
    if node.int_or_string:
        if cls is not int and cls is not str:
            raise _unfit(value, path, "intstr.IntOrString")
        return value
    if node.is_quantity:
        return _quantity(value, path)
    if kind:
        _scalar(node, cls, value, path)
    return value


def _object(node: Node, value: dict[str, Any], path: str) -> None:
    properties = node.properties
    additional = node.additional
    nulls: list[str] | None = None
    for key, item in value.items():
        if item is None:
            nulls = nulls or []
            nulls.append(key)
            continue
        child = properties.get(key) or additional
        if child is not None:
            cls = item.__class__
            if cls is str and child.type == "string" and not child.format:
                continue  # most of what an object holds
            fitted = conform(child, item, f"{path}.{key}")
            if fitted is not item:
                value[key] = fitted
    if nulls and not node.preserve_unknown_fields:
        for key in nulls:
            del value[key]


def _array(node: Node, value: list[Any], path: str) -> None:
    items = node.items
    if items is None:
        return
    for position, item in enumerate(value):
        if item is not None:
            fitted = conform(items, item, path)
            if fitted is not item:
                value[position] = fitted


def _scalar(node: Node, cls: type, value: Any, path: str) -> None:
    match node.type:
        case "string":
            if cls is not str:
                raise _unfit(value, path, "string")
            if node.format:
                _formatted(node.format, value, path)
        case "boolean":
            if cls is not bool:
                raise _unfit(value, path, "bool")
        case "integer":
            bits = 31 if node.format == "int32" else 63
            if cls is not int or not -(1 << bits) <= value < 1 << bits:
                raise _unfit(value, path, node.format or "int64")
        case "number":
            if cls is not int and cls is not float:
                raise _unfit(value, path, "float64")


def _formatted(name: str, value: str, path: str) -> None:
    if name == "date-time":
        try:
            parse_time(value)
        except ValueError as error:
            raise Unfit(str(error)) from error
    elif name == "byte":
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Unfit(f"illegal base64 data in {path.lstrip('.')}: {error}") from error


def _quantity(value: Any, path: str) -> str:
    if value.__class__ not in {str, int, float}:
        raise _unfit(value, path, "resource.Quantity")
    try:
        return str(Quantity.parse(str(value)))
    except ValueError as error:
        raise Unfit(str(error)) from error


def _unfit(value: Any, path: str, wanted: str) -> Unfit:
    found = _JSON_NAMES.get(value.__class__, value.__class__.__name__)
    if found == "number" and wanted in {"int32", "int64"}:
        found = f"number {value}"
    return Unfit(f"json: cannot unmarshal {found} into Go struct field {path} of type {_GO_NAMES.get(wanted, wanted)}")
