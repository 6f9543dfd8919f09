"""Computes the maximum sizes of a schema's values, for the cost estimates of rules.

The numbers are Kubernetes'. A value without a bound in the schema is bounded by the largest request, 3 MiB.

Upstream: k8s.io/apiserver@v0.36.4/pkg/cel/common/schemas.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/limits.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apis/apiextensions/validation/cel_validation.go
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from kube_fairlead_apiserver.cel import escaping
from kube_fairlead_apiserver.schema.model import ANYTHING, SchemaNode

__all__ = ["REQUEST_BYTES_MAX", "DeclType", "declare", "occurrences"]

REQUEST_BYTES_MAX = 3 * 1024 * 1024
_STRING_MIN = 2  # ""
_OBJECT_MIN = 2  # {} or []
_FORMATS = {"date": (12, 12), "date-time": (32, 21), "duration": (32, 3)}  # longest and shortest as JSON
_SCALARS = {"boolean": 4, "integer": 1, "number": 1}  # shortest as JSON


@dataclasses.dataclass(slots=True)
class DeclType:
    """One type as CEL declares it: its maximum number of elements, its minimum number of bytes as JSON."""

    elements_max: int = 0
    bytes_min: int = 0
    fields: Mapping[str, DeclType] = dataclasses.field(default_factory=dict)  # by CEL identifier
    element: DeclType | None = None
    key: DeclType | None = None

    def at(self, path: Sequence[str]) -> DeclType | None:
        """Return the type at a path of field names, ``@items``, ``@values`` and ``@keys``; None if there is none."""
        found: DeclType | None = self
        for name in path:
            if found is None:
                return None
            if name in {"@items", "@values"}:
                found = found.element
            elif name == "@keys":
                found = found.key
            else:
                found = found.fields.get(name)
        return found


_STRING = SchemaNode(type="string")
_METADATA = SchemaNode(type="object", properties={"name": _STRING, "generateName": _STRING})


def declare(node: SchemaNode, *, resource: bool = False) -> DeclType | None:
    """Return the type of a schema, None if expressions cannot see it. ``resource``: values are whole resources."""
    source = node.source
    if node.int_or_string:
        return DeclType(_text_max(source.get("maxLength"), 4) or REQUEST_BYTES_MAX - 2, 1)
    if node.type == "array":
        items = None if node.items is None else declare(node.items, resource=node.items.embedded_resource)
        if items is None:
            return None
        bound = source.get("maxItems")
        most = max(0, bound) if bound is not None else (REQUEST_BYTES_MAX - 2) // (items.bytes_min + 1)
        return DeclType(most, _OBJECT_MIN, element=items)
    if node.type == "object":
        if node.additional is not None and node.additional is not ANYTHING:
            return _declare_map(node, node.additional)
        return _declare_object(node, resource=resource)
    if node.type == "string":
        return _declare_string(node)
    return DeclType(0, _SCALARS[node.type]) if node.type in _SCALARS else None


def _text_max(length: int | None, factor: int) -> int | None:
    # A character may take four bytes.
    return None if length is None else max(0, length) * factor


def _declare_map(node: SchemaNode, additional: SchemaNode) -> DeclType | None:
    values = declare(additional, resource=additional.embedded_resource)
    if values is None:
        return None
    bound = node.source.get("maxProperties")
    # A key, its quotes, colon and comma take at least six bytes.
    most = max(0, bound) if bound is not None else (REQUEST_BYTES_MAX - 2) // (values.bytes_min + 6)
    return DeclType(most, _OBJECT_MIN, element=values, key=DeclType(0, _STRING_MIN))


def _declare_object(node: SchemaNode, *, resource: bool) -> DeclType:
    properties = dict(node.properties)
    if resource:
        properties |= {"apiVersion": _STRING, "kind": _STRING, "metadata": _METADATA}
    fields: dict[str, DeclType] = {}
    bytes_min = _OBJECT_MIN
    for name, child in properties.items():
        declared = declare(child, resource=child.embedded_resource)
        if declared is None:
            continue
        identifier = escaping.escape(name)
        if identifier is not None:
            fields[identifier] = declared
        if name in node.required and child.default is None:
            bytes_min += len(name.encode()) + declared.bytes_min + 4
    return DeclType(0, bytes_min, fields)


def _declare_string(node: SchemaNode) -> DeclType:
    source = node.source
    if node.format in _FORMATS:
        longest, shortest = _FORMATS[node.format]
        return DeclType(longest, shortest)
    bounded = _text_max(source.get("maxLength"), 1 if node.format == "byte" else 4)
    if bounded is None and node.format != "byte" and source.get("enum"):
        bounded = max((len(text.encode()) for text in source["enum"] if isinstance(text, str)), default=0)
    return DeclType(REQUEST_BYTES_MAX - 2 if bounded is None else bounded, _STRING_MIN)


def occurrences(schema: Mapping[str, object]) -> int | None:
    """Return the maximum number of children of one value in one place; None: unbounded."""
    if schema.get("type") == "array":
        bound = schema.get("maxItems")
    elif schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        bound = schema.get("maxProperties")
    else:
        return 1
    return max(0, bound) if isinstance(bound, int) else None
