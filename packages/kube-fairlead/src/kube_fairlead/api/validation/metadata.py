"""The rules for an object's metadata, on plain JSON.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/api/validation/objectmeta.go,
    k8s.io/apimachinery@v0.36.4/pkg/apis/meta/v1/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kube_fairlead.api import golang, names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.gvk import GroupVersionKind

__all__ = [
    "STANDARD_FINALIZERS",
    "NameRule",
    "validate_annotations",
    "validate_finalizers",
    "validate_immutable",
    "validate_labels",
    "validate_managed_fields",
    "validate_object_meta",
    "validate_object_meta_update",
    "validate_owner_references",
    "validate_qualified_finalizer",
]

# The finalizers of old that need no domain.
STANDARD_FINALIZERS = frozenset({"foregroundDeletion", "kubernetes", "orphan"})

_ANNOTATIONS_MAX_BYTES = 256 * 1024
_MANAGER_MAX_BYTES = 128
_SUBRESOURCE_MAX_BYTES = 256
_METADATA = FieldPath("metadata")


class NameRule(Protocol):
    """A rule for an object's name, or with `prefix` for its generateName; `kube_fairlead.api.names` has them."""

    def __call__(self, name: str, *, prefix: bool = False) -> list[str]:
        """The messages, none when the name is fine."""


def validate_object_meta(
    metadata: Mapping[str, Any], *, namespaced: bool, name_rule: NameRule, path: FieldPath = _METADATA
) -> list[FieldError]:
    """What is wrong with the metadata of an object that is about to be stored."""
    errors: list[FieldError] = []
    # Paths are made for what is wrong only: this runs for every object that is written.
    if (generate_name := metadata.get("generateName")) and (messages := name_rule(generate_name, prefix=True)):
        errors += _invalid(path.child("generateName"), generate_name, messages)
    if name := metadata.get("name"):
        if messages := name_rule(name):
            errors += _invalid(path.child("name"), name, messages)
    else:
        errors.append(FieldError.required(path.child("name"), "name or generateName is required"))
    namespace = metadata.get("namespace") or ""
    if not namespaced:
        if namespace:
            errors.append(FieldError.forbidden(path.child("namespace"), "not allowed on this type"))
    elif namespace:
        if messages := names.dns1123_label(namespace):
            errors += _invalid(path.child("namespace"), namespace, messages)
    else:
        errors.append(FieldError.required(path.child("namespace")))
    if (generation := metadata.get("generation") or 0) < 0:
        detail = "must be greater than or equal to 0"
        errors.append(FieldError.invalid(path.child("generation"), generation, detail))
    errors += _validate_entries(metadata, path)
    if finalizers := metadata.get("finalizers"):
        errors += validate_finalizers(finalizers, path.child("finalizers"))
    return errors


def validate_object_meta_update(
    new: Mapping[str, Any], old: Mapping[str, Any], *, path: FieldPath = _METADATA
) -> list[FieldError]:
    """What is wrong with new metadata in place of old."""
    errors: list[FieldError] = []
    if old.get("deletionTimestamp"):
        added = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if added:
            shown = "[]string{" + ", ".join(map(golang.quote, added)) + "}"
            detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {shown}"
            errors.append(FieldError.forbidden(path.child("finalizers"), detail))
    if not new.get("resourceVersion"):
        detail = "must be specified for an update"
        errors.append(FieldError.invalid(path.child("resourceVersion"), "", detail))
    if (generation := new.get("generation") or 0) < (old.get("generation") or 0):
        errors.append(FieldError.invalid(path.child("generation"), generation, "must not be decremented"))
    for field in ("name", "namespace", "uid"):
        if (now := new.get(field) or "") != (before := old.get(field) or ""):
            errors += validate_immutable(now, before, path.child(field))
    for field in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if new.get(field) != old.get(field):
            errors += validate_immutable(new.get(field), old.get(field), path.child(field))
    return errors + _validate_entries(new, path)


