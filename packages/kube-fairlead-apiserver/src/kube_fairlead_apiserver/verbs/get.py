"""GET one object.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/get.go
"""

from __future__ import annotations

from kube_fairlead.api import errors
from kube_fairlead_apiserver.http.messages import Response
from kube_fairlead_apiserver.verbs import presentation
from kube_fairlead_apiserver.verbs.call import Call
from kube_fairlead_apiserver.verbs.resource_versions import wait_for_version

__all__ = ["get"]


async def get(call: Call) -> Response:
    """Return the durable state of one object, in the form the client asked for."""
    form = presentation.negotiate(call.request)
    await wait_for_version(call.core, call.request.query.get("resourceVersion"))
    resource = call.resource
    entry = call.core.store.read(resource.table, resource.key(call.info.namespace, call.info.name))
    if entry is None:
        raise errors.not_found(resource.group_resource, call.info.name)
    return await presentation.one_entry(call, form, entry)
