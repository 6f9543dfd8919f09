"""Go types and their fields, read from the notation that `hack/types` writes.

A field reads ``<protobuf number> <type> <word>...``, for example
``6 []ContainerPort list=map:containerPort,protocol patch=merge:containerPort``. The type is ``*T`` (present or absent,
so zero differs from absent), ``[]T`` (list), ``{}T`` (map from strings), ``<>T`` (a list that is a message on
the wire), a scalar, or the name of another type, of the same package when it has no dot. A field named ``+Name`` is
an embedded struct: its fields stand beside the others in JSON.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from kube_fairlead_apiserver.types.builtin_data import builtin_data

__all__ = ["SCALARS", "Field", "TypeInfo", "TypeRef", "describe", "parse_type", "zero_value"]

SCALARS: Final = frozenset({"bool", "bytes", "float64", "int32", "int64", "string"})

Form = Literal["list", "map", "message", "scalar", "wrapped"]
_PREFIXES: Final[dict[str, Form]] = {"[]": "list", "{}": "map", "<>": "wrapped"}


class TypeRef(msgspec.Struct, frozen=True):
    """The type of a field, or of its items."""

    form: Form
    name: str = ""  # of a scalar, or in full of another type
    item: TypeRef | None = None  # of a list, a map or a wrapped list
    pointer: bool = False


class Field(msgspec.Struct, frozen=True):
    """One field of a Go struct, for JSON, protobuf and OpenAPI."""

    name: str  # in JSON; empty for an embedded struct
    number: int  # in protobuf; 0 when it is not on the wire
    type: TypeRef
    required: bool = False
    omit_empty: bool = True  # a zero value is left out of the JSON
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    patch_strategy: str = ""
    patch_merge_key: str = ""
    enum: tuple[str, ...] = ()
    item_enum: tuple[str, ...] = ()
    default: Any = msgspec.UNSET  # the default in OpenAPI, which may be only Go's zero value

    @property
    def embedded(self) -> bool:
        """Whether this is an embedded struct: its fields are fields of the outer struct in JSON."""
        return not self.name


class TypeInfo(msgspec.Struct, frozen=True):
    """One Go type; ``fields`` is None for a leaf, which has its own schema and wire form."""

    name: str
    fields: tuple[Field, ...] | None
    schema: Mapping[str, Any]  # of a leaf
    extra: Mapping[str, Any]  # the OpenAPI of the type besides its fields


@functools.cache
def describe(name: str) -> TypeInfo:
    """Return the type of this full name, such as ``api.core.v1.Pod``; KeyError when there is none."""
    package, _, short_name = name.rpartition(".")
    data = builtin_data().packages[package].type(short_name)
    fields = None
    if data.fields is not None:
        fields = tuple(_parse_field(package, key, text) for key, text in data.fields.items())
    return TypeInfo(name, fields, data.schema or {}, data.extra or {})


def parse_type(package: str, text: str) -> TypeRef:
    """Parse a type expression; names without a dot belong to ``package``."""
    if text.startswith("*"):
        return msgspec.structs.replace(parse_type(package, text[1:]), pointer=True)
    form = _PREFIXES.get(text[:2])
    if form is not None:
        return TypeRef(form, item=parse_type(package, text[2:]))
    if text in SCALARS:
        return TypeRef("scalar", text)
    return TypeRef("message", text if "." in text else f"{package}.{text}")


def _parse_field(package: str, key: str, text: str) -> Field:
    number, expression, *words = text.split(" ")
    reference = parse_type(package, expression)
    if key.startswith("+"):
        return Field("", int(number), reference)
    values: dict[str, Any] = {"required": "required" in words}
    values["omit_empty"] = "omitempty" in words or not {"always", "required"} & set(words)
    for word in words:
        name, _, value = word.replace("%20", " ").partition("=")
        if name == "list":
            values["list_type"], _, keys = value.partition(":")
            values["list_map_keys"] = tuple(keys.split(",")) if keys else ()
        elif name == "map":
            values["map_type"] = value
        elif name == "patch":
            values["patch_strategy"], _, values["patch_merge_key"] = value.partition(":")
        elif name == "enum":
            values["enum"] = tuple(value.split("|"))
        elif name == "each":
            values["item_enum"] = tuple(value.split("|"))
        elif name == "default":
            values["default"] = msgspec.json.decode(value)
        elif name == "zero":
            values["default"] = zero_value(reference)
    return Field(key, int(number), reference, **values)


def zero_value(reference: TypeRef) -> Any:
    """Return Go's zero value of a type, as JSON."""
    if reference.form != "scalar":
        return {}
    return {"bool": False, "string": "", "bytes": ""}.get(reference.name, 0)
