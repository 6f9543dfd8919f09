"""POST: create an object."""

from __future__ import annotations

from fairlead.api import errors
from fairlead.apiserver.http.messages import Response
from fairlead.apiserver.operations.create import create as create_object
from fairlead.apiserver.verbs import presentation
from fairlead.apiserver.verbs.body import read_object
from fairlead.apiserver.verbs.call import Call

__all__ = ["create"]


async def create(call: Call) -> Response:
    """Store the object of the body."""
    form = presentation.negotiate(call.request)
    if call.resource.is_ending:
        name = ((await read_object(call)).get("metadata") or {}).get("name") or ""
        detail = "create not allowed while custom resource definition is terminating"
        raise errors.forbidden(call.resource.group_resource, name, detail)
    options = call.write_options("CreateOptions")
    obj = await read_object(call)
    result = await create_object(call.core, call.resource, obj, namespace=call.info.namespace, options=options)
    return presentation.outcome(call, form, result, 201)
