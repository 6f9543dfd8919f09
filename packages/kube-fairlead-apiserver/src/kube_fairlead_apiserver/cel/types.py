"""Types of expressions, and their conversion of JSON.

A type has a kind, a name and parameters. A type that came from a schema also converts JSON: ``adapter`` converts a JSON
value (a date-time string) to the CEL value (a timestamp). Objects need no adapter: they stay the JSON dict, and each
field is converted when an expression reads it.

Upstream: github.com/google/cel-go@v0.26.0/common/types/types.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/types.go
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any

__all__ = [
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "ERROR",
    "INT",
    "LIST",
    "MAP",
    "NULL",
    "OPTIONAL",
    "STRING",
    "TIMESTAMP",
    "TYPE",
    "UINT",
    "Adapter",
    "CelType",
    "Field",
    "Kind",
    "ObjectType",
    "list_of",
    "map_of",
    "opaque",
    "optional_of",
    "parameter",
    "type_of_type",
]

Adapter = Callable[[Any], Any]


class Kind(enum.Enum):
    """The kinds of types that the checker distinguishes."""

    PRIMITIVE = enum.auto()  # bool, int, uint, double, string, bytes
    TIME = enum.auto()  # timestamp, duration: well-known messages, hence comparable to null
    NULL = enum.auto()
    DYN = enum.auto()
    ERROR = enum.auto()  # the type of a node with a reported error
    LIST = enum.auto()
    MAP = enum.auto()
    OBJECT = enum.auto()
    OPAQUE = enum.auto()
    TYPE = enum.auto()
    PARAMETER = enum.auto()


class CelType:
    """One type. Types with the same kind, name and parameters are equal."""

    __slots__ = ("_hash", "adapter", "kind", "name", "parameters")

    def __init__(
        self,
        kind: Kind,
        name: str,
        parameters: tuple[CelType, ...] = (),
        *,
        adapter: Adapter | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.parameters = parameters
        self.adapter = adapter
        self._hash = hash((kind, name, parameters))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, CelType)
            and self._hash == other._hash
            and self.kind is other.kind
            and self.name == other.name
            and self.parameters == other.parameters
        )

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        """Return the type as compile errors print it."""
        short = _SHORT_NAMES.get(self.name, self.name)
        if not self.parameters:
            return short
        return f"{short}({', '.join(map(str, self.parameters))})"

    def __repr__(self) -> str:
        return f"<CelType {self}>"

    def with_adapter(self, adapter: Adapter | None) -> CelType:
        """Return the same type with an adapter for JSON."""
        return CelType(self.kind, self.name, self.parameters, adapter=adapter)


class Field:
    """A field of an object: its key in JSON and its type."""

    __slots__ = ("json_name", "type")

    def __init__(self, json_name: str, cel_type: CelType) -> None:
        self.json_name = json_name
        self.type = cel_type


class ObjectType(CelType):
    """An object with known fields. They are computed on demand, because schemas may be recursive.

    ``origin`` is the same for types of the same place in a schema, which may have many names.
    """

    __slots__ = ("_fields", "_load", "origin")

    def __init__(
        self,
        name: str,
        fields: Mapping[str, Field] | Callable[[], Mapping[str, Field]],
        *,
        origin: object | None = None,
    ) -> None:
        super().__init__(Kind.OBJECT, name)
        self.origin = self if origin is None else origin
        self._fields: Mapping[str, Field] | None = None if callable(fields) else fields
        self._load = fields if callable(fields) else None

    @property
    def fields(self) -> Mapping[str, Field]:
        """The fields by their CEL identifiers."""
        if self._fields is None:
            self._fields = self._load() if self._load is not None else {}
        return self._fields


_SHORT_NAMES = {
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "duration",
    "null_type": "null",
}

BOOL = CelType(Kind.PRIMITIVE, "bool")
INT = CelType(Kind.PRIMITIVE, "int")
UINT = CelType(Kind.PRIMITIVE, "uint")
DOUBLE = CelType(Kind.PRIMITIVE, "double")
STRING = CelType(Kind.PRIMITIVE, "string")
BYTES = CelType(Kind.PRIMITIVE, "bytes")
NULL = CelType(Kind.NULL, "null_type")
TIMESTAMP = CelType(Kind.TIME, "google.protobuf.Timestamp")
DURATION = CelType(Kind.TIME, "google.protobuf.Duration")
DYN = CelType(Kind.DYN, "dyn")
ERROR = CelType(Kind.ERROR, "!error!")


def list_of(element: CelType, *, adapter: Adapter | None = None) -> CelType:
    """``list(element)``."""
    return CelType(Kind.LIST, "list", (element,), adapter=adapter)


def map_of(key: CelType, value: CelType, *, adapter: Adapter | None = None) -> CelType:
    """``map(key, value)``."""
    return CelType(Kind.MAP, "map", (key, value), adapter=adapter)


def opaque(name: str, *parameters: CelType) -> CelType:
    """Return a library's own type."""
    return CelType(Kind.OPAQUE, name, parameters)


def optional_of(value: CelType) -> CelType:
    """``optional_type(value)``."""
    return opaque("optional_type", value)


def type_of_type(described: CelType) -> CelType:
    """``type(described)``: the type of a name such as ``int``."""
    return CelType(Kind.TYPE, "type", (described,))


def parameter(name: str) -> CelType:
    """Return a type variable of a signature."""
    return CelType(Kind.PARAMETER, name)


LIST = list_of(DYN)
MAP = map_of(DYN, DYN)
OPTIONAL = optional_of(DYN)
TYPE = CelType(Kind.TYPE, "type")
