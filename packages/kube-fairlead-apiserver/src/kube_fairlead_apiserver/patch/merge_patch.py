"""JSON merge patch, RFC 7386.

Upstream: gopkg.in/evanphx/json-patch.v4@v4.13.0/merge.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/patch.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.patch import patch_errors
from kube_fairlead_apiserver.patch.depth_limit import ensure_depth

__all__ = ["apply_merge_patch"]


def apply_merge_patch(document: Json, patch: Any) -> Json:
    """Apply the patch to the document: null removes, objects merge, everything else replaces.

    By the RFC a patch that is not an object replaces the whole document. That makes no sense for an API object, and
    Kubernetes returns a 400.
    """
    if not isinstance(patch, dict):
        raise patch_errors.undecodable_patch(patch, "map[string]interface {}")
    ensure_depth(patch)
    return _merge(document, patch)


def _merge(target: Json, patch: Json) -> Json:
    changed: Json | None = None
    for key, value in patch.items():
        if value is None:
            if key in target:
                changed = dict(target) if changed is None else changed
                del changed[key]
            continue
        current = target.get(key)
        if isinstance(value, dict):
            merged: Any = _merge(current if isinstance(current, dict) else {}, value)
        else:
            merged = value if isinstance(current, dict) else _without_nulls(value)
        if merged is not current or key not in target:
            changed = dict(target) if changed is None else changed
            changed[key] = merged
    return target if changed is None else changed


def _without_nulls(value: Any) -> Any:
    """Remove null members from objects inside a list, as Kubernetes does; the RFC would keep them.

    Only a list that replaces an object keeps them, too.
    """
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value
