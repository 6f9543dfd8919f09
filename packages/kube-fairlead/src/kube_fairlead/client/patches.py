"""The four kinds of patch, each a value that knows its wire form."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from kube_fairlead.api import wire
from kube_fairlead.api.meta import KubeObject

__all__ = ["Apply", "JsonPatch", "MergePatch", "Patch", "StrategicMergePatch"]


@dataclasses.dataclass(frozen=True, slots=True)
class JsonPatch:
    """RFC 6902: a list of operations. The only kind that can test a value before it changes another."""

    content_type: ClassVar[str] = "application/json-patch+json"
    document: Sequence[Mapping[str, Any]]

    def encode(self) -> bytes:
        """The body of the request."""
        return msgspec.json.encode(self.document)


@dataclasses.dataclass(frozen=True, slots=True)
class MergePatch:
    """RFC 7386: given fields replace, null removes, lists are replaced whole."""

    content_type: ClassVar[str] = "application/merge-patch+json"
    document: Mapping[str, Any]

    def encode(self) -> bytes:
        """The body of the request."""
        return msgspec.json.encode(self.document)


@dataclasses.dataclass(frozen=True, slots=True)
class StrategicMergePatch:
    """Kubernetes' own: lists merge by their key. Built-in kinds only; custom resources refuse it."""

    content_type: ClassVar[str] = "application/strategic-merge-patch+json"
    document: Mapping[str, Any]

    def encode(self) -> bytes:
        """The body of the request."""
        return msgspec.json.encode(self.document)


@dataclasses.dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply: this is all that the field manager wants to be so."""

    # YAML by name; JSON is YAML, and what every server before 1.33 accepts too.
    content_type: ClassVar[str] = "application/apply-patch+yaml"
    document: KubeObject | Mapping[str, Any]

    def encode(self) -> bytes:
        """The body of the request."""
        if isinstance(self.document, KubeObject):
            return wire.encode(self.document)
        return msgspec.json.encode(self.document)


Patch = JsonPatch | MergePatch | StrategicMergePatch | Apply
