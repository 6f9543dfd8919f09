"""The AdmissionRequest: one write as webhooks and expressions see it.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/webhook/request/admissionreview.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/plugin/cel/condition.go
"""

from __future__ import annotations

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission.interface import Operation
from kube_fairlead_apiserver.admission.version_conversion import convert
from kube_fairlead_apiserver.registry.resource import Resource

__all__ = ["describe", "shown_object", "shown_old_object"]


def describe(operation: Operation, target: Resource) -> Json:
    """Return the request without its uid and objects. ``target`` is the resource as which it was matched."""
    own = operation.resource
    request: Json = {
        "kind": _kind(operation, target),
        "resource": _resource(target),
        "subResource": operation.subresource,
        "requestKind": _kind(operation, own),
        "requestResource": _resource(own),
        "requestSubResource": operation.subresource,
        "name": operation.name,
        "namespace": operation.scope,
        "operation": operation.operation,
        "userInfo": _user(operation),
        "dryRun": operation.dry_run,
        "options": operation.options or None,
    }
    return {key: value for key, value in request.items() if value is not None and value != ""}


def _kind(operation: Operation, resource: Resource) -> Json:
    group, version, kind = operation.kind or (resource.group, resource.version, resource.kind)
    return {"group": group, "version": version, "kind": kind}


def _resource(resource: Resource) -> Json:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _user(operation: Operation) -> Json:
    user = operation.user
    fields = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {key: value for key, value in fields.items() if value}


def shown_object(operation: Operation, target: Resource) -> Json | None:
    """Return the object in the version of ``target``."""
    return _shown(operation, operation.obj, target)


def shown_old_object(operation: Operation, target: Resource) -> Json | None:
    """Return the stored object, in the version of ``target``."""
    return _shown(operation, operation.old, target)


def _shown(operation: Operation, obj: Json | None, target: Resource) -> Json | None:
    if obj is None or operation.kind is not None:
        return obj
    return convert(obj, operation.resource, target)
