"""Conversion of objects for webhooks and policies that match another version.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/conversion.go
"""

from __future__ import annotations

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.schema.defaulting import copy_json

__all__ = ["convert"]


def convert(obj: Json, source: Resource, target: Resource) -> Json:
    """Return the object as ``target`` serves it. A copy, unless there is nothing to convert."""
    if source is target:
        return obj
    # A custom resource is the same in every version; webhooks also see the fields of other versions.
    converted: Json = copy_json(obj if source.is_custom else source.stored(obj))
    if target.conversion is not None:
        target.conversion.to_served(converted)
    converted["apiVersion"], converted["kind"] = target.api_version, target.kind
    return converted
