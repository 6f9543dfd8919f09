"""PUT: replace an object."""

from __future__ import annotations

from fairlead.api import errors
from fairlead.api.fielderrors import FieldError, FieldPath
from fairlead.apiserver.http.messages import Json, Response
from fairlead.apiserver.operations.create import create as create_object
from fairlead.apiserver.operations.update import update as update_object
from fairlead.apiserver.schema.defaulting import copy_json
from fairlead.apiserver.verbs import presentation
from fairlead.apiserver.verbs.body import read_object
from fairlead.apiserver.verbs.call import Call

__all__ = ["update"]


async def update(call: Call) -> Response:
    """Replace an object, or its status."""
    form = presentation.negotiate(call.request)
    options = call.write_options("UpdateOptions")
    obj = await read_object(call)
    resource = call.resource
    name = call.info.name
    metadata = obj.get("metadata") or {}
    if not metadata.get("name"):
        raise errors.BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if metadata["name"] != name:
        raise errors.BadRequest(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        )
    if resource.strategy.allow_create_on_update and not call.info.subresource and not metadata.get("resourceVersion"):
        key = resource.key(call.info.namespace, name)
        if call.core.store.newest(resource.table, key) is None:
            call.require_create()
            made = await create_object(
                call.core,
                resource,
                obj,
                namespace=call.info.namespace,
                options=options.with_kind("CreateOptions"),
            )
            return presentation.outcome(call, form, made, 201)
    if not metadata.get("resourceVersion") and not resource.strategy.allow_unconditional_update:
        problem = FieldError.invalid(
            FieldPath("metadata").child("resourceVersion"), 0, "must be specified for an update"
        )
        raise errors.invalid(resource.group_kind, name, [problem])

    async def replace(_current: Json) -> Json:
        copied: Json = copy_json(obj)  # every attempt starts from what the client sent
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
    return presentation.outcome(call, form, result)
