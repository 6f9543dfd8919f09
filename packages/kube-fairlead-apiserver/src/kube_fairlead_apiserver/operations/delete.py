"""Delete: look up the decision in the deletion table, then carry it out.

Upstream: k8s.io/apiserver@v0.36.4/pkg/registry/generic/registry/store.go,
    k8s.io/apiserver@v0.36.4/pkg/registry/rest/delete.go,
    k8s.io/apiserver@v0.36.4/pkg/storage/interfaces.go
"""

from __future__ import annotations

import datetime as dt

from kube_fairlead.api import errors
from kube_fairlead.api.gvk import GroupResource
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.time import format_time, parse_time
from kube_fairlead.lifecycle import deletion
from kube_fairlead_apiserver.admission.interface import Operation
from kube_fairlead_apiserver.operations import persistence
from kube_fairlead_apiserver.operations.core import Core, WriteOptions, WriteResult
from kube_fairlead_apiserver.operations.propagation import DeleteRequest, finalizers_for
from kube_fairlead_apiserver.operations.update import became_durable, confirm, remove, settled
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.storage.entries import Entry
from kube_fairlead_apiserver.storage.store import WriteConflict

__all__ = ["check_preconditions", "delete"]

_ATTEMPTS = 16


async def delete(
    core: Core, resource: Resource, *, namespace: str, name: str, request: DeleteRequest, options: WriteOptions
) -> WriteResult:
    """Delete an object, or begin to. ``WriteResult.removed`` says which."""
    for _ in range(_ATTEMPTS):
        entry = core.store.newest(resource.table, resource.key(namespace, name))
        if entry is None:
            entry = await settled(core, resource, namespace, name)
        try:
            return await _delete_once(core, resource, namespace, name, entry, request, options)
        except WriteConflict:
            continue
        except errors.ApiError:
            if await became_durable(core, resource, entry):
                raise
    raise errors.conflict(resource.group_resource, name, "the object has been modified; please try again")


async def _delete_once(
    core: Core,
    resource: Resource,
    namespace: str,
    name: str,
    entry: Entry,
    request: DeleteRequest,
    options: WriteOptions,
) -> WriteResult:
    old = resource.decode(entry)
    check_preconditions(resource, old, request)
    operation = Operation(
        operation="DELETE",
        resource=resource,
        user=options.user,
        namespace=namespace,
        name="" if request.of_collection else name,
        obj=None,
        old=old,
        options=request.wire,
        dry_run=options.dry_run,
        warnings=options.warnings,
        audit_annotations=options.audit_annotations,
    )
    await core.admission.admit(operation)
    await core.admission.validate(operation)
    now = core.clock.now()
    obj = resource.decode(entry)
    if not obj["metadata"].get("deletionTimestamp"):
        resource.strategy.prepare_delete(obj, now)
    finalizers = finalizers_for(
        obj["metadata"].get("finalizers") or [], request.propagation, resource.strategy.default_propagation
    )
    decision = _decide(resource, obj, finalizers, request, now, options.warnings)
    match decision:
        case deletion.Remove():
            if resource.strategy.grace_seconds(obj, None) is not None:
                # The client that deletes a pod at once sees it as deleted.
                metadata = obj["metadata"]
                metadata.setdefault("deletionTimestamp", format_time(now))
                metadata["deletionGracePeriodSeconds"] = 0
            return await remove(core, resource, entry, obj, options)
        case deletion.Unchanged() if finalizers == (old["metadata"].get("finalizers") or []):
            await confirm(core, resource, entry)
            return WriteResult(resource, old, entry)
        case deletion.Unchanged():
            return await _mark(core, resource, entry, obj, finalizers, None, options)
        case deletion.Mark():
            return await _mark(core, resource, entry, obj, finalizers, decision, options)


def _decide(
    resource: Resource,
    obj: Json,
    finalizers: list[str],
    request: DeleteRequest,
    now: dt.datetime,
    warnings: list[str],
) -> deletion.Decision:
    metadata = obj["metadata"]
    stamp = metadata.get("deletionTimestamp")
    state = deletion.State(
        finalizers=len(finalizers) + resource.strategy.held_by(obj),
        deletion_timestamp=parse_time(stamp) if stamp else None,
        grace_seconds=0 if resource.strategy.emptied_first else metadata.get("deletionGracePeriodSeconds"),
    )
    requested = deletion.normalise_grace(request.grace_seconds)
    if resource.is_custom:
        lost = deletion.without_effect(state, requested, now)
        if lost:
            warnings.append(lost)
        return deletion.decide_custom(state, requested, now)
    grace = resource.strategy.grace_seconds(obj, requested)
    if grace is None:
        return deletion.decide_plain(state, now)
    return deletion.decide_graceful(state, grace, now, explicit=requested is not None)


async def _mark(
    core: Core,
    resource: Resource,
    entry: Entry,
    obj: Json,
    finalizers: list[str],
    mark: deletion.Mark | None,
    options: WriteOptions,
) -> WriteResult:
    metadata = obj["metadata"]
    if mark is not None:
        begins = not metadata.get("deletionTimestamp")
        metadata["deletionTimestamp"] = format_time(mark.deletion_timestamp)
        if mark.grace_seconds is None or resource.strategy.emptied_first:
            metadata.pop("deletionGracePeriodSeconds", None)
        else:
            metadata["deletionGracePeriodSeconds"] = mark.grace_seconds
        if begins and metadata.get("generation") and not resource.strategy.emptied_first:
            metadata["generation"] += 1
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    if options.dry_run:
        return WriteResult(resource, obj)
    written = await persistence.put(core, resource, entry.key, obj, expected=entry.revision)
    if mark is not None and mark.grace_seconds is not None and resource.is_custom:
        core.on_graceful_deletion(resource)
    return WriteResult(resource, obj, written)


def check_preconditions(resource: Resource, obj: Json, request: DeleteRequest) -> None:
    """Raise Conflict unless uid and resourceVersion match the preconditions."""
    metadata = obj["metadata"]
    name = metadata["name"]
    about = GroupResource(resource.group, resource.kind)
    if request.uid is not None and request.uid != metadata["uid"]:
        raise errors.conflict(
            about,
            name,
            f"the UID in the precondition ({request.uid}) does not match the UID in record ({metadata['uid']}). "
            "The object might have been deleted and then recreated",
        )
    version = request.resource_version
    if version is not None and version != metadata["resourceVersion"]:
        raise errors.conflict(
            about,
            name,
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({metadata['resourceVersion']}). The object might have been modified",
        )
