"""The few metadata that the client itself looks at, of typed objects and plain dictionaries alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["Key", "key_of", "name_of", "namespace_of", "resource_version_of", "uid_of"]


class Key(NamedTuple):
    """What names an object among its kind. The namespace is empty for a cluster-scoped one."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(item: object) -> Key:
    """The key of an object."""
    return Key(namespace_of(item), name_of(item))


def name_of(item: object) -> str:
    """metadata.name, or nothing."""
    return _field(item, "name", "name")


def namespace_of(item: object) -> str:
    """metadata.namespace, or nothing."""
    return _field(item, "namespace", "namespace")


def uid_of(item: object) -> str:
    """metadata.uid, or nothing."""
    return _field(item, "uid", "uid")


def resource_version_of(item: object) -> str:
    """metadata.resourceVersion, or nothing."""
    return _field(item, "resourceVersion", "resource_version")


def _field(item: object, key: str, attribute: str) -> str:
    if isinstance(item, Mapping):
        value: Any = (item.get("metadata") or {}).get(key)
    else:
        value = getattr(getattr(item, "metadata", None), attribute, None)
    return value or ""
