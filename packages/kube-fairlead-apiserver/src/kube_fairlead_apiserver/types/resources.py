"""The table of built-in resources, with what discovery returns about each of them.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/discovery/storageversionhash.go
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Mapping

import msgspec

from kube_fairlead.api.gvk import GroupVersionKind, GroupVersionResource
from kube_fairlead_apiserver.types.builtin_data import ResourceData, builtin_data

__all__ = ["BuiltinResource", "BuiltinSubresource", "builtin_resources", "source_version", "storage_version_hash"]


class BuiltinSubresource(msgspec.Struct, frozen=True):
    """A subresource; its kind may belong to another group (Scale, Eviction, TokenRequest)."""

    name: str
    kind: str
    group: str
    version: str
    verbs: tuple[str, ...]

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind of its objects."""
        return GroupVersionKind(self.group, self.version, self.kind)


class BuiltinResource(msgspec.Struct, frozen=True):
    """One built-in resource, with Kubernetes' names and in Kubernetes' order."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    list_kind: str  # empty for a resource that cannot be listed
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    subresources: Mapping[str, BuiltinSubresource]

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind of its objects."""
        return GroupVersionKind(self.group, self.version, self.kind)

    @property
    def gvr(self) -> GroupVersionResource:
        """The resource in URLs."""
        return GroupVersionResource(self.group, self.version, self.plural)

    @property
    def storage_version_hash(self) -> str:
        """The storage version hash in discovery; empty for kinds that are never stored."""
        return storage_version_hash(self.gvk) if self.list_kind else ""


def storage_version_hash(gvk: GroupVersionKind) -> str:
    """Return Kubernetes' hash of a storage version: the first eight bytes of a digest, in base64."""
    digest = hashlib.sha256(f"{gvk.group}/{gvk.version}/{gvk.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


@functools.cache
def builtin_resources() -> tuple[BuiltinResource, ...]:
    """Return every built-in resource."""
    return tuple(_resource(data) for data in builtin_data().resources)


def source_version() -> str:
    """Return the Kubernetes version of the table and the types."""
    return builtin_data().kubernetes


def _resource(data: ResourceData) -> BuiltinResource:
    subresources = {
        sub.name: BuiltinSubresource(sub.name, sub.kind, sub.group, sub.version, sub.verbs) for sub in data.subresources
    }
    return BuiltinResource(
        group=data.group,
        version=data.version,
        plural=data.plural,
        singular=data.singular,
        kind=data.kind,
        list_kind=f"{data.kind}List" if "list" in data.verbs else "",
        namespaced=data.namespaced,
        verbs=data.verbs,
        short_names=data.short_names,
        categories=data.categories,
        subresources=subresources,
    )
