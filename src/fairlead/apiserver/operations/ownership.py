"""Field ownership: keeps managedFields true through every kind of write."""

from __future__ import annotations

from fairlead.api.time import format_time
from fairlead.apiserver.operations.core import Core, Json, WriteOptions
from fairlead.apiserver.patch import apply as applying
from fairlead.apiserver.registry.resource import Resource

__all__ = ["apply_existing", "apply_new", "track"]


def track(core: Core, resource: Resource, old: Json | None, obj: Json, options: WriteOptions, subresource: str) -> None:
    """Record in managedFields what this write changed, and who changed it."""
    managed = applying.track_update(
        resource.schema(),
        old,
        obj,
        manager=options.field_manager or "unknown",
        api_version=resource.api_version,
        now=format_time(core.clock.now()),
        subresource=subresource,
    )
    _store(obj, managed)


def apply_new(core: Core, resource: Resource, applied: Json, manager: str) -> Json:
    """The object that an apply creates."""
    return _apply(core, resource, None, applied, manager, force=False, subresource="")


def apply_existing(
    core: Core, resource: Resource, current: Json, applied: Json, manager: str, *, force: bool, subresource: str
) -> Json:
    """The object after an apply; raises Conflict when somebody else owns a field that it would change."""
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
    obj, managed = applying.apply(
        resource.schema(),
        current,
        applied,
        manager=manager,
        force=force,
        api_version=resource.api_version,
        now=format_time(core.clock.now()),
        subresource=subresource,
    )
    _store(obj, managed)
    return obj


def _store(obj: Json, managed: list[Json]) -> None:
    if managed:
        obj["metadata"]["managedFields"] = managed
    else:
        obj["metadata"].pop("managedFields", None)
