"""The names of schemas in OpenAPI documents, and which resource uses which of them.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/openapi/openapi.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/controller/openapi/builder/builder.go
"""

from __future__ import annotations

from kube_fairlead.api.gvk import GroupVersionKind
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.registry.resource import Resource, Subresource
from kube_fairlead_apiserver.types.schemas import META, REFERENCE, model_name, type_name

__all__ = ["is_builtin", "kind_model", "list_model", "meta_model", "own_kind", "reference", "subresource_kind"]


def reference(model: str) -> Json:
    """Return a reference to a schema of the same document."""
    return {"$ref": REFERENCE + model}


def meta_model(kind: str) -> str:
    """Return the model of a kind of meta/v1."""
    return model_name(f"{META}.{kind}")


def own_kind(resource: Resource) -> GroupVersionKind:
    """Return the kind of a resource's objects."""
    return GroupVersionKind(resource.group, resource.version, resource.kind)


def is_builtin(resource: Resource) -> bool:
    """Return whether the kind is one of Kubernetes' own, whose types are data here."""
    return type_name(own_kind(resource)) is not None


def subresource_kind(resource: Resource, sub: Subresource) -> GroupVersionKind:
    """Return the kind of a subresource; by default of the resource's group and version."""
    if sub.version:
        return GroupVersionKind(sub.group, sub.version, sub.kind)
    return GroupVersionKind(resource.group, resource.version, sub.kind)


def kind_model(gvk: GroupVersionKind) -> str:
    """Return the model of a kind.

    A built-in type's name, or the group backwards for a custom one (com.example.v1.Widget).
    """
    known = type_name(gvk)
    if known is not None:
        return model_name(known)
    return ".".join([*reversed(gvk.group.split(".")), gvk.version, gvk.kind])


def list_model(resource: Resource) -> str:
    """Return the model of a resource's list."""
    return kind_model(GroupVersionKind(resource.group, resource.version, resource.list_kind))
