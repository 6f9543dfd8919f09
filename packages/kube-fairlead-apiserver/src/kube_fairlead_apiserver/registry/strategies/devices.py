"""ResourceSlices.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/resource/resourceslice/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/resource/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/resource/v1/zz_generated.validations.go
"""

from __future__ import annotations

from typing import Final

from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.registry.strategies.field_checks import changed
from kube_fairlead_apiserver.registry.strategy import Strategy

__all__ = ["ResourceSliceStrategy"]

_SPEC: Final = FieldPath("spec")


class ResourceSliceStrategy(Strategy):
    """resource.k8s.io ResourceSlice: a kubelet may write those of its node, so the node is immutable."""

    tracks_generation: bool = True
    returns_deleted_object: bool = True
    selectable = frozenset({"spec.nodeName", "spec.driver"})

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Neither the node nor the driver changes."""
        return changed(obj.get("spec") or {}, old.get("spec") or {}, _SPEC, "nodeName", "driver")

    def fields(self, obj: Json) -> dict[str, str]:
        """Return the selectable fields."""
        spec = obj.get("spec") or {}
        return {"spec.nodeName": spec.get("nodeName") or "", "spec.driver": spec.get("driver") or ""}
