"""LimitRanges and ResourceQuotas.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/limitrange/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/resourcequota/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/core/v1/defaults.go
"""

from __future__ import annotations

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.registry.strategy import Strategy

__all__ = ["LimitRangeStrategy", "ResourceQuotaStrategy"]


class LimitRangeStrategy(Strategy):
    """Stored and defaulted; this server does not enforce it."""

    allow_create_on_update: bool = True

    def default(self, obj: Json) -> None:
        """Default limits are the maximum, and default requests are the limits."""
        for item in (obj.get("spec") or {}).get("limits") or ():
            if item.get("type") != "Container":
                continue
            limit = {**(item.get("max") or {}), **(item.get("default") or {})}
            request = {**(item.get("min") or {}), **limit, **(item.get("defaultRequest") or {})}
            for field, amounts in (("default", limit), ("defaultRequest", request)):
                if amounts:
                    item[field] = amounts


class ResourceQuotaStrategy(Strategy):
    """Stored; this server does not count usage."""

    has_status: bool = True
    returns_deleted_object: bool = True

    def prepare_create(self, obj: Json) -> None:
        """A new quota has no status."""
        obj["status"] = {}
