"""Validation of a write: the metadata that all objects share, then the kind's own rules.

Upstream: k8s.io/apiserver@v0.36.4/pkg/registry/rest/create.go,
    k8s.io/apiserver@v0.36.4/pkg/registry/rest/update.go
"""

from __future__ import annotations

from kube_fairlead.api import errors
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.validation.metadata import (
    validate_finalizers,
    validate_object_meta,
    validate_object_meta_update,
    validate_qualified_finalizer,
)
from kube_fairlead_apiserver.registry.resource import Resource

__all__ = ["check_create", "check_update"]

# Subresources that change fields that an update may not, by their own rules.
_OWN_RULES = frozenset({"approval", "binding", "finalize", "ephemeralcontainers", "resize"})


def check_create(resource: Resource, obj: Json) -> None:
    """Reject an invalid new object with all of its errors."""
    problems = validate_object_meta(
        obj["metadata"], namespaced=resource.namespaced, name_rule=resource.strategy.name_rule
    )
    problems += _unqualified_finalizers(resource, obj["metadata"])
    problems += resource.strategy.validate(obj)
    if problems:
        raise errors.invalid(resource.group_kind, obj["metadata"].get("name") or "", problems)


def check_update(resource: Resource, obj: Json, old: Json, subresource: str) -> None:
    """Reject an invalid change, or a change of an immutable field."""
    metadata = obj["metadata"]
    problems = validate_object_meta_update(metadata, old["metadata"])
    if metadata.get("finalizers") != old["metadata"].get("finalizers"):
        problems += validate_finalizers(metadata.get("finalizers") or (), FieldPath("metadata", "finalizers"))
        problems += _unqualified_finalizers(resource, metadata)
    if subresource == "status":
        problems += resource.strategy.validate_status_update(obj, old)
    elif subresource in _OWN_RULES:
        problems += resource.strategy.validate_subresource_update(subresource, obj, old)
    else:
        problems += resource.strategy.validate_update(obj, old)
    if problems:
        raise errors.invalid(resource.group_kind, obj["metadata"]["name"], problems)


def _unqualified_finalizers(resource: Resource, metadata: Json) -> list[FieldError]:
    """Return errors for finalizers without a domain, which only custom objects and definitions may have."""
    finalizers = metadata.get("finalizers")
    if not finalizers or resource.is_custom or resource.group == "apiextensions.k8s.io":
        return []
    path = FieldPath("metadata").child("finalizers")
    return [
        problem
        for position, finalizer in enumerate(finalizers)
        for problem in validate_qualified_finalizer(finalizer, path.index(position))
    ]
