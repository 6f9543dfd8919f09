"""How objects point at each other.

Upstream: k8s.io/api@v0.36.4/core/v1/types.go
"""

from __future__ import annotations

from kube_fairlead.api.parts import Part

__all__ = ["LocalObjectReference", "ObjectReference"]


class ObjectReference(Part):
    """Points at any object."""

    MERGE_KEY = ("uid", "namespace", "name", "kind")

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class LocalObjectReference(Part):
    """Points at an object in the same namespace."""

    MERGE_KEY = ("name",)

    name: str = ""
