"""namespaces/finalize: the only write that changes spec.finalizers of a namespace.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/core/namespace/storage/storage.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/namespace/strategy.go
"""

from __future__ import annotations

from collections.abc import Sequence

from kube_fairlead.api import errors
from kube_fairlead.api.fielderrors import FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.http.messages import Response
from kube_fairlead_apiserver.operations.update import update
from kube_fairlead_apiserver.registry.strategies.core import validate_namespace_finalizer
from kube_fairlead_apiserver.verbs import presentation
from kube_fairlead_apiserver.verbs.body import read_object
from kube_fairlead_apiserver.verbs.call import Call

__all__ = ["finalize"]


async def finalize(call: Call) -> Response:
    """Handle PUT: replace the namespace's finalizers; without finalizers a deleted namespace is removed."""
    form = presentation.negotiate(call.request)
    body = await read_object(call)
    call.check_named(body)
    finalizers = (body.get("spec") or {}).get("finalizers")

    async def mutation(current: Json) -> Json:
        asked = (body.get("metadata") or {}).get("resourceVersion")
        current["metadata"]["resourceVersion"] = asked or current["metadata"]["resourceVersion"]
        spec = current.setdefault("spec", {})
        if finalizers:
            spec["finalizers"] = finalizers
        else:
            spec.pop("finalizers", None)
        _check(call, finalizers or ())
        return current

    result = await update(
        call.core,
        call.resource,
        namespace=call.info.namespace,
        name=call.info.name,
        mutation=mutation,
        options=call.write_options("UpdateOptions"),
        subresource="finalize",
    )
    return await presentation.outcome(call, form, result)


def _check(call: Call, finalizers: Sequence[str]) -> None:
    problems = [
        problem
        for index, finalizer in enumerate(finalizers)
        for problem in validate_namespace_finalizer(finalizer, FieldPath("spec", "finalizers").index(index))
    ]
    if problems:
        raise errors.invalid(call.resource.group_kind, call.info.name, problems)