def _validate_entries(metadata: Mapping[str, Any], path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    if labels := metadata.get("labels"):
        errors += validate_labels(labels, path.child("labels"))
    if annotations := metadata.get("annotations"):
        errors += validate_annotations(annotations, path.child("annotations"))
    if references := metadata.get("ownerReferences"):
        errors += validate_owner_references(references, path.child("ownerReferences"))
    if entries := metadata.get("managedFields"):
        errors += validate_managed_fields(entries, path.child("managedFields"))
    return errors


def _invalid(path: FieldPath, value: Any, messages: Sequence[str]) -> list[FieldError]:
    return [FieldError.invalid(path, value, message) for message in messages]


def validate_immutable(new: Any, old: Any, path: FieldPath) -> list[FieldError]:
    """A field that may not change."""
    return [] if new == old else [FieldError.invalid(path, new, "field is immutable")]


def validate_labels(labels: Mapping[str, str], path: FieldPath) -> list[FieldError]:
    """Label keys and values."""
    errors: list[FieldError] = []
    for key, value in labels.items():
        if messages := names.qualified_name(key):
            errors += _invalid(path, key, messages)
        if messages := names.label_value(value):
            errors += _invalid(path, value, messages)
    return errors


def validate_annotations(annotations: Mapping[str, str], path: FieldPath) -> list[FieldError]:
    """Annotation keys, whose case does not matter, and the size of all of them."""
    errors: list[FieldError] = []
    size = 0
    for key, value in annotations.items():
        if messages := names.qualified_name(key.lower()):
            errors += _invalid(path, key, messages)
        size += len(key.encode()) + len(value.encode())
    if size > _ANNOTATIONS_MAX_BYTES:
        errors.append(FieldError.too_long(path, "", _ANNOTATIONS_MAX_BYTES))
    return errors


def validate_owner_references(references: Sequence[Mapping[str, Any]], path: FieldPath) -> list[FieldError]:
    """Owner references: complete, not an Event, and at most one controller."""
    errors: list[FieldError] = []
    controller = ""
    for reference in references:
        kind, name = reference.get("kind") or "", reference.get("name") or ""
        api_version = reference.get("apiVersion") or ""
        gvk = GroupVersionKind.of(api_version, kind)
        if not gvk.version:
            errors.append(FieldError.invalid(path.child("apiVersion"), api_version, "version must not be empty"))
        errors += [
            FieldError.invalid(path.child(field), "", "must not be empty")
            for field in ("kind", "name", "uid")
            if not reference.get(field)
        ]
        if gvk == GroupVersionKind("", "v1", "Event"):
            errors.append(FieldError.invalid(path, dict(reference), f"{gvk} is disallowed from being an owner"))
        if not reference.get("controller"):
            continue
        if controller:
            detail = (
                "Only one reference can have Controller set to true. "
                f'Found "true" in references for {controller} and {kind}/{name}'
            )
            errors.append(FieldError.invalid(path, list(references), detail))
        else:
            controller = f"{kind}/{name}"
    return errors


def validate_finalizers(finalizers: Sequence[str], path: FieldPath) -> list[FieldError]:
    """Finalizer names; orphaning and deleting dependents exclude each other."""
    errors: list[FieldError] = []
    for finalizer in finalizers:
        errors += _invalid(path, finalizer, names.qualified_name(finalizer))
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(FieldError.invalid(path, list(finalizers), detail))
    return errors


def validate_qualified_finalizer(finalizer: str, path: FieldPath) -> list[FieldError]:
    """A finalizer of a built-in object: one of those of old, or one with a domain."""
    if "/" in finalizer or finalizer in STANDARD_FINALIZERS:
        return []
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [FieldError.invalid(path, finalizer, detail)]


def validate_managed_fields(entries: Sequence[Mapping[str, Any]], path: FieldPath) -> list[FieldError]:
    """The bookkeeping of server-side apply."""
    errors: list[FieldError] = []
    for i, entry in enumerate(entries):
        spot = path.index(i)
        if (operation := entry.get("operation") or "") not in {"Apply", "Update"}:
            errors.append(FieldError.invalid(spot.child("operation"), operation, "must be `Apply` or `Update`"))
        if (fields_type := entry.get("fieldsType") or "") not in {"", "FieldsV1"}:
            errors.append(FieldError.invalid(spot.child("fieldsType"), fields_type, "must be `FieldsV1`"))
        manager = entry.get("manager") or ""
        if len(manager.encode()) > _MANAGER_MAX_BYTES:
            errors.append(FieldError.too_long(spot.child("manager"), "", _MANAGER_MAX_BYTES))
        if not manager.isprintable():
            errors += _invalid(spot.child("manager"), manager, _unprintable(manager))
        if len((entry.get("subresource") or "").encode()) > _SUBRESOURCE_MAX_BYTES:
            errors.append(FieldError.too_long(spot.child("subresource"), "", _SUBRESOURCE_MAX_BYTES))
    return errors


def _unprintable(text: str) -> list[str]:
    messages: list[str] = []
    position = 0
    for char in text:
        if not char.isprintable():
            messages.append(f"invalid character U+{ord(char):04X} (at position {position})")
        position += len(char.encode())
    return messages
