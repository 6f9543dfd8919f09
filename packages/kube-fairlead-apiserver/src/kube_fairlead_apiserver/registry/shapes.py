"""The shape of custom resources: stored by one version and one state of its schema, shown by another.

What is stored was right for the schema of its day. It is shown as the schema of today has it, without the fields that
are gone and with the defaults that are new, and in another version with that version's fields only. It is not
written for that: as in Kubernetes, only the next write of an object stores it anew.

Nearly every object was written by the very schema that it is read by, and is shown as the bytes that are stored.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/customresource_handler.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/conversion/converter.go
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.crd.definition import CustomResourceKind
from kube_fairlead_apiserver.schema.defaulting import copy_json
from kube_fairlead_apiserver.storage.records import HEAD, Entry, Origin

__all__ = ["Family", "Shape"]


# How much is remembered of what was not shown as it is stored, for each version of a kind.
_REMEMBERED_BYTES = 32 << 20


class Family:
    """The versions of one custom kind, as one state of its definition has them."""

    def __init__(self, kinds: Mapping[str, CustomResourceKind], *, unchanged: bool) -> None:
        """``unchanged``: its definition has never been any other, so every object that is stored was written by it."""
        self.kinds = kinds
        self.unchanged = unchanged
        self.storage = next(kind for kind in kinds.values() if kind.storage)
        self.origin = Origin(self.storage.version)

    def wrote(self, entry: Entry) -> bool:
        """Whether what is stored has the shape of the storage version."""
        return self.unchanged or entry.origin is self.origin


class Shape:
    """How one version of a custom kind shows what is stored, and how it stores what it is given."""

    def __init__(self, kind: CustomResourceKind, family: Family) -> None:
        self._kind = kind
        self._family = family
        self._known: dict[tuple[str, bytes], bytes] = {}  # the oldest first
        self._known_bytes = 0

    @property
    def origin(self) -> Origin:
        """What its objects are stored by."""
        return self._family.origin

    def shows_stored(self, entry: Entry) -> bool:
        """Whether the object is shown as it is stored, as is known without looking into it."""
        return self._kind.storage and self._family.wrote(entry)

    def shown(self, entry: Entry) -> Entry:
        """The object as this version shows it: mostly the very same."""
        if self._kind.storage and self._family.wrote(entry):
            return entry
        version = entry.origin.version if entry.origin is not None else self._family.storage.version
        tail = self._known.get((version, entry.tail))
        if tail is None:
            tail = self._reshape(version, entry.tail)
            self._remember((version, entry.tail), tail)
        return entry if tail is entry.tail else entry.showing(tail)

    def stored(self, obj: Json) -> Json:
        """The object as the storage version has it; the caller must not change it."""
        if self._kind.storage:
            return obj
        stored: Json = copy_json(obj)
        self._family.storage.restore(stored)
        return stored

    def returned(self, obj: Json) -> Json:
        """What is left of an object of this version once it has been stored."""
        if self._kind.storage:
            return obj
        left = self.stored(obj)
        self._kind.adopt(left)
        return left

    def keeps(self, entry: Entry, obj: Json) -> bool:
        """Whether an object that is shown unchanged is also stored unchanged, and need not be written."""
        if self._kind.storage and self._family.wrote(entry):
            return True
        if entry.origin is not None and entry.origin.version != self._family.storage.version:
            return False
        stored = {key: value for key, value in self.stored(obj).items() if key not in {"apiVersion", "kind"}}
        was = msgspec.json.decode(entry.value)
        was["metadata"]["resourceVersion"] = obj["metadata"].get("resourceVersion")
        return bool(stored == was)

    def _reshape(self, version: str, tail: bytes) -> bytes:
        obj = msgspec.json.decode(HEAD + tail)
        wrote = self._family.kinds.get(version, self._family.storage)
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
