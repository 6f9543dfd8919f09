"""Reads `builtin.json` once, and decodes a type at its first use."""

from __future__ import annotations

import functools
import pathlib
from typing import Any

import msgspec

__all__ = ["BuiltinData", "PackageData", "ResourceData", "SubresourceData", "TypeData", "builtin_data"]


class SubresourceData(msgspec.Struct, frozen=True):
    """A subresource in the file; its kind may belong to another group."""

    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


class ResourceData(msgspec.Struct, frozen=True, rename="camel"):
    """A resource in the file."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[SubresourceData, ...] = ()


class TypeData(msgspec.Struct, frozen=True):
    """One Go type: its fields in the notation of `types.fields`, or a leaf with its own schema."""

    fields: dict[str, str] | None = None
    schema: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None  # the OpenAPI definition besides type, properties and required


class PackageData(msgspec.Struct, frozen=True):
    """One Go package. Its kinds belong to this group and version; a package without a version has no kinds."""

    group: str
    version: str
    types: dict[str, msgspec.Raw]

    def type(self, name: str) -> TypeData:
        """Decode one type of the package."""
        return msgspec.json.decode(self.types[name], type=TypeData)


class BuiltinData(msgspec.Struct, frozen=True):
    """The whole file. Types stay undecoded, so that start-up costs a millisecond and a fraction of a megabyte."""

    kubernetes: str
    resources: tuple[ResourceData, ...]
    packages: dict[str, PackageData]


@functools.cache
def builtin_data() -> BuiltinData:
    """Return the file's content."""
    path = pathlib.Path(__file__).with_name("builtin.json")
    return msgspec.json.decode(path.read_bytes(), type=BuiltinData)
