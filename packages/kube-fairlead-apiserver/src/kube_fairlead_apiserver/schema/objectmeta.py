"""Decodes and validates metadata inside a custom resource as Go's ObjectMeta does.

This is for embedded resources, and for the metadata of custom resources, which their schema never describes. The
metadata rules of a write are in the registry.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/objectmeta/coerce.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/objectmeta/validation.go,
    k8s.io/apimachinery@v0.36.4/pkg/apis/meta/v1/validation/validation.go,
    k8s.io/apimachinery@v0.36.4/pkg/api/validation/objectmeta.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead.api import golang, names, time
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead_apiserver.schema.model import SchemaNode, compile_schema
from kube_fairlead_apiserver.schema.pruning import prune

__all__ = ["OBJECT_META", "decode_metadata", "validate_metadata"]

_MAX_ANNOTATION_BYTES = 256 * 1024
_TEXT = {"type": "string"}
_TEXT_MAP = {"type": "object", "additionalProperties": _TEXT}
_OWNER = {
    **dict.fromkeys(("apiVersion", "kind", "name", "uid"), _TEXT),
    **{name: {"type": "boolean"} for name in ("controller", "blockOwnerDeletion")},
}
_MANAGED = {
    **dict.fromkeys(("manager", "operation", "apiVersion", "fieldsType", "subresource"), _TEXT),
    "time": {"type": "string", "format": "date-time"},
    "fieldsV1": {"x-kubernetes-preserve-unknown-fields": True},
}

OBJECT_META: SchemaNode = compile_schema(
    {
        "type": "object",
        "properties": {
            **dict.fromkeys(("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"), _TEXT),
            **{name: {"type": "integer"} for name in ("generation", "deletionGracePeriodSeconds")},
            **{name: {"type": "string", "format": "date-time"} for name in ("creationTimestamp", "deletionTimestamp")},
            "labels": _TEXT_MAP,
            "annotations": _TEXT_MAP,
            "finalizers": {"type": "array", "items": _TEXT},
            "ownerReferences": {"type": "array", "items": {"type": "object", "properties": _OWNER}},
            "managedFields": {"type": "array", "items": {"type": "object", "properties": _MANAGED}},
        },
    }
)

_JSON_NAMES = {bool: "bool", dict: "object", float: "number", int: "number", list: "array", str: "string"}
_GO_TYPES = {
    "boolean": "bool",
    "integer": "int64",
    "string": "string",
    "labels": "map[string]string",
    "annotations": "map[string]string",
    "finalizers": "[]string",
    "ownerReferences": "[]v1.OwnerReference",
    "managedFields": "[]v1.ManagedFieldsEntry",
    "uid": "types.UID",
    "operation": "v1.ManagedFieldsOperationType",
}
_STRUCTS = {"ownerReferences": "OwnerReference", "managedFields": "ManagedFieldsEntry"}
_CLASSES: dict[str, type] = {"array": list, "boolean": bool, "integer": int, "object": dict, "string": str}


def decode_metadata(metadata: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the metadata that Go keeps, and the paths of unknown fields; a ValueError says why it cannot be decoded.

    As after a round trip through Go's ObjectMeta, empty fields are removed.
    """
    if metadata is None:
        return {}, []
    if metadata.__class__ is not dict:
        raise ValueError(f"json: cannot unmarshal {_JSON_NAMES[type(metadata)]} into Go value of type v1.ObjectMeta")
    for key, child in OBJECT_META.properties.items():
        if key in metadata:
            _check(child, metadata[key], "ObjectMeta", key)
    unknown = prune(OBJECT_META, metadata, root=False)
    # Fields that Go omits when empty; a grace period of 0 has a meaning.
    kept = {
        key: value for key, value in metadata.items() if value or (key == "deletionGracePeriodSeconds" and value == 0)
    }
    for name in ("labels", "annotations"):
        if None in kept.get(name, {}).values():
            kept[name] = {key: value or "" for key, value in kept[name].items()}
    for name in ("creationTimestamp", "deletionTimestamp"):
        if name in kept:
            kept[name] = time.canonical_time(kept[name])
    for entry in kept.get("managedFields", ()):
        if entry.get("time"):
            entry["time"] = time.canonical_time(entry["time"])
    for owner in kept.get("ownerReferences", ()):
        for key in ("apiVersion", "kind", "name", "uid"):
            owner.setdefault(key, "")
    return kept, unknown


