"""The variables that admission expressions may use, and their types.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/cel/compile.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/environment/base.go
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from kube_fairlead_apiserver.cel import types
from kube_fairlead_apiserver.cel.environment import Environment
from kube_fairlead_apiserver.cel.library import authorization
from kube_fairlead_apiserver.schema import expression_types, model

__all__ = ["NAMESPACE_FIELDS", "REQUEST_RESOURCE", "environment", "typed_environment", "variables_type"]

REQUEST_RESOURCE = "authorizer.requestResource"

# The fields of a namespace that expressions see.
NAMESPACE_FIELDS = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "finalizers",
)

_STRINGS = types.list_of(types.STRING)
_STRING_MAP = types.map_of(types.STRING, types.STRING)
_TIME = expression_types.from_schema(model.SchemaNode(type="string", format="date-time"))


def _object(name: str, /, **fields: types.CelType) -> types.ObjectType:
    return types.ObjectType(f"kubernetes.{name}", {key: types.Field(key, kind) for key, kind in fields.items()})


_KIND = _object("GroupVersionKind", group=types.STRING, version=types.STRING, kind=types.STRING)
_RESOURCE = _object("GroupVersionResource", group=types.STRING, version=types.STRING, resource=types.STRING)
_USER = _object(
    "UserInfo",
    username=types.STRING,
    uid=types.STRING,
    groups=_STRINGS,
    extra=types.map_of(types.STRING, _STRINGS),
)
_REQUEST = _object(
    "AdmissionRequest",
    kind=_KIND,
    resource=_RESOURCE,
    subResource=types.STRING,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=types.STRING,
    name=types.STRING,
    namespace=types.STRING,
    operation=types.STRING,
    userInfo=_USER,
    dryRun=types.BOOL,
    options=types.DYN,
)
_NAMESPACE = _object(
    "Namespace",
    metadata=_object(
        "NamespaceMetadata",
        name=types.STRING,
        generateName=types.STRING,
        namespace=types.STRING,
        labels=_STRING_MAP,
        annotations=_STRING_MAP,
        UID=types.STRING,
        creationTimestamp=_TIME,
        deletionGracePeriodSeconds=types.INT,
        deletionTimestamp=_TIME,
        generation=types.INT,
        resourceVersion=types.STRING,
        finalizers=_STRINGS,
    ),
    spec=_object("NamespaceSpec", finalizers=_STRINGS),
    status=_object(
        "NamespaceStatus",
        conditions=types.list_of(
            _object(
                "NamespaceCondition",
                status=types.STRING,
                type=types.STRING,
                lastTransitionTime=_TIME,
                message=types.STRING,
                reason=types.STRING,
            )
        ),
        phase=types.STRING,
    ),
)


@functools.lru_cache(maxsize=4)
def environment(*, params: bool, authorizer: bool) -> Environment:
    """Return the environment of expressions; ``variables`` are added as they are compiled."""
    return typed_environment(types.DYN, types.DYN if params else None, authorizer=authorizer)


def typed_environment(obj: types.CelType, params: types.CelType | None, *, authorizer: bool) -> Environment:
    """Return the environment with the known kinds of the object and of the parameter."""
    variables: dict[str, types.CelType] = {
        "object": obj,
        "oldObject": obj,
        "namespaceObject": _NAMESPACE,
        "request": _REQUEST,
    }
    if params is not None:
        variables["params"] = params
    if authorizer:
        variables["authorizer"] = authorization.AUTHORIZER
        variables[REQUEST_RESOURCE] = authorization.RESOURCE_CHECK
    return Environment(variables)


def variables_type(known: Mapping[str, types.CelType]) -> types.ObjectType:
    """Return the type of ``variables``, given those that were compiled so far."""
    return types.ObjectType("kubernetes.variables", {name: types.Field(name, kind) for name, kind in known.items()})
