"""Admission of an object that is posted to a subresource: it has its own kind and concerns another object.

Upstream: k8s.io/apiserver@v0.36.4/pkg/endpoints/handlers/create.go
"""

from __future__ import annotations

from kube_fairlead.api.gvk import GroupVersionKind
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission.interface import Operation
from kube_fairlead_apiserver.operations.core import WriteOptions
from kube_fairlead_apiserver.verbs.call import Call

__all__ = ["admit_posted"]


async def admit_posted(call: Call, kind: GroupVersionKind, obj: Json, options: WriteOptions) -> None:
    """Run all admission plugins; raises when one rejects the object."""
    operation = Operation(
        operation="CREATE",
        resource=call.resource,
        user=call.user,
        namespace=call.info.namespace,
        name=call.info.name,
        obj=obj,
        old=None,
        subresource=call.info.subresource,
        options=options.wire,
        dry_run=options.dry_run,
        warnings=options.warnings,
        kind=(kind.group, kind.version, kind.kind),
        audit_annotations=options.audit_annotations,
    )
    await call.core.admission.admit(operation)
    await call.core.admission.validate(operation)
