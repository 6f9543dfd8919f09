"""What of an object can be selected by: its labels and the fields its kind offers."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.apiserver.registry.resource import Resource
from fairlead.apiserver.registry.strategy import Json

__all__ = ["index"]

_NO_LABELS: Mapping[str, str] = {}


def index(resource: Resource, obj: Json) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Labels and selectable fields, as the store keeps them beside the object."""
    metadata = obj["metadata"]
    fields = resource.strategy.fields(obj)
    fields["metadata.name"] = metadata["name"]
    if resource.namespaced:
        fields["metadata.namespace"] = metadata.get("namespace", "")
    return metadata.get("labels") or _NO_LABELS, fields
