"""Create: from a new object to a durable one.

Upstream: k8s.io/apiserver@v0.36.4/pkg/registry/generic/registry/store.go,
    k8s.io/apiserver@v0.36.4/pkg/registry/rest/create.go
"""

from __future__ import annotations

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission.interface import Operation
from kube_fairlead_apiserver.offload import weigh
from kube_fairlead_apiserver.operations import field_ownership, metadata, persistence, validation
from kube_fairlead_apiserver.operations.core import Core, WriteOptions, WriteResult
from kube_fairlead_apiserver.registry.resource import Resource, decode_entry
from kube_fairlead_apiserver.schema.defaulting import copy_json
from kube_fairlead_apiserver.storage.entries import Entry
from kube_fairlead_apiserver.storage.store import WriteConflict

__all__ = ["create", "create_own"]

# Attempts to generate a name that is not taken.
_NAME_ATTEMPTS = 8


async def create(
    core: Core, resource: Resource, obj: Json, *, namespace: str, options: WriteOptions, tracked: bool = False
) -> WriteResult:
    """Store a new object. A generated name that is taken is generated again.

    ``tracked``: the object's managedFields are already set (server-side apply).
    """
    named = obj.get("metadata") or {}
    if not named.get("generateName"):
        return await _create_once(core, resource, obj, namespace, options, tracked=tracked)
    attempts = 1 if named.get("name") else _NAME_ATTEMPTS
    for attempt in range(1, attempts + 1):
        try:
            copied = await core.offload.run(copy_json, obj)
            return await _create_once(core, resource, copied, namespace, options, tracked=tracked)
        except errors.AlreadyExists as error:
            if attempt == attempts:
                name = (error.details or {}).get("name", "")
                raise errors.generate_name_conflict(resource.group_resource, name, 1) from error
    raise AssertionError("unreachable: the last attempt returns or raises")


async def create_own(core: Core, resource: Resource, obj: Json, *, options: WriteOptions) -> WriteResult:
    """Store a constant object of the server: it needs no check at every first start.

    Without admission and validation, so only for constants of this program.
    """
    namespace = obj["metadata"].get("namespace", "")
    metadata.begin_create(core, resource, obj, namespace)
    resource.strategy.prepare_create(obj)
    resource.strategy.default(obj)
    field_ownership.track(core, resource, None, obj, options, "")
    resource.strategy.canonicalize(obj)
    name = obj["metadata"]["name"]
    try:
        entry = await persistence.put(core, resource, resource.key(namespace, name), obj, expected=0)
    except WriteConflict:
        raise errors.already_exists(resource.group_resource, name) from None
    return WriteResult(resource, obj, entry, created=True)


def _already_exists(resource: Resource, name: str, existing: Entry) -> errors.AlreadyExists:
    error = errors.already_exists(resource.group_resource, name)
    if decode_entry(existing)["metadata"].get("deletionTimestamp"):
        return errors.AlreadyExists(f"object is being deleted: {error}", details=error.details)
    return error


def _prepare(core: Core, resource: Resource, obj: Json, options: WriteOptions, *, tracked: bool) -> None:
    resource.strategy.prepare_create(obj)
    resource.strategy.default(obj)
    if not tracked:
        # Before admission: no manager owns the fields that admission adds.
        field_ownership.track(core, resource, None, obj, options, "")


def _check(resource: Resource, obj: Json, options: WriteOptions) -> None:
    validation.check_create(resource, obj)
    resource.strategy.canonicalize(obj)
    options.warnings += resource.strategy.warnings(obj, None)


async def _create_once(
    core: Core, resource: Resource, obj: Json, namespace: str, options: WriteOptions, *, tracked: bool
) -> WriteResult:
    strategy = resource.strategy
    metadata.begin_create(core, resource, obj, namespace)
    await core.offload.run(_prepare, core, resource, obj, options, tracked=tracked)
    name = obj["metadata"].get("name") or ""
    operation = Operation(
        operation="CREATE",
        resource=resource,
        user=options.user,
        namespace=namespace,
        name=name,
        obj=obj,
        old=None,
        options=options.wire,
        dry_run=options.dry_run,
        warnings=options.warnings,
        audit_annotations=options.audit_annotations,
    )
    managed = field_ownership.managed_fields(obj)
    await core.admission.admit(operation)
    if operation.patched:
        field_ownership.restore_valid(obj, managed, options.warnings)
        strategy.prepare_create(obj)
        strategy.default(obj)
    weigh(resource.strategy.weight(obj))
    await core.offload.run(_check, resource, obj, options)
    await core.admission.validate(operation)
    name = obj["metadata"]["name"]
    key = resource.key(namespace, name)
    await core.store.settle(resource.table, key)
    existing = core.store.newest(resource.table, key)
    if existing is not None:
        raise _already_exists(resource, name, existing)
    if options.dry_run:
        return WriteResult(resource, obj, created=True)
    try:
        entry = await persistence.put(core, resource, key, obj, expected=0)
    except WriteConflict:
        raise errors.already_exists(resource.group_resource, name) from None
    return WriteResult(resource, obj, entry, created=True)
