"""POST: create an object. Also used by PUT and apply for an object that does not exist.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/create.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/customresource_handler.go
"""

from __future__ import annotations

import contextlib

from kube_fairlead.api import errors
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.http.messages import Response
from kube_fairlead_apiserver.operations.core import WriteOptions
from kube_fairlead_apiserver.operations.create import create as create_object
from kube_fairlead_apiserver.verbs import presentation
from kube_fairlead_apiserver.verbs.body import read_object
from kube_fairlead_apiserver.verbs.call import Call

__all__ = ["create", "create_absent"]


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
    return await presentation.outcome(call, form, result, 201)


async def create_absent(
    call: Call, form: presentation.ResponseFormat, obj: Json, options: WriteOptions, *, tracked: bool = False
) -> Response | None:
    """Create what a request to change it did not find; None when it was created concurrently."""
    call.require_create()
    with contextlib.suppress(errors.AlreadyExists):
        made = await create_object(
            call.core,
            call.resource,
            obj,
            namespace=call.info.namespace,
            options=options.with_kind("CreateOptions"),
            tracked=tracked,
        )
        return await presentation.outcome(call, form, made, 201)
    return None
