"""Update: replace, patch and apply end here, as one change of one object that is retried after conflicts.

Upstream: k8s.io/apiserver@v0.36.4/pkg/registry/generic/registry/store.go,
    k8s.io/apiserver@v0.36.4/pkg/registry/rest/update.go,
    k8s.io/apiserver@v0.36.4/pkg/storage/etcd3/store.go,
    k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/rest.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.time import format_time
from kube_fairlead_apiserver.admission.interface import Operation
from kube_fairlead_apiserver.offload import weigh
from kube_fairlead_apiserver.operations import field_ownership, persistence, validation
from kube_fairlead_apiserver.operations import metadata as metadata_rules
from kube_fairlead_apiserver.operations.core import Core, WriteOptions, WriteResult
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.storage.entries import Entry
from kube_fairlead_apiserver.storage.store import WriteConflict

__all__ = ["Mutation", "SubresourceView", "became_durable", "confirm", "remove", "settled", "update"]

# From a copy of the current object to the changed object. Called again after a conflict.
Mutation = Callable[[Json], Awaitable[Json]]

_ATTEMPTS = 16


class SubresourceView(msgspec.Struct, frozen=True):
    """The object that admission sees when a subresource has its own kind (Scale)."""

    kind: tuple[str, str, str]
    show: Callable[[Json], Json]
    # Copies the changes of admission from the view to the object.
    take: Callable[[Json, Json], None]
    operation: str = "UPDATE"  # or CREATE, for what is posted to an object (Binding)


async def update(
    core: Core,
    resource: Resource,
    *,
    namespace: str,
    name: str,
    mutation: Mutation,
    options: WriteOptions,
    subresource: str = "",
    tracked: bool = False,
    replaces: bool = False,
    view: SubresourceView | None = None,
) -> WriteResult:
    """Change an object.

    ``tracked``: the mutation has set managedFields itself (server-side apply). ``replaces``: the mutation ignores what
    is there (PUT), so identifying metadata in it are preconditions.
    """
    for _ in range(_ATTEMPTS):
        entry = core.store.newest(resource.table, resource.key(namespace, name))
        if entry is None:
            entry = await settled(core, resource, namespace, name)
        try:
            return await _update_once(
                core,
                resource,
                namespace,
                name,
                entry,
                mutation,
                options,
                subresource,
                tracked=tracked,
                replaces=replaces,
                view=view,
            )
        except WriteConflict:
            continue
        except errors.ApiError:
            if await became_durable(core, resource, entry):
                raise
    raise errors.conflict(
        resource.group_resource,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


async def _update_once(
    core: Core,
    resource: Resource,
    namespace: str,
    name: str,
    entry: Entry,
    mutation: Mutation,
    options: WriteOptions,
    subresource: str,
    *,
    tracked: bool,
    replaces: bool,
    view: SubresourceView | None,
) -> WriteResult:
    weigh(len(entry.value))
    old = await core.offload.run(resource.decode, entry)
    obj = await mutation(await core.offload.run(resource.decode, entry))
    if metadata_rules.require_metadata(obj).get("name", name) != name:
        raise errors.BadRequest(
            f"the name of the object ({obj['metadata'].get('name')}) does not match the name on the URL ({name})"
        )
    metadata_rules.begin_update(resource, obj, old, namespace, replaces=replaces)
    obj["metadata"]["name"] = name
    await core.offload.run(_begin, core, resource, obj, old, options, subresource, tracked=tracked)
    operation = Operation(
        operation="UPDATE",
        resource=resource,
        user=options.user,
        namespace=namespace,
        name=name,
        obj=obj,
        old=old,
        subresource=subresource,
        options=options.wire,
        dry_run=options.dry_run,
        warnings=options.warnings,
        audit_annotations=options.audit_annotations,
    )
    if view is not None:
        _show(operation, view, obj, old)
    managed = field_ownership.managed_fields(obj)
    await core.admission.admit(operation)
    if operation.patched:
        field_ownership.restore_valid(obj, managed, options.warnings)
        if view is not None and operation.obj is not None:
            view.take(obj, operation.obj)
        _prepare(core, resource, obj, old, subresource)
    weigh(resource.strategy.weight(obj))
    await core.offload.run(_check, resource, obj, old, options, subresource)
    await core.admission.validate(operation)
    return await _commit(core, resource, entry, obj, old, options)


def _begin(
    core: Core, resource: Resource, obj: Json, old: Json, options: WriteOptions, subresource: str, *, tracked: bool
) -> None:
    _prepare(core, resource, obj, old, subresource)
    if not tracked:
        # Before admission: no manager owns the fields that admission changes.
        field_ownership.track(core, resource, old, obj, options, subresource)


def _check(resource: Resource, obj: Json, old: Json, options: WriteOptions, subresource: str) -> None:
    validation.check_update(resource, obj, old, subresource)
    resource.strategy.canonicalize(obj)
    options.warnings += resource.strategy.warnings(obj, old)


def _show(operation: Operation, view: SubresourceView, obj: Json, old: Json) -> None:
    operation.operation = view.operation
    operation.kind = view.kind
    operation.obj = view.show(obj)
    operation.old = view.show(old) if view.operation == "UPDATE" else None


def _prepare(core: Core, resource: Resource, obj: Json, old: Json, subresource: str) -> None:
    """Apply the kind's strategy to a change. Repeated when the object has changed since."""
    strategy = resource.strategy
    if subresource == "status":
        strategy.prepare_status_update(obj, old)
    elif subresource:
        strategy.prepare_subresource_update(subresource, obj, old)
    else:
        strategy.prepare_update(obj, old)
    if subresource:
        strategy.set_times(obj, old, format_time(core.clock.now()))
    strategy.default(obj)
    if strategy.tracks_generation:
        counted = subresource != "status" and strategy.generation_changed(obj, old)
        obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + counted


