"""POST: create an object."""

from __future__ import annotations

from fairlead.apiserver.http.messages import Response
from fairlead.apiserver.operations.create import create as create_object
from fairlead.apiserver.verbs import presentation
from fairlead.apiserver.verbs.body import read_object
from fairlead.apiserver.verbs.call import Call

__all__ = ["create"]


async def create(call: Call) -> Response:
    """Store the object of the body."""
    form = presentation.negotiate(call.request)
    obj = await read_object(call)
    options = call.write_options("CreateOptions")
    result = await create_object(call.core, call.resource, obj, namespace=call.info.namespace, options=options)
    return presentation.outcome(call, form, result, 201)
