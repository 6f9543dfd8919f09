"""Schemas of custom kinds for clients: completed by the fields that every object has.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/controller/openapi/builder/builder.go
"""

from __future__ import annotations

import copy

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.openapi.models import kind_model, meta_model, own_kind, reference
from kube_fairlead_apiserver.registry.resource import Resource

__all__ = ["custom_schema", "list_schema"]

_API_VERSION = {"type": "string", "description": "The group and version of this kind."}
_KIND = {"type": "string", "description": "What this object is."}
_METADATA_TEXT = "Name, labels and what else every object has."


def custom_schema(resource: Resource) -> Json:
    """Return the schema of a kind, completed."""
    schema: Json = copy.deepcopy(dict(resource.schema().source)) or {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    _complete(schema)
    schema["properties"] = {**schema.get("properties", {}), **_object_properties()}
    if resource.custom is not None and resource.custom.selectable_fields:
        paths = sorted(resource.custom.selectable_fields)
        schema["x-kubernetes-selectable-fields"] = [{"fieldPath": path} for path in paths]
    return schema


def list_schema(resource: Resource) -> Json:
    """Return the schema of a list of them."""
    items = {"type": "array", "items": reference(kind_model(own_kind(resource)))}
    return {
        "description": f"A list of {resource.kind} objects.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": _API_VERSION,
            "items": items,
            "kind": _KIND,
            "metadata": {"allOf": [reference(meta_model("ListMeta"))], "description": "Where the list is at."},
        },
    }


def _object_properties() -> Json:
    metadata = {"allOf": [reference(meta_model("ObjectMeta"))], "description": _METADATA_TEXT}
    return {"apiVersion": dict(_API_VERSION), "kind": dict(_KIND), "metadata": metadata}


def _complete(schema: Json) -> None:
    """Expand Kubernetes' extensions in place, for clients that do not know them."""
    if schema.get("x-kubernetes-int-or-string") and not {"anyOf", "allOf"} & schema.keys():
        schema["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if schema.get("x-kubernetes-embedded-resource"):
        schema["properties"] = {**schema.get("properties", {}), **_object_properties()}
        schema["required"] = sorted({*schema.get("required", ()), "apiVersion", "kind"})
    for inner in schema.get("properties", {}).values():
        _complete(inner)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            _complete(schema[key])
