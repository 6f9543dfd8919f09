"""Converts a built-in object to the form that a typed Go decoder gives it, and rejects values of the wrong type.

Kubernetes decodes built-in kinds into Go structs. So a string in place of a number is a bad request, not an invalid
object. A null is the same as an absent value, and so is an empty value in most optional fields. Quantities and times
are returned in their canonical form.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/runtime/serializer/json/json.go,
    sigs.k8s.io/json@v0.0.0-20250730193827-2d320260d730/internal/golang/encoding/json/decode.go
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Mapping
from typing import Any

from kube_fairlead.api.quantity import Quantity
from kube_fairlead.api.time import canonical_micro_time, canonical_time
from kube_fairlead_apiserver.schema.model import SchemaNode

__all__ = ["TypeMismatch", "conform"]

_JSON_NAMES = {str: "string", bool: "bool", int: "number", float: "number", dict: "object", list: "array"}
_GO_NAMES = {"integer": "int64", "number": "float64", "boolean": "bool", "string": "string"}
_NOTHING: Mapping[str, Any] = {}
_REMEMBERED_LENGTH = 32
_NOT_BASE64 = re.compile("[^A-Za-z0-9+/]")


class TypeMismatch(ValueError):
    """A value does not have the type of its field; the message is that of Go's decoder.

    `path` is the path of the value, as far as it is known: each caller prepends its field.
    """

    def __init__(self, before: str, after: str | None = None) -> None:
        super().__init__(before)
        self.path = ""
        self._before = before
        self._after = after

    def __str__(self) -> str:
        return self._before if self._after is None else f"{self._before}{self.path}{self._after}"


def conform(node: SchemaNode, value: Any, known: Any = None) -> bool:
    """Convert an object in place to the form of its type; returns whether the type has all its fields.

    A part that is the same Python object as in ``known``, at the same place, is converted already.
    """
    unsure: list[SchemaNode] = []
    _fit(node, value, known, unsure)
    return not unsure


def _fit(node: SchemaNode, value: Any, known: Any, unsure: list[SchemaNode]) -> Any:
    """Return the value in the form of its type. Objects and lists are changed in place.

    A node that may lack fields of its value is added to ``unsure``. For most objects there is none, and they are not
    walked again to prune unknown fields.
    """
    cls = value.__class__
    kind = node.type
    if kind == "object" or (not kind and (node.properties or node.additional is not None)):
        if cls is not dict:
            raise _unfit(value, "object")
        _object(node, value, known if known.__class__ is dict else _NOTHING, unsure)
        return value
    if kind == "array":
        if cls is not list:
            raise _unfit(value, "array")
        _array(node, value, unsure)
        return value
    if node.int_or_string:
        if cls is not str and (cls is not int or not -(1 << 31) <= value < 1 << 31):
            raise _unfit(value, "int32" if cls is int else "intstr.IntOrString")
        return value
    if node.is_quantity:
        return _quantity(value)
    if cls is str and node.format == "date-time":
        return _time(node, value)
    if kind:
        _scalar(node, cls, value)
    elif cls is dict or cls is list:
        unsure.append(node)
    return value


def _object(node: SchemaNode, value: dict[str, Any], known: Mapping[str, Any], unsure: list[SchemaNode]) -> None:
    properties = node.properties
    additional = node.additional
    nulls: list[str] | None = None
    empty: list[str] | None = None
    for key, item in value.items():
        if item is None:
            nulls = nulls or []
            nulls.append(key)
            continue
        child = properties.get(key) or additional
        if child is None:
            unsure.append(node)
        else:
            if not item and key in node.omitted:
                empty = empty or []
                empty.append(key)
            cls = item.__class__
            if (cls is str and child.type == "string" and not child.format) or (
                cls is bool and child.type == "boolean"
            ):
                continue  # most values of an object
            was = known.get(key)
            if was is item:
                continue
            try:
                fitted = _fit(child, item, was, unsure)
            except TypeMismatch as unfit:
                unfit.path = f".{key}{unfit.path}"
                raise
            if fitted is not item:
                value[key] = fitted
    for key in empty or ():
        del value[key]
    if nulls:
        if node.preserve_unknown_fields:
            unsure.append(node)
        else:
            for key in nulls:
                del value[key]


def _array(node: SchemaNode, value: list[Any], unsure: list[SchemaNode]) -> None:
    items = node.items
    if items is None:
        unsure.append(node)
        return
    for position, item in enumerate(value):
        if item is not None:
            fitted = _fit(items, item, None, unsure)
            if fitted is not item:
                value[position] = fitted


def _scalar(node: SchemaNode, cls: type, value: Any) -> None:
    match node.type:
        case "string":
            if cls is not str:
                raise _unfit(value, "string")
            if node.format == "byte":
                _bytes(value)
        case "boolean":
            if cls is not bool:
                raise _unfit(value, "bool")
        case "integer":
            bits = 31 if node.format == "int32" else 63
            if cls is not int or not -(1 << bits) <= value < 1 << bits:
                raise _unfit(value, node.format or "int64")
        case "number":
            if cls is not int and cls is not float:
                raise _unfit(value, "float64")


def _bytes(value: str) -> None:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise TypeMismatch(f"illegal base64 data at input byte {_first_illegal(value)}") from error


def _time(node: SchemaNode, value: str) -> str:
    try:
        return canonical_micro_time(value) if node.is_micro_time else canonical_time(value)
    except ValueError as error:
        raise TypeMismatch(str(error)) from error


def _first_illegal(text: str) -> int:
    found = _NOT_BASE64.search(text)
    return len(text) if found is None else found.start()


def _quantity(value: Any) -> str:
    if value.__class__ not in {str, int, float}:
        raise _unfit(value, "resource.Quantity")
    text = str(value)
    try:
        return _canonical(text) if len(text) <= _REMEMBERED_LENGTH else str(Quantity.parse(text))
    except ValueError as error:
        raise TypeMismatch(str(error)) from error


@functools.lru_cache(maxsize=1024)
def _canonical(text: str) -> str:
    # A cluster uses the same few quantities many times.
    return str(Quantity.parse(text))


def _unfit(value: Any, wanted: str) -> TypeMismatch:
    found = _JSON_NAMES.get(value.__class__, value.__class__.__name__)
    if found == "number" and wanted in {"int32", "int64"}:
        found = f"number {value}"
    kind = _GO_NAMES.get(wanted, wanted)
    return TypeMismatch(f"json: cannot unmarshal {found} into Go struct field ", f" of type {kind}")
