"""CRD manifests of the lifecycle kinds, made from their types.

The types give the fields, `crdrules` and `recordrules` their descriptions, bounds and CEL rules. The embedded API
server serves the same schema for its built-in lifecycle kinds. `hack/crds/generate.py` writes the manifests to
deploy/crds/.
"""

from __future__ import annotations

import datetime as dt
import types
import typing
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kube_fairlead.api import crdrules, recordrules, reserved
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleTransition, NodeLifecycleRecord
from kube_fairlead.api.meta import KubeObject
from kube_fairlead.api.parts import Part
from kube_fairlead.api.yamltext import emitter

__all__ = ["crd", "crds", "manifests", "openapi_schema"]

_ROOT: Final = {
    "apiVersion": {
        "type": "string",
        "description": "The version of the schema that this object follows, such as lifecycle.k8s.io/v1alpha1.",
    },
    "kind": {"type": "string", "description": "What this object is."},
    "metadata": {"type": "object"},
}


class _Resource(msgspec.Struct, frozen=True):
    cls: type[KubeObject]
    plural: str
    short_name: str
    fields: Mapping[str, crdrules.Field]
    columns: tuple[tuple[str, str, str, int], ...]  # name, type, path, priority
    selectable: tuple[str, ...] = ()
    has_status: bool = False


_AGE: Final = ("Age", "date", ".metadata.creationTimestamp", 0)
_RESOURCES: Final = (
    _Resource(
        cls=LifecycleTransition,
        plural="lifecycletransitions",
        short_name="lt",
        fields=crdrules.TRANSITION_FIELDS,
        columns=(
            ("Start", "string", ".spec.start", 0),
            ("End", "string", ".spec.end", 0),
            ("Driver", "string", ".spec.driver", 0),
            ("SLA", "string", ".spec.sla", 0),
            ("Node", "string", ".spec.nodeName", 1),
            _AGE,
        ),
    ),
    _Resource(
        cls=LifecycleEvent,
        plural="lifecycleevents",
        short_name="le",
        fields=crdrules.EVENT_FIELDS,
        columns=(
            ("Transition", "string", ".spec.transitionName", 0),
            ("Node", "string", ".spec.bindingNode", 0),
            ("Status", "string", ".status.claimStatus", 0),
            ("Driver", "string", ".status.driver", 1),
            # A string, because kubectl shows a date in the future as invalid.
            ("Deadline", "string", ".status.sla", 1),
            ("Message", "string", ".status.message", 1),
            _AGE,
        ),
        selectable=(".spec.bindingNode",),
        has_status=True,
    ),
    _Resource(
        cls=NodeLifecycleRecord,
        plural="nodelifecyclerecords",
        short_name="nlr",
        fields=recordrules.RECORD_FIELDS,
        columns=(
            # The newest entry is the first.
            ("Last", "string", ".entries[0].transitionName", 0),
            ("Result", "string", ".entries[0].result", 0),
            ("Completed", "date", ".entries[0].completionTime", 0),
            ("Requested-By", "string", ".entries[0].requestedBy.name", 0),
            ("Message", "string", ".entries[0].message", 1),
            _AGE,
        ),
    ),
)


def crds(group: str = reserved.LIFECYCLE_GROUP) -> list[dict[str, Any]]:
    """All CustomResourceDefinitions, for the group they are to live in."""
    return [_definition(resource, group) for resource in _RESOURCES]


def crd(kind: type[KubeObject], group: str = reserved.LIFECYCLE_GROUP) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind."""
    return _definition(_resource(kind), group)


def openapi_schema(kind: type[KubeObject]) -> dict[str, Any]:
    """The structural schema of one kind, CEL rules and all."""
    resource = _resource(kind)
    return _object(resource.cls, "", resource.fields)


def manifests(group: str = reserved.LIFECYCLE_GROUP) -> dict[str, str]:
    """The text of each manifest file, by its path below deploy/crds/."""
    header = "# Made from the types in kube_fairlead.api by hack/crds/generate.py; change those instead.\n"
    return {
        f"{group}/{resource.plural}.yaml": header + emitter.write(_definition(resource, group), width=110)
        for resource in _RESOURCES
    }


def _resource(kind: type[KubeObject]) -> _Resource:
    return next(resource for resource in _RESOURCES if resource.cls is kind)


def _definition(resource: _Resource, group: str) -> dict[str, Any]:
    kind = resource.cls.__name__
    metadata: dict[str, Any] = {"name": f"{resource.plural}.{group}"}
    if group.endswith((".k8s.io", ".kubernetes.io")):
        metadata["annotations"] = {reserved.ANNOTATION_API_APPROVED: reserved.API_UNAPPROVED}
    version: dict[str, Any] = {
        "name": reserved.LIFECYCLE_VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": openapi_schema(resource.cls)},
        "additionalPrinterColumns": [_column(*column) for column in resource.columns],
    }
    if resource.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in resource.selectable]
    if resource.has_status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": group,
            "names": {
                "plural": resource.plural,
                "singular": kind.lower(),
                "kind": kind,
                "listKind": f"{kind}List",
                "shortNames": [resource.short_name],
            },
            "scope": "Cluster",
            "versions": [version],
        },
    }


def _column(name: str, type_: str, path: str, priority: int) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": type_, "jsonPath": path}
    return column | {"priority": priority} if priority else column


_SCALARS: Final[Mapping[Any, dict[str, Any]]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    dt.datetime: {"type": "string", "format": "date-time"},
}


def _object(cls: type[Part], path: str, fields: Mapping[str, crdrules.Field]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for info in msgspec.structs.fields(cls):
        if not path and info.encode_name in _ROOT:
            properties[info.encode_name] = _ROOT[info.encode_name]
            continue
        below = f"{path}.{info.encode_name}" if path else info.encode_name
        properties[info.encode_name] = _schema(info.type, below, fields)
        if fields[below].required:
            required.append(info.encode_name)
    schema: dict[str, Any] = {"type": "object"}
    if required:
        schema["required"] = required
    schema["properties"] = properties
    return _described(schema, fields.get(path))


def _schema(hint: Any, path: str, fields: Mapping[str, crdrules.Field]) -> dict[str, Any]:
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:
        (hint,) = (arm for arm in typing.get_args(hint) if arm is not types.NoneType)
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        return _described({"type": "array", "items": _schema(item, f"{path}[]", fields)}, fields.get(path))
    if typing.get_origin(hint) is dict:
        value = typing.get_args(hint)[1]
        entries = {"type": "object", "additionalProperties": _schema(value, f"{path}{{}}", fields)}
        return _described(entries, fields.get(path))
    if isinstance(hint, type) and issubclass(hint, Part):
        return _object(hint, path, fields)
    return _described(dict(_SCALARS[hint]), fields.get(path))


def _described(schema: dict[str, Any], field: crdrules.Field | None) -> dict[str, Any]:
    if field is None:  # the items of a list or map may speak for themselves
        return schema
    described = {"description": field.description} if field.description else {}
    out = {**described, **schema, **field.keywords}
    if field.rules:
        out["x-kubernetes-validations"] = [rule.to_dict() for rule in field.rules]
    return out
