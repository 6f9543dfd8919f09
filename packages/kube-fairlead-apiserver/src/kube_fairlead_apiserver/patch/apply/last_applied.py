"""Takes over fields from client-side apply: reads kubectl's annotation with its last applied configuration.

This is done only for the manager `kubectl`, the name that kubectl's server-side apply uses. A client that does not want
it uses another name.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/internal/lastappliedmanager.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/internal/lastappliedupdater.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/internal/lastapplied.go
"""

from __future__ import annotations

import msgspec

from kube_fairlead.api import golang
from kube_fairlead.api.errors import BadRequest
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.patch.apply import fieldset, validation
from kube_fairlead_apiserver.patch.apply.comparison import compare
from kube_fairlead_apiserver.patch.apply.extraction import applied_fields
from kube_fairlead_apiserver.patch.apply.fieldset import FieldSet
from kube_fairlead_apiserver.patch.depth_limit import ensure_depth
from kube_fairlead_apiserver.schema.model import SchemaNode

__all__ = ["ANNOTATION", "MANAGER", "fields_in_force", "refreshed"]


ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER = "kubectl"
_MAX_ANNOTATIONS_BYTES = 256 * 1024


def fields_in_force(node: SchemaNode, live: Json, api_version: str) -> FieldSet:
    """Return the fields of the annotation that the live object still has with the applied values.

    Kubectl may take them over.
    """
    text = _annotations(live).get(ANNOTATION)
    if not isinstance(text, str) or not text:
        return {}
    try:
        applied = msgspec.json.decode(text)
        ensure_depth(applied)
    except (msgspec.DecodeError, BadRequest, RecursionError):
        return {}
    if not isinstance(applied, dict) or applied.get("apiVersion") != api_version:
        return {}
    if validation.problems(node, applied):
        return {}
    fields = applied_fields(node, applied)
    for changed in compare(node, applied, live):
        fields = fieldset.difference(fields, changed)
    return fields


def refreshed(value: Json, applied: Json) -> Json:
    """Return the object with its annotation updated, if it has one, so that client-side apply continues to work."""
    annotations = _annotations(value)
    if not annotations.get(ANNOTATION):
        return value
    updated = dict(annotations)
    updated[ANNOTATION] = golang.json_text(_without_annotation(applied)) + "\n"
    if sum(len(key.encode()) + len(str(item).encode()) for key, item in updated.items()) > _MAX_ANNOTATIONS_BYTES:
        del updated[ANNOTATION]
    if updated == annotations:
        return value
    return {**value, "metadata": {**value["metadata"], "annotations": updated}}


def _annotations(value: Json) -> Json:
    found = (value.get("metadata") or {}).get("annotations")
    return found if isinstance(found, dict) else {}


def _without_annotation(applied: Json) -> Json:
    annotations = _annotations(applied)
    if ANNOTATION not in annotations:
        return applied
    rest = {key: item for key, item in annotations.items() if key != ANNOTATION}
    return {**applied, "metadata": {**applied["metadata"], "annotations": rest}}
