"""Collects the schemas of a document: all that its operations refer to, directly and indirectly.

Upstream: k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/builder3/openapi.go
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kube_fairlead.api.gvk import GroupVersionKind
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.openapi.custom import custom_schema, list_schema
from kube_fairlead_apiserver.openapi.descriptions import describe_schema
from kube_fairlead_apiserver.openapi.models import (
    is_builtin,
    kind_model,
    list_model,
    meta_model,
    own_kind,
    subresource_kind,
)
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.types.schemas import REFERENCE, definition, model_name

__all__ = ["collect_schemas", "references"]

_PREFIX = model_name("")


def collect_schemas(paths: Json, resources: Iterable[Resource]) -> Json:
    """Return every schema that the paths of these resources need, by name."""
    served = list(resources)
    custom = _custom_schemas(served)
    kinds = _kinds(served)
    schemas: Json = {}
    waiting = sorted(set(references(paths)))
    while waiting:
        model = waiting.pop()
        if model in schemas:
            continue
        schema = custom.get(model) or describe_schema(model, definition(model.removeprefix(_PREFIX)))
        if model in kinds:
            schema["x-kubernetes-group-version-kind"] = [
                {"group": kind.group, "kind": kind.kind, "version": kind.version} for kind in kinds[model]
            ]
        schemas[model] = schema
        waiting += set(references(schema)) - schemas.keys()
    return dict(sorted(schemas.items()))


def references(value: Any) -> Iterator[str]:
    """Return the names of the schemas that a part of a document refers to."""
    if isinstance(value, Mapping):
        target = value.get("$ref")
        if isinstance(target, str):
            yield target.removeprefix(REFERENCE)
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def _custom_schemas(resources: Iterable[Resource]) -> Json:
    schemas: Json = {}
    for resource in resources:
        if not is_builtin(resource):
            schemas[kind_model(own_kind(resource))] = custom_schema(resource)
            schemas[list_model(resource)] = list_schema(resource)
    return schemas


def _kinds(resources: Iterable[Resource]) -> dict[str, list[GroupVersionKind]]:
    """Return the schemas that are kinds."""
    kinds: dict[str, list[GroupVersionKind]] = {meta_model("Status"): [GroupVersionKind("", "v1", "Status")]}
    for resource in resources:
        group_version = own_kind(resource).group_version
        named = [own_kind(resource), *(subresource_kind(resource, sub) for sub in resource.subresources.values())]
        named += [group_version.kind(kind) for kind in (resource.list_kind, "DeleteOptions", "WatchEvent") if kind]
        for kind in named:
            found = kinds.setdefault(kind_model(kind), [])
            if kind not in found:
                found.append(kind)
    return kinds
