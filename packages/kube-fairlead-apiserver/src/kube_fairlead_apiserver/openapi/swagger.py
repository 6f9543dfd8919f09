"""OpenAPI v2 (Swagger 2.0), converted from the v3 documents: for older clients and libraries.

v2 is less expressive. What it cannot express (nullable, alternatives) is left out, so it allows more than v3, never
less.

Upstream: k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/builder/openapi.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/controller/openapi/v2/conversion.go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.types.schemas import REFERENCE, model_name

__all__ = ["DEFINITIONS", "to_swagger"]

DEFINITIONS: Final = "#/definitions/"
_DROPPED: Final = frozenset({"anyOf", "nullable", "not", "oneOf"})
# Types that v3 describes by alternatives have a simple form in v2.
_PLAIN: Final[dict[str, Json]] = {
    model_name("apimachinery.pkg.api.resource.Quantity"): {"type": "string"},
    model_name("apimachinery.pkg.util.intstr.IntOrString"): {"type": "string", "format": "int-or-string"},
}


def to_swagger(documents: Iterable[Json]) -> Json:
    """Return one v2 document of many v3 documents."""
    paths: Json = {}
    definitions: Json = {}
    info: Json = {}
    for document in documents:
        info = document["info"]
        for path, item in document["paths"].items():
            paths[path] = _path(item)
        for name, schema in document["components"]["schemas"].items():
            found = definitions.setdefault(name, _PLAIN.get(name) or _schema(schema))
            _merge_kinds(found, schema)
    return {
        "swagger": "2.0",
        "info": info,
        "paths": dict(sorted(paths.items())),
        "definitions": dict(sorted(definitions.items())),
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        "security": [{"BearerToken": []}],
    }


def _merge_kinds(definition: Json, schema: Json) -> None:
    """A kind that is known in many groups (DeleteOptions) is listed once per group in each of their documents."""
    kinds = schema.get("x-kubernetes-group-version-kind")
    if kinds:
        known = definition.setdefault("x-kubernetes-group-version-kind", [])
        definition["x-kubernetes-group-version-kind"] = known + [kind for kind in kinds if kind not in known]


def _schema(source: Mapping[str, Any]) -> Json:
    schema: Json = {}
    for key, value in source.items():
        if key == "$ref":
            schema["$ref"] = DEFINITIONS + value.removeprefix(REFERENCE)
        elif key == "allOf" and len(value) == 1 and "$ref" in value[0]:
            schema["$ref"] = DEFINITIONS + value[0]["$ref"].removeprefix(REFERENCE)
        elif key == "properties":
            schema["properties"] = {name: _schema(inner) for name, inner in value.items()}
        elif key in {"items", "additionalProperties"} and isinstance(value, Mapping):
            schema[key] = _schema(value)
        elif key not in _DROPPED and key != "allOf":
            schema[key] = value
    return schema


def _path(item: Mapping[str, Any]) -> Json:
    converted: Json = {method: _operation(found) for method, found in item.items() if method != "parameters"}
    if "parameters" in item:
        converted["parameters"] = [_parameter(found) for found in item["parameters"]]
    return converted


def _operation(source: Mapping[str, Any]) -> Json:
    operation = {key: value for key, value in source.items() if key not in {"requestBody", "responses"}}
    operation["parameters"] = [_parameter(found) for found in source["parameters"]]
    operation["responses"] = {}
    produces: dict[str, None] = {}
    for code, answer in source["responses"].items():
        content = answer["content"]
        produces |= dict.fromkeys(content)
        schema = _schema(content["application/json"]["schema"])
        operation["responses"][code] = {"description": answer["description"], "schema": schema}
    operation["produces"] = list(produces)
    body = source.get("requestBody")
    if body is not None:
        operation["consumes"] = list(body["content"])
        schema = _schema(next(iter(body["content"].values()))["schema"])
        required = {"required": True} if body.get("required") else {}
        operation["parameters"].append({"name": "body", "in": "body", "schema": schema, **required})
    return operation


def _parameter(source: Mapping[str, Any]) -> Json:
    return {**{key: value for key, value in source.items() if key != "schema"}, **source["schema"]}
