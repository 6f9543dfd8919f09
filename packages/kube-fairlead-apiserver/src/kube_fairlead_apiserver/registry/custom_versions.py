"""Serves custom resources that are stored with one version and schema, and requested with another.

A stored object was valid for the schema of its write. It is served with the current schema: without removed fields,
with new defaults, and in another version with that version's fields only. As in Kubernetes, only the next write of an
object stores it again.

Almost every object was written with the schema that it is read with, and is served as the stored bytes.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/customresource_handler.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/conversion/converter.go
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.crd.definition import CustomResourceKind
from kube_fairlead_apiserver.schema.defaulting import copy_json
from kube_fairlead_apiserver.storage.entries import HEAD, Entry, Origin

__all__ = ["CustomVersion", "CustomVersions"]


# Bytes of cached conversions for each version of a kind.
_REMEMBERED_BYTES = 32 << 20


class CustomVersions:
    """All versions of one custom kind, compiled from one state of its definition."""

    def __init__(self, kinds: Mapping[str, CustomResourceKind], *, unchanged: bool) -> None:
        """``unchanged``: its definition has never changed, so every stored object was written with it."""
        self.kinds = kinds
        self.unchanged = unchanged
        self.storage = next(kind for kind in kinds.values() if kind.storage)
        self.origin = Origin(self.storage.version)

    def wrote(self, entry: Entry) -> bool:
        """Return whether the stored object has the schema of the storage version."""
        return self.unchanged or entry.origin is self.origin


class CustomVersion:
    """One version of a custom kind: how it serves and stores objects."""

    def __init__(self, kind: CustomResourceKind, versions: CustomVersions) -> None:
        self._kind = kind
        self._versions = versions
        self._known: dict[tuple[str, bytes], bytes] = {}  # the oldest first
        self._known_bytes = 0

    @property
    def origin(self) -> Origin:
        """The origin of its objects."""
        return self._versions.origin

    def shows_stored(self, entry: Entry) -> bool:
        """Return whether the object is served in its stored form, without decoding it."""
        return self._kind.storage and self._versions.wrote(entry)

    def shown(self, entry: Entry) -> Entry:
        """Return the object in this version: mostly the same entry."""
        if self._kind.storage and self._versions.wrote(entry):
            return entry
        version = entry.origin.version if entry.origin is not None else self._versions.storage.version
        tail = self._known.get((version, entry.tail))
        if tail is None:
            tail = self._reshape(version, entry.tail)
            self._remember((version, entry.tail), tail)
        return entry if tail is entry.tail else entry.showing(tail)

    def stored(self, obj: Json) -> Json:
        """Return the object in the storage version; the caller must not change it."""
        if self._kind.storage:
            return obj
        stored: Json = copy_json(obj)
        self._versions.storage.restore(stored)
        return stored

    def returned(self, obj: Json) -> Json:
        """Return an object of this version after it was stored: other versions may drop fields."""
        if self._kind.storage:
            return obj
        left = self.stored(obj)
        self._kind.adopt(left)
        return left

    def keeps(self, entry: Entry, obj: Json) -> bool:
        """Return whether an object that a client sees unchanged is also stored unchanged, and need not be written."""
        if self._kind.storage and self._versions.wrote(entry):
            return True
        if entry.origin is not None and entry.origin.version != self._versions.storage.version:
            return False
        stored = {key: value for key, value in self.stored(obj).items() if key not in {"apiVersion", "kind"}}
        was = msgspec.json.decode(entry.value)
        was["metadata"]["resourceVersion"] = obj["metadata"].get("resourceVersion")
        return bool(stored == was)

    def _reshape(self, version: str, tail: bytes) -> bytes:
        obj = msgspec.json.decode(HEAD + tail)
        wrote = self._versions.kinds.get(version, self._versions.storage)
        wrote.restore(obj)
        if wrote is not self._kind:
            self._kind.adopt(obj)
        reshaped = msgspec.json.encode(obj)[len(HEAD) :]
        return tail if reshaped == tail else reshaped

    def _remember(self, key: tuple[str, bytes], tail: bytes) -> None:
        self._known[key] = tail
        self._known_bytes += len(key[1]) + len(tail)
        while self._known_bytes > _REMEMBERED_BYTES:
            oldest = next(iter(self._known))
            self._known_bytes -= len(oldest[1]) + len(self._known.pop(oldest))
