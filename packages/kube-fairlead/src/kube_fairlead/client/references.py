"""Pointing at objects.

Upstream: k8s.io/client-go@v0.36.4/tools/reference/ref.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kube_fairlead.api.core_v1 import ObjectReference
from kube_fairlead.api.meta import KubeObject

__all__ = ["reference_to"]


def reference_to(item: KubeObject | ObjectReference | Mapping[str, Any]) -> ObjectReference:
    """A reference to an object, typed or not, by its uid; its resource version is left out, for it changes."""
    if isinstance(item, ObjectReference):
        return item
    if isinstance(item, KubeObject):
        return ObjectReference(
            api_version=item.api_version,
            kind=item.kind,
            namespace=item.metadata.namespace,
            name=item.metadata.name,
            uid=item.metadata.uid,
        )
    metadata = item.get("metadata") or {}
    return ObjectReference(
        api_version=item.get("apiVersion", ""),
        kind=item.get("kind", ""),
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
    )
