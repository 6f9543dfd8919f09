"""Builds the OpenAPI v3 schemas of built-in kinds, and compiles them for pruning, patches and server-side apply."""

from __future__ import annotations

import functools

import msgspec

from kube_fairlead.api.gvk import GroupVersionKind
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.schema.model import SchemaNode, compile_schema
from kube_fairlead_apiserver.types.builtin_data import builtin_data
from kube_fairlead_apiserver.types.fields import Field, TypeRef, describe, zero_value

__all__ = ["META", "REFERENCE", "definition", "model_name", "node", "type_name"]


META = "apimachinery.pkg.apis.meta.v1"
REFERENCE = "#/components/schemas/"
_PREFIX = "io.k8s."
# These kinds of meta/v1 exist in every group and version: clients send options in the group of the request.
_EVERYWHERE = frozenset({"DeleteOptions", "WatchEvent"})
_META_GROUP = "meta.k8s.io"

_SCALARS: dict[str, Json] = {
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "float64": {"type": "number", "format": "double"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "string": {"type": "string"},
}
_compiled: dict[str, SchemaNode] = {}


@functools.cache
def _packages() -> dict[tuple[str, str], str]:
    return {(data.group, data.version): name for name, data in builtin_data().packages.items() if data.version}


def type_name(gvk: GroupVersionKind) -> str | None:
    """Return the type of a kind, such as ``api.core.v1.Pod``; None when the kind is not built in."""
    if gvk.kind in _EVERYWHERE or gvk.group == _META_GROUP or (gvk.api_version, gvk.kind) == ("v1", "Status"):
        package = META
    else:
        package = _packages().get((gvk.group, gvk.version), "")
    data = builtin_data().packages.get(package)
    return f"{package}.{gvk.kind}" if data is not None and gvk.kind in data.types else None


def model_name(name: str) -> str:
    """Return the name of a type in OpenAPI documents: ``io.k8s.api.core.v1.Pod``."""
    return _PREFIX + name


def node(gvk: GroupVersionKind) -> SchemaNode | None:
    """Return the compiled schema of a built-in kind. Kinds share the nodes of common types."""
    name = type_name(gvk)
    return None if name is None else compile_schema({"$ref": _reference(name)}, _resolve, _compiled)


def definition(name: str) -> Json:
    """Return the OpenAPI v3 schema of one type, with references; the caller may change it."""
    info = describe(name)
    if info.fields is None:
        return dict(info.schema)
    schema: Json = {"type": "object"}
    properties, required = _properties(info.fields)
    if required:
        schema["required"] = required
    if properties:
        schema["properties"] = dict(sorted(properties.items()))
    return schema | dict(info.extra)


def _resolve(reference: str) -> Json:
    name = reference.removeprefix(REFERENCE + _PREFIX)
    schema = definition(name)
    if describe(name).fields is None and schema.get("type", "object") == "object" and "oneOf" not in schema:
        # Raw JSON (FieldsV1, RawExtension): an object without fields in OpenAPI, but no field of it is unknown.
        schema["x-kubernetes-preserve-unknown-fields"] = True
    if name.endswith("resource.Quantity"):
        schema["x-fairlead-quantity"] = True
    if name.endswith("meta.v1.MicroTime"):
        schema["x-fairlead-micro-time"] = True
    omitted = _omitted(name)
    if omitted:
        schema["x-fairlead-omitted"] = omitted
    return schema


def _omitted(name: str) -> list[str]:
    """Return the fields that Go omits from JSON when they are zero or empty.

    A pointer and a struct are never omitted.
    """
    names: list[str] = []
    for field in describe(name).fields or ():
        if field.embedded:
            names += _omitted(field.type.name)
        elif field.omit_empty and not field.type.pointer and field.type.form != "message":
            names.append(field.name)
    return names


def _reference(name: str) -> str:
    return REFERENCE + model_name(name)


def _properties(fields: tuple[Field, ...]) -> tuple[Json, list[str]]:
    properties: Json = {}
    required: list[str] = []
    for field in fields:
        if field.embedded:
            inner, inner_required = _properties(describe(field.type.name).fields or ())
            properties |= inner
            required += inner_required
            continue
        properties[field.name] = _property(field)
        if field.required:
            required.append(field.name)
    return properties, required


def _property(field: Field) -> Json:
    schema = _schema(field.type)
    if field.item_enum:
        schema["items" if field.type.form == "list" else "additionalProperties"]["enum"] = list(field.item_enum)
    siblings = {
        "default": field.default,
        "enum": list(field.enum),
        "x-kubernetes-list-map-keys": list(field.list_map_keys),
        "x-kubernetes-list-type": field.list_type,
        "x-kubernetes-map-type": field.map_type,
        "x-kubernetes-patch-merge-key": field.patch_merge_key,
        "x-kubernetes-patch-strategy": field.patch_strategy,
    }
    stated = {key: value for key, value in siblings.items() if value not in ([], "", msgspec.UNSET)}
    if field.default == "":
        stated["default"] = ""
    return _with_siblings(schema, stated)


def _with_siblings(schema: Json, siblings: Json) -> Json:
    """Wrap a $ref that has siblings, because OpenAPI v3 allows nothing beside a $ref."""
    if siblings and "$ref" in schema:
        return {"allOf": [schema], **siblings}
    return schema | siblings


def _schema(reference: TypeRef) -> Json:
    if reference.form == "scalar":
        return dict(_SCALARS[reference.name])
    if reference.item is None:
        return {"$ref": _reference(reference.name)}
    if reference.form == "map":
        return {"type": "object", "additionalProperties": _item_schema(reference.item)}
    return {"type": "array", "items": _item_schema(reference.item)}


def _item_schema(item: TypeRef) -> Json:
    """Return the schema of items as Kubernetes' generator writes it: a scalar has its zero value as default."""
    is_leaf = item.form == "message" and describe(item.name).fields is None
    if item.pointer or is_leaf or item.name == "bytes" or item.form not in {"scalar", "message"}:
        return _schema(item)
    return _with_siblings(_schema(item), {"default": zero_value(item)})