async def _commit(
    core: Core, resource: Resource, entry: Entry, obj: Json, old: Json, options: WriteOptions
) -> WriteResult:
    if obj == old and resource.keeps(entry, obj):
        # Nothing changed, so nothing is written and no watcher is notified: the resourceVersion stays.
        await confirm(core, resource, entry)
        return WriteResult(resource, obj, entry)
    if _is_finished(resource, obj):
        return await remove(core, resource, entry, obj, options)
    if options.dry_run:
        return WriteResult(resource, obj)
    written = await persistence.put(
        core, resource, entry.key, obj, expected=entry.revision, for_deletion=options.for_deletion
    )
    return WriteResult(resource, obj, written)


async def settled(core: Core, resource: Resource, namespace: str, name: str) -> Entry:
    """Return the durable state of an object that seems to be deleted: a pending deletion may still fail."""
    key = resource.key(namespace, name)
    await core.store.settle(resource.table, key)
    entry = core.store.newest(resource.table, key)
    if entry is None:
        raise errors.not_found(resource.group_resource, name)
    return entry


async def became_durable(core: Core, resource: Resource, entry: Entry) -> bool:
    """Return whether a client may see the state on which a rejection was decided."""
    await core.store.settle(resource.table, entry.key)
    newest = core.store.newest(resource.table, entry.key)
    # A failed write also fails all writes that build on it, and the current state is older again.
    return newest is None or newest.revision >= entry.revision


async def confirm(core: Core, resource: Resource, entry: Entry) -> None:
    """Wait until a state that a client is about to see is durable; WriteConflict when it never becomes so."""
    await core.store.settle(resource.table, entry.key)
    if core.store.newest(resource.table, entry.key) is not entry:
        raise WriteConflict


def _is_finished(resource: Resource, obj: Json) -> bool:
    """Return whether nothing keeps a deleted object any more.

    A pod also stays for its grace period, which its kubelet ends by deleting it with grace 0. For everything else the
    grace period is advice to controllers: the object is removed with its last finalizer (invariant 9).
    """
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers") or resource.strategy.held_by(obj):
        return False
    graceful = resource.strategy.grace_seconds(obj, None) is not None
    return not (graceful and metadata.get("deletionGracePeriodSeconds"))


async def remove(core: Core, resource: Resource, entry: Entry, obj: Json, options: WriteOptions) -> WriteResult:
    """Remove an object from the store."""
    if options.dry_run:
        return WriteResult(resource, obj, removed=True)
    last = await core.store.remove(resource.table, entry.key, expected=entry.revision)
    obj["metadata"]["resourceVersion"] = str(last.revision)
    return WriteResult(resource, obj, removed=True)
