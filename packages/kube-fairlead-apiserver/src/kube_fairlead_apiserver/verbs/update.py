"""PUT: replace an object.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/update.go
"""

from __future__ import annotations

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.http.messages import Response
from kube_fairlead_apiserver.operations.core import WriteOptions
from kube_fairlead_apiserver.operations.update import update as update_object
from kube_fairlead_apiserver.schema.defaulting import copy_json
from kube_fairlead_apiserver.verbs import presentation
from kube_fairlead_apiserver.verbs.body import read_object
from kube_fairlead_apiserver.verbs.call import Call
from kube_fairlead_apiserver.verbs.create import create_absent

__all__ = ["update"]


async def update(call: Call) -> Response:
    """Replace an object, or its status."""
    form = presentation.negotiate(call.request)
    options = call.write_options("UpdateOptions")
    obj = await read_object(call)
    resource = call.resource
    name = call.info.name
    call.check_named(obj)
    if resource.strategy.allow_create_on_update and not call.info.subresource:
        key = resource.key(call.info.namespace, name)
        if call.core.store.newest(resource.table, key) is None:
            made = await _create(call, form, copy_json(obj), options)
            if made is not None:
                return made

    async def replace(_current: Json) -> Json:
        copied: Json = await call.core.offload.run(copy_json, obj)  # every attempt starts from what the client sent
        return copied

    result = await update_object(
        call.core,
        resource,
        namespace=call.info.namespace,
        name=name,
        mutation=replace,
        options=options,
        subresource=call.info.subresource,
        replaces=True,
    )
    return await presentation.outcome(call, form, result)


async def _create(call: Call, form: presentation.ResponseFormat, obj: Json, options: WriteOptions) -> Response | None:
    """Create a missing object, unless the body has a uid precondition. A resourceVersion does not matter."""
    metadata = obj["metadata"]
    metadata.pop("resourceVersion", None)
    if metadata.get("uid"):
        problem = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: "
        raise errors.conflict(call.resource.group_resource, call.info.name, problem)
    return await create_absent(call, form, obj, options)
