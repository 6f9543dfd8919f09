"""DELETE an object, or a collection of them.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/delete.go,
    k8s.io/apiserver@v0.36.4/pkg/registry/generic/registry/store.go
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead.base.tasks import TaskScope
from kube_fairlead_apiserver.http.messages import Response, json_response
from kube_fairlead_apiserver.operations.core import WriteOptions, WriteResult
from kube_fairlead_apiserver.operations.delete import delete as delete_object
from kube_fairlead_apiserver.operations.propagation import DeleteRequest, read_delete_options
from kube_fairlead_apiserver.registry.resource import split_key
from kube_fairlead_apiserver.storage.entries import Entry
from kube_fairlead_apiserver.verbs import collection, presentation
from kube_fairlead_apiserver.verbs.body import read_options
from kube_fairlead_apiserver.verbs.call import Call
from kube_fairlead_apiserver.verbs.list import gather, read_page

__all__ = ["delete", "delete_collection"]

_AT_ONCE = 32


async def delete(call: Call) -> Response:
    """Delete one object, or begin to."""
    form = presentation.negotiate(call.request)
    request = await _read_request(call)
    options = call.write_options("DeleteOptions", dry_run=request.dry_run)
    result = await delete_object(
        call.core,
        call.resource,
        namespace=call.info.namespace,
        name=call.info.name,
        request=request,
        options=options,
    )
    if result.removed and not call.resource.strategy.returns_deleted_object:
        return json_response(_success(call, result))
    status = 202 if not result.removed and request.wants_accepted else 200
    return await presentation.outcome(call, form, result, status)


async def delete_collection(call: Call) -> Response:
    """Delete every selected object, or a page of them; answers with the list as it was."""
    form = presentation.negotiate(call.request)
    request = msgspec.structs.replace(await _read_request(call), of_collection=True)
    options = call.write_options("DeleteOptions", dry_run=request.dry_run)
    page = await read_page(call)
    entries = await gather(page.entries)
    await _delete_all(call, entries, request, options)
    return await collection.answer(call, form, entries, page.meta, moment=page.revision)


async def _delete_all(call: Call, entries: Sequence[Entry], request: DeleteRequest, options: WriteOptions) -> None:
    """Several at a time, so that they share commits; the first failure ends it, as it would one by one."""
    left = iter(entries)
    failures: list[Exception] = []

    async def work() -> None:
        for entry in left:
            if failures:
                return
            namespace, name = split_key(entry.key)
            try:
                await delete_object(
                    call.core, call.resource, namespace=namespace, name=name, request=request, options=options
                )
            except errors.NotFound:
                pass  # another request deleted it first
            except Exception as error:  # noqa: BLE001 - it is raised below, where the request is answered
                failures.append(error)

    async with TaskScope("deletecollection") as scope:
        for number in range(min(_AT_ONCE, len(entries))):
            scope.start(work(), name=str(number))
    if failures:
        raise failures[0]


async def _read_request(call: Call) -> DeleteRequest:
    """DeleteOptions from the body, and from the query where the body is silent."""
    wire = await read_options(call, "DeleteOptions")
    query = call.request.query
    merged: Json = dict(wire)
    if "gracePeriodSeconds" in query and "gracePeriodSeconds" not in merged:
        merged["gracePeriodSeconds"] = query.integer("gracePeriodSeconds")
    for name in ("propagationPolicy",):
        if name in query and name not in merged:
            merged[name] = query.get(name)
    if "orphanDependents" in query and "orphanDependents" not in merged:
        merged["orphanDependents"] = query.flag("orphanDependents")
    if "dryRun" in query and not merged.get("dryRun"):
        merged["dryRun"] = query.all("dryRun")
    merged.setdefault("kind", "DeleteOptions")
    merged.setdefault("apiVersion", "meta.k8s.io/v1")
    return read_delete_options(merged)


def _success(call: Call, result: WriteResult) -> Json:
    details: Json = {"name": result.obj["metadata"]["name"]}
    if call.resource.group:
        details["group"] = call.resource.group
    details["kind"] = call.resource.plural
    details["uid"] = result.obj["metadata"]["uid"]
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
