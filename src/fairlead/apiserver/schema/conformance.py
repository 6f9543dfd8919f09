"""Whether a value has the shape its schema declares: what a typed decoder would refuse, before anything looks at it.

Built-in kinds are decoded into Go structs by Kubernetes, so a string where a number belongs is a bad request, not an
invalid object. Nulls pass: Go decodes them to nothing.
"""

from __future__ import annotations

from typing import Any

from fairlead.apiserver.schema.model import Node

__all__ = ["first_mismatch"]

_JSON_NAMES = {str: "string", bool: "bool", int: "number", float: "number", dict: "object", list: "array"}
_GO_NAMES = {"integer": "int64", "number": "float64", "boolean": "bool", "string": "string"}


def first_mismatch(node: Node, value: Any, path: str = "") -> str | None:
    """What does not fit, in the words of Go's decoder; None when everything does."""
    if value is None:
        return None
    kind = node.type
    cls = value.__class__
    if kind == "object" or (not kind and (node.properties or node.additional is not None)):
        if cls is not dict:
            return _unfit(value, path, "object")
        return _object(node, value, path)
    if kind == "array":
        if cls is not list:
            return _unfit(value, path, "array")
        return _array(node, value, path)
    if not kind or node.int_or_string:
        return _unfit(value, path, "intstr.IntOrString") if node.int_or_string and cls not in {int, str} else None
    if _fits(node, cls, value):
        return None
    return _unfit(value, path, node.format or _GO_NAMES.get(kind, kind))


def _fits(node: Node, cls: type, value: Any) -> bool:
    match node.type:
        case "string":
            return cls is str or node.format == "quantity" or (cls in {int, float} and node.format == "int-or-string")
        case "boolean":
            return cls is bool
        case "integer":
            bits = 31 if node.format == "int32" else 63
            return cls is int and -(1 << bits) <= value < 1 << bits
        case "number":
            return cls in {int, float}
    return True


def _object(node: Node, value: dict[str, Any], path: str) -> str | None:
    properties = node.properties
    additional = node.additional
    for key, item in value.items():
        child = properties.get(key) or additional
        if child is not None and item is not None:
            problem = first_mismatch(child, item, f"{path}.{key}")
            if problem is not None:
                return problem
    return None


def _array(node: Node, value: list[Any], path: str) -> str | None:
    items = node.items
    if items is None:
        return None
    for item in value:
        problem = first_mismatch(items, item, path)
        if problem is not None:
            return problem
    return None


def _unfit(value: Any, path: str, wanted: str) -> str:
    found = _JSON_NAMES.get(value.__class__, value.__class__.__name__)
    if found == "number" and wanted in {"int32", "int64"}:
        found = f"number {value}"
    return f"json: cannot unmarshal {found} into Go struct field {path} of type {wanted}"