def _check(node: SchemaNode, value: Any, struct: str, path: str) -> None:
    if value is None or not node.type:
        return
    actual: type = value.__class__
    if actual is not _CLASSES[node.type]:
        expected = _GO_TYPES.get(path.rpartition(".")[2]) or _GO_TYPES[node.type]
        shown = _JSON_NAMES[actual]
        if actual is float and node.type == "integer":
            shown += f" {golang.json_text(value)}"
        raise ValueError(f"json: cannot unmarshal {shown} into Go struct field {struct}.{path} of type {expected}")
    if node.format == "date-time":
        time.parse_time(value)
    for item in value.values() if node.additional is not None else ():
        _check_member(item, struct, path)
    for item in value if node.items is not None else ():
        if path in _STRUCTS and item.__class__ is dict and node.items is not None:
            for key, child in node.items.properties.items():
                _check(child, item.get(key), _STRUCTS[path], f"{path}.{key}")
        else:
            _check_member(item, struct, path)


def _check_member(value: Any, struct: str, path: str) -> None:
    """Check an item of a list or a value of a map: a string, or one of the two structs."""
    expected, name = (dict, f"v1.{_STRUCTS[path]}") if path in _STRUCTS else (str, "string")
    if value is not None and value.__class__ is not expected:
        raise ValueError(
            f"json: cannot unmarshal {_JSON_NAMES[value.__class__]} into Go struct field {struct}.{path} of type {name}"
        )


def validate_metadata(metadata: dict[str, Any], path: FieldPath) -> list[FieldError]:
    """Validate the metadata of an embedded resource; its name only has to be a valid path segment."""
    errors: list[FieldError] = []
    for field, prefix in (("generateName", True), ("name", False)):
        if text := metadata.get(field):
            errors += _invalid(path.child(field), text, names.name_is_path_segment(text, prefix=prefix))
    if namespace := metadata.get("namespace"):
        errors += _invalid(path.child("namespace"), namespace, names.name_is_dns_label(namespace))
    if (metadata.get("generation") or 0) < 0:
        problem = "must be greater than or equal to 0"
        errors.append(FieldError.invalid(path.child("generation"), metadata["generation"], problem))
    for key, value in metadata.get("labels", {}).items():
        errors += _invalid(path.child("labels"), key, names.qualified_name(key))
        errors += _invalid(path.child("labels"), value, names.label_value(value or ""))
    annotations = metadata.get("annotations", {})
    for key in annotations:
        errors += _invalid(path.child("annotations"), key, names.qualified_name(key.lower()))
    size = sum(len(key.encode()) + len((value or "").encode()) for key, value in annotations.items())
    if size > _MAX_ANNOTATION_BYTES:
        errors.append(FieldError.too_long(path.child("annotations"), "", _MAX_ANNOTATION_BYTES))
    errors += _validate_owners(metadata.get("ownerReferences", []), path.child("ownerReferences"))
    finalizers = metadata.get("finalizers", [])
    for finalizer in finalizers:
        errors += _invalid(path.child("finalizers"), finalizer, names.qualified_name(finalizer or ""))
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        problem = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(FieldError.invalid(path.child("finalizers"), finalizers, problem))
    for index, entry in enumerate(metadata.get("managedFields", [])):
        errors += _validate_managed(entry or {}, path.child("managedFields").index(index))
    return errors


def _invalid(path: FieldPath, value: Any, messages: list[str]) -> list[FieldError]:
    return [FieldError.invalid(path, value, message) for message in messages]


def _validate_owners(owners: list[Any], path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    controller = ""
    for owner in owners:
        if not (owner.get("apiVersion") or "").rpartition("/")[2]:
            errors.append(
                FieldError.invalid(path.child("apiVersion"), owner.get("apiVersion", ""), "version must not be empty")
            )
        errors += [
            FieldError.invalid(path.child(key), "", "must not be empty")
            for key in ("kind", "name", "uid")
            if not owner.get(key)
        ]
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            problem = "/v1, Kind=Event is disallowed from being an owner"
            errors.append(FieldError.invalid(path, owner, problem))
        if owner.get("controller"):
            name = f"{owner.get('kind')}/{owner.get('name')}"
            if controller:
                problem = (
                    'Only one reference can have Controller set to true. Found "true" in references '
                    f"for {controller} and {name}"
                )
                errors.append(FieldError.invalid(path, owners, problem))
            controller = controller or name
    return errors


def _validate_managed(entry: dict[str, Any], path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    if entry.get("operation") not in {"Apply", "Update"}:
        problem = "must be `Apply` or `Update`"
        errors.append(FieldError.invalid(path.child("operation"), entry.get("operation", ""), problem))
    if entry.get("fieldsType") not in {None, "", "FieldsV1"}:
        errors.append(FieldError.invalid(path.child("fieldsType"), entry["fieldsType"], "must be `FieldsV1`"))
    if len(entry.get("manager") or "") > 128:
        errors.append(FieldError.too_long(path.child("manager"), "", 128))
    if len(entry.get("subresource") or "") > 256:
        errors.append(FieldError.too_long(path.child("subresource"), "", 256))
    return errors
