"""The operations of one resource, path by path.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/installer.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/openapi/openapi.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/controller/openapi/builder/builder.go
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from kube_fairlead.api.gvk import GroupVersionKind
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.openapi import parameters
from kube_fairlead_apiserver.openapi.models import (
    kind_model,
    list_model,
    meta_model,
    own_kind,
    reference,
    subresource_kind,
)
from kube_fairlead_apiserver.registry.resource import Resource, Subresource

__all__ = ["resource_paths", "root"]

_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_APPLY: Final = "application/apply-patch+yaml"
_PATCHES: Final = ("application/json-patch+json", "application/merge-patch+json")
_STRATEGIC: Final = "application/strategic-merge-patch+json"


def root(group: str, version: str) -> str:
    """Return the root path of a group and version."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def resource_paths(resource: Resource) -> Json:
    """Return every path of a resource and its subresources."""
    base = root(resource.group, resource.version)
    scope = f"{base}/namespaces/{{namespace}}" if resource.namespaced else base
    collection, single = f"{scope}/{resource.plural}", f"{scope}/{resource.plural}/{{name}}"
    spread = (parameters.NAMESPACE,) if resource.namespaced else ()
    build = _Operations(resource)
    paths: Json = {}
    _put(paths, collection, spread, build.collection())
    _put(paths, single, (parameters.NAME, *spread), build.single())
    for name, sub in sorted(resource.subresources.items()):
        _put(paths, f"{single}/{name}", (parameters.NAME, *spread), build.subresource(sub))
    if resource.namespaced and "list" in resource.verbs:
        listing = build.listing(f"{resource.kind}ForAllNamespaces")
        _put(paths, f"{base}/{resource.plural}", (), {"get": listing})
    return paths


def _put(paths: Json, path: str, shared: Iterable[Json], operations: Json) -> None:
    if operations:
        paths[path] = {**operations, "parameters": list(shared)} if shared else operations


class _Operations:
    """Builds the operations of one resource."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._object = reference(kind_model(own_kind(resource)))
        self._scope = "Namespaced" if resource.namespaced else ""
        words = re.split(r"[.-]", resource.group.removesuffix(".k8s.io")) if resource.group else ["core"]
        group = "".join(word[:1].upper() + word[1:] for word in words)
        self._tag = f"{group[:1].lower()}{group[1:]}_{resource.version}"
        self._group = group + resource.version[:1].upper() + resource.version[1:]

    def collection(self) -> Json:
        """Return the operations on a collection, and create."""
        verbs, kind = self._resource.verbs, f"{self._scope}{self._resource.kind}"
        operations: Json = {}
        if "list" in verbs:
            operations["get"] = self.listing(kind)
        if "create" in verbs:
            operations["post"] = self._write("post", f"create{self._group}{kind}", own_kind(self._resource))
        if "deletecollection" in verbs:
            answers = {"200": {"anyOf": [reference(list_model(self._resource)), reference(meta_model("Status"))]}}
            operation = f"delete{self._group}Collection{kind}"
            operations["delete"] = self._operation(
                "deletecollection", operation, answers, parameters.DELETE_COLLECTION, body=self._options()
            )
        return operations

    def single(self) -> Json:
        """Return the operations on one object."""
        kind = own_kind(self._resource)
        operations = self._object_operations(kind, f"{self._scope}{self._resource.kind}", self._resource.verbs)
        if "delete" in self._resource.verbs:
            answer = {"anyOf": [self._object, reference(meta_model("Status"))]}
            operation = f"delete{self._group}{self._scope}{self._resource.kind}"
            operations["delete"] = self._operation(
                "delete", operation, {"200": answer, "202": answer}, parameters.DELETE, body=self._options()
            )
        return operations

    def subresource(self, sub: Subresource) -> Json:
        """Return the operations on a subresource."""
        kind = subresource_kind(self._resource, sub)
        name = f"{self._scope}{self._resource.kind}{sub.name[:1].upper()}{sub.name[1:]}"
        operations = self._object_operations(kind, name, sub.verbs)
        if "create" in sub.verbs:
            operations["post"] = self._write("post", f"create{self._group}{name}", kind)
        return operations

    def listing(self, name: str) -> Json:
        """Return a list or a watch operation."""
        schema = reference(list_model(self._resource))
        operation = self._operation("list", f"list{self._group}{name}", {"200": schema}, parameters.LIST)
        stream = {"schema": reference(meta_model("WatchEvent"))}
        operation["responses"]["200"]["content"][f"{_JSON};stream=watch"] = stream
        return operation

    def _object_operations(self, kind: GroupVersionKind, name: str, verbs: Sequence[str]) -> Json:
        schema = reference(kind_model(kind))
        operations: Json = {}
        if "get" in verbs:
            operations["get"] = self._operation("get", f"read{self._group}{name}", {"200": schema}, (), kind=kind)
        if "update" in verbs:
            operations["put"] = self._write("put", f"replace{self._group}{name}", kind)
        if "patch" in verbs:
            media = (_APPLY, *_PATCHES) if self._resource.is_custom else (_APPLY, *_PATCHES, _STRATEGIC)
            body = _body(reference(meta_model("Patch")), media)
            answers = {"200": schema, "201": schema}
            operations["patch"] = self._operation(
                "patch", f"patch{self._group}{name}", answers, parameters.PATCH, body=body, kind=kind
            )
        return operations

    def _write(self, action: str, operation: str, kind: GroupVersionKind) -> Json:
        schema = reference(kind_model(kind))
        codes = ("200", "201", "202") if action == "post" else ("200", "201")
        body = _body(schema, (_JSON, _YAML) if self._resource.is_custom else (_JSON, _YAML, _PROTOBUF))
        answers = dict.fromkeys(codes, schema)
        return self._operation(action, operation, answers, parameters.CREATE, body=body, kind=kind)

    @staticmethod
    def _options() -> Json:
        return _body(reference(meta_model("DeleteOptions")), (_JSON, _YAML, _PROTOBUF), required=False)

    def _operation(
        self,
        action: str,
        operation: str,
        answers: Json,
        query: Sequence[Json],
        *,
        body: Json | None = None,
        kind: GroupVersionKind | None = None,
    ) -> Json:
        kind = kind or own_kind(self._resource)
        responses = {code: _answer(schema) for code, schema in answers.items()}
        responses["default"] = _answer(reference(meta_model("Status")), "What went wrong.")
        found: Json = {"tags": [self._tag], "operationId": operation, "parameters": list(query), "responses": responses}
        if body is not None:
            found["requestBody"] = body
        found["x-kubernetes-action"] = action
        found["x-kubernetes-group-version-kind"] = {"group": kind.group, "kind": kind.kind, "version": kind.version}
        return found


def _answer(schema: Json, description: str = "OK") -> Json:
    return {"description": description, "content": {media: {"schema": schema} for media in (_JSON, _YAML)}}


def _body(schema: Json, media: Iterable[str], *, required: bool = True) -> Json:
    body: Json = {"content": {name: {"schema": schema} for name in media}}
    return {**body, "required": True} if required else body
