"""Field ownership: keeps managedFields correct through every kind of write.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/fieldmanager/admission.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/internal/fieldmanager.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/internal/managedfieldsupdater.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/managedfields/internal/skipnonapplied.go
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission.version_conversion import convert
from kube_fairlead_apiserver.operations.core import Core, WriteOptions
from kube_fairlead_apiserver.patch.apply import managers
from kube_fairlead_apiserver.patch.apply.elements import MalformedFieldsError
from kube_fairlead_apiserver.patch.apply.manager_versions import Version
from kube_fairlead_apiserver.patch.apply.update_tracking import track_update
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.schema.typed_decoder import TypeMismatch, conform

__all__ = ["apply_existing", "apply_new", "managed_fields", "restore_valid", "track"]

# Fields that the server resets in a write, so that no manager owns them through it.
_STATUS: Json = {"f:status": {}}
_SPEC: Json = {"f:spec": {}}


def track(core: Core, resource: Resource, old: Json | None, obj: Json, options: WriteOptions, subresource: str) -> None:
    """Record the changed fields and their manager in managedFields."""
    managed = track_update(
        resource.schema(),
        old,
        obj,
        options.field_manager or "unknown",
        resource.api_version,
        core.clock.now(),
        subresource,
        reset_fields=_reset_fields(resource, subresource),
        versions=_versions(core, resource),
    )
    if managed:
        obj["metadata"]["managedFields"] = managed
    else:
        obj["metadata"].pop("managedFields", None)


def managed_fields(obj: Json) -> Any:
    """Return the current entries, to restore them after admission."""
    return (obj.get("metadata") or {}).get("managedFields")


def restore_valid(obj: Json, before: Any, warnings: list[str]) -> None:
    """Restore managedFields if a webhook made them invalid."""
    after = managed_fields(obj)
    if after is None or after == before:
        return
    try:
        managers.read_untrusted(after)
    except MalformedFieldsError as error:
        obj["metadata"]["managedFields"] = before
        warnings.append(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated "
            f"mutating admission controller; please fix your requests: {error}"
        )


def apply_new(core: Core, resource: Resource, applied: Json, manager: str) -> Json:
    """Return the object that an apply creates."""
    return _apply(core, resource, None, applied, manager, force=False, subresource="")


def apply_existing(
    core: Core, resource: Resource, current: Json, applied: Json, manager: str, *, force: bool, subresource: str
) -> Json:
    """Return the object after an apply; raises Conflict when another manager owns a field that it would change."""
    return _apply(core, resource, current, applied, manager, force=force, subresource=subresource)


def _apply(
    core: Core,
    resource: Resource,
    current: Json | None,
    applied: Json,
    manager: str,
    *,
    force: bool,
    subresource: str,
) -> Json:
    from kube_fairlead_apiserver.patch.apply.server_side_apply import (
        apply,  # imported here: the server itself never applies
    )

    obj, _ = apply(
        resource.schema(),
        current,
        applied,
        manager,
        force=force,
        api_version=resource.api_version,
        kind=resource.kind,
        now=core.clock.now(),
        subresource=subresource,
        reset_fields=_reset_fields(resource, subresource),
        versions=_versions(core, resource),
    )
    if not resource.is_custom:
        # The applier owns a field with an empty value, although the decoded type drops it.
        try:
            conform(resource.schema(), obj, current)
        except TypeMismatch as error:
            raise errors.BadRequest(f"failed to convert the applied configuration: {error}") from error
    return obj


def _reset_fields(resource: Resource, subresource: str) -> Json | None:
    if not resource.strategy.has_status:
        return None
    return _SPEC if subresource == "status" else _STATUS


def _versions(core: Core, resource: Resource) -> dict[str, Version] | None:
    """Return the served versions of a kind: a manager's entry is in the version of its write."""
    if resource.is_custom:
        others = core.catalog.versions(resource.group, resource.plural)
        return {served.api_version: Version(served.schema()) for served in others}
    if not resource.shared:
        return None
    return {
        served.api_version: Version(served.schema(), None if served is resource else _conversion(resource, served))
        for served in core.catalog.sharing(resource.table)
    }


def _conversion(source: Resource, target: Resource) -> Callable[[Json], Json]:
    def shown(obj: Json) -> Json:
        return convert(obj, source, target)

    return shown
