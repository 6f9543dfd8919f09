"""Custom resources: the strategy that a CustomResourceDefinition defines.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/registry/customresource/strategy.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/registry/customresource/status_strategy.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/registry/customresource/validator.go
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from kube_fairlead.api import golang, names
from kube_fairlead.api.fielderrors import FieldError
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.validation.metadata import STANDARD_FINALIZERS
from kube_fairlead_apiserver.crd.definition import CustomResourceKind
from kube_fairlead_apiserver.offload import weighed
from kube_fairlead_apiserver.registry.custom_versions import CustomVersion, CustomVersions
from kube_fairlead_apiserver.registry.resource import Resource, ScalePaths, Subresource
from kube_fairlead_apiserver.registry.strategy import Strategy
from kube_fairlead_apiserver.schema.comparison_budget import count_loops, count_parts
from kube_fairlead_apiserver.schema.defaulting import apply_defaults
from kube_fairlead_apiserver.schema.pruning import prune

__all__ = ["CustomStrategy", "custom_resources"]


class CustomStrategy(Strategy):
    """One version of a custom kind."""

    tracks_generation: bool = True
    allow_unconditional_update: bool = False

    def __init__(
        self, kind: CustomResourceKind, selectable: Mapping[str, tuple[str, ...]], *, built_in: bool = False
    ) -> None:
        """``selectable``: the selectable fields of all versions. ``built_in``: a kind of this program."""
        self._kind = kind
        self._built_in = built_in
        self._paths = selectable
        self.has_status = kind.has_status
        self.selectable = frozenset(kind.selectable_fields)

    def default(self, obj: Json) -> None:
        """Set the schema's defaults, also after a webhook changed the object."""
        prune(self._kind.node, obj)
        apply_defaults(self._kind.node, obj)

    def prepare_status_update(self, obj: Json, old: Json) -> None:
        """A status write changes no metadata except managedFields."""
        managed = obj["metadata"].get("managedFields")
        super().prepare_status_update(obj, old)
        obj["metadata"] = dict(old["metadata"])
        if managed is not None:
            obj["metadata"]["managedFields"] = managed

    def validate(self, obj: Json) -> list[FieldError]:
        """Schema and rules."""
        return self._kind.validate(obj)

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Validate by schema and rules, with transition rules; unchanged invalid values are accepted."""
        return self._kind.validate(obj, old)

    def validate_status_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Validate the status by its part of the schema, and by every rule."""
        return self._kind.validate_status(obj, old)

    def weight(self, obj: Json) -> int:
        """Return the weight of validation: alternatives of a schema and rules over lists multiply the work."""
        del obj
        return weighed() * max(self._alternatives // 2, self._loops)

    @functools.cached_property
    def _alternatives(self) -> int:
        return count_parts(self._kind.node.source)

    @functools.cached_property
    def _loops(self) -> int:
        # The rules of built-in lifecycle kinds are linear in the size of an object.
        return 0 if self._built_in else count_loops(self._kind.node.source)

    def warnings(self, obj: Json, old: Json | None) -> list[str]:
        """Warnings for new finalizers without a domain."""
        known = set((old or {}).get("metadata", {}).get("finalizers") or ())
        added = {*(obj["metadata"].get("finalizers") or ())} - known
        return [warning for name in sorted(added) for warning in _finalizer_warnings(name)]

    def generation_changed(self, obj: Json, old: Json) -> bool:
        """Return whether the generation increases: for changes outside of metadata and a status subresource."""
        ignored = {"metadata", "status"} if self.has_status else {"metadata"}
        return any(
            obj.get(field) != old.get(field) for field in (obj.keys() | old.keys()) - ignored - {"apiVersion", "kind"}
        )

    def fields(self, obj: Json) -> dict[str, str]:
        """Return the selectable fields of all versions: one entry serves them all."""
        return {name: _text(obj, path) for name, path in self._paths.items()}


def _finalizer_warnings(name: str) -> list[str]:
    about = f"metadata.finalizers: {golang.quote(name)}"
    warnings = [f"{about}: {problem}" for problem in names.qualified_name(name)]
    if "/" not in name and name not in STANDARD_FINALIZERS:
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


def custom_resources(
    kinds: Mapping[str, CustomResourceKind], *, unchanged: bool, built_in: bool = False
) -> list[Resource]:
    """Return the served versions of a compiled kind, the storage version first.

    ``unchanged``: its definition has never changed. ``built_in``: its definition is a part of this program.
    """
    versions = CustomVersions(kinds, unchanged=unchanged)
    selectable = {name: path for kind in kinds.values() for name, path in kind.selectable_fields.items()}
    served = sorted((kind for kind in kinds.values() if kind.served), key=lambda kind: not kind.storage)
    return [_resource(kind, versions, CustomStrategy(kind, selectable, built_in=built_in)) for kind in served]


def _resource(kind: CustomResourceKind, versions: CustomVersions, strategy: CustomStrategy) -> Resource:
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
        strategy=strategy,
        schema=lambda: kind.node,
        singular=kind.singular,
        list_kind=kind.list_kind,
        short_names=kind.short_names,
        categories=kind.categories,
        subresources=subresources,
        custom=kind,
        custom_version=CustomVersion(kind, versions),
        scale=scale,
    )
