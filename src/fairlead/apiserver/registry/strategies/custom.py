"""Custom resources: the rules that a CustomResourceDefinition writes down."""

from __future__ import annotations

from typing import Any

from fairlead.api import golang, names
from fairlead.api.fielderrors import FieldError
from fairlead.apiserver.crd.definition import CustomResourceKind
from fairlead.apiserver.registry.resource import Resource, ScalePaths, Subresource
from fairlead.apiserver.registry.strategy import Json, Strategy
from fairlead.apiserver.schema.defaulting import apply_defaults

__all__ = ["CustomStrategy", "custom_resource"]

_STANDARD_FINALIZERS = frozenset({"foregroundDeletion", "kubernetes", "orphan"})


class CustomStrategy(Strategy):
    """One version of a custom kind."""

    tracks_generation: bool = True
    allow_unconditional_update: bool = False

    def __init__(self, kind: CustomResourceKind) -> None:
        self._kind = kind
        self.has_status = kind.has_status
        self.selectable = frozenset(kind.selectable_fields)

    def default(self, obj: Json) -> None:
        """What the schema says."""
        apply_defaults(self._kind.node, obj)

    def prepare_status_update(self, obj: Json, old: Json) -> None:
        """Of metadata only the bookkeeping of field owners changes through the status."""
        managed = obj["metadata"].get("managedFields")
        super().prepare_status_update(obj, old)
        obj["metadata"] = dict(old["metadata"])
        if managed is not None:
            obj["metadata"]["managedFields"] = managed

    def validate(self, obj: Json) -> list[FieldError]:
        """Schema and rules."""
        return self._kind.validate(obj)

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Schema and rules, transition rules among them; what was wrong before and did not change passes."""
        return self._kind.validate(obj, old)

    def validate_status_update(self, obj: Json, old: Json) -> list[FieldError]:
        """The status by its own part of the schema, and every rule."""
        return self._kind.validate_status(obj, old)

    def warnings(self, obj: Json, old: Json | None) -> list[str]:
        """Finalizers that are new and have a name that others may have, too."""
        known = set((old or {}).get("metadata", {}).get("finalizers") or ())
        added = {*(obj["metadata"].get("finalizers") or ())} - known
        return [warning for name in sorted(added) for warning in _finalizer_warnings(name)]

    def generation_changed(self, obj: Json, old: Json) -> bool:
        """Everything counts but metadata, and status where it is a subresource."""
        ignored = {"metadata", "status"} if self.has_status else {"metadata"}
        return any(
            obj.get(field) != old.get(field) for field in (obj.keys() | old.keys()) - ignored - {"apiVersion", "kind"}
        )

    def fields(self, obj: Json) -> dict[str, str]:
        """What the definition lists as selectable."""
        return {name: _text(obj, path) for name, path in self._kind.selectable_fields.items()}


def _finalizer_warnings(name: str) -> list[str]:
    about = f"metadata.finalizers: {golang.quote(name)}"
    warnings = [f"{about}: {problem}" for problem in names.qualified_name(name)]
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        with_path = " including a path (/)" if "." in name else ""
        warnings.append(
            f"{about}: prefer a domain-qualified finalizer name{with_path} to avoid accidental conflicts with other "
            "finalizer writers"
        )
    return warnings


def _text(value: Any, path: tuple[str, ...]) -> str:
    for name in path:
        if not isinstance(value, dict):
            return ""
        value = value.get(name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def custom_resource(kind: CustomResourceKind) -> Resource:
    """A compiled kind as a resource that can be served."""
    subresources: dict[str, Subresource] = {}
    if kind.has_status:
        subresources["status"] = Subresource("status", kind.kind, kind.group, kind.version)
    scale = None
    if kind.scale is not None:
        subresources["scale"] = Subresource("scale", "Scale", "autoscaling", "v1")
        scale = ScalePaths(kind.scale.spec_replicas, kind.scale.status_replicas, kind.scale.label_selector)
    return Resource(
        group=kind.group,
        version=kind.version,
        plural=kind.plural,
        kind=kind.kind,
        namespaced=kind.namespaced,
        strategy=CustomStrategy(kind),
        schema=lambda: kind.node,
        singular=kind.singular,
        list_kind=kind.list_kind,
        short_names=kind.short_names,
        categories=kind.categories,
        subresources=subresources,
        custom=kind,
        scale=scale,
    )
