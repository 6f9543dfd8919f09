"""Every field of every typed kind against Go's own types, as `apiserver.types` has them from the Kubernetes modules."""

from __future__ import annotations

import datetime as dt
import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kube_fairlead.api import authentication_v1, core_v1, meta, parts, policy_v1, scheme, wire
from kube_fairlead_apiserver.types import fields as go
from kube_fairlead_apiserver.types.builtin_data import builtin_data

_META = "apimachinery.pkg.apis.meta.v1."
_GO_NAMES = {"DeploymentCondition", "ReplicaSetCondition", "StatefulSetCondition", "DaemonSetCondition"}


def _go_fields(name: str) -> dict[str, go.Field]:
    found: dict[str, go.Field] = {}
    for field in go.describe(name).fields or ():
        if field.embedded:
            found |= _go_fields(field.type.name)
        else:
            found[field.name] = field
    return found


def _arms(hint: Any) -> tuple[tuple[Any, ...], bool]:
    """The alternatives of a type without None, and whether None was among them."""
    if hint != parts.MicroTime and typing.get_origin(hint) in {typing.Union, types.UnionType}:
        arms = typing.get_args(hint)
        return tuple(arm for arm in arms if arm is not types.NoneType), types.NoneType in arms
    return (hint,), False


_LEAVES: dict[str, set[Any]] = {
    f"{_META}Time": {dt.datetime},
    f"{_META}MicroTime": {parts.MicroTime},
    "apimachinery.pkg.util.intstr.IntOrString": {int, str},
    "apimachinery.pkg.api.resource.Quantity": {str, int, float},
}
_SCALARS = {"bool": bool, "bytes": str, "float64": float, "int32": int, "int64": int, "string": str}


def _mismatches(hint: Any, reference: go.TypeRef, path: str) -> Iterator[str]:
    arms, _ = _arms(hint)
    if Any in arms:
        return
    match reference.form:
        case "scalar":
            if set(arms) != {_SCALARS[reference.name]}:
                yield f"{path}: {hint} for {reference.name}"
        case "list" | "wrapped":
            if typing.get_origin(arms[0]) is not tuple or reference.item is None:
                yield f"{path}: {hint} for a list"
            else:
                yield from _mismatches(typing.get_args(arms[0])[0], reference.item, f"{path}[]")
        case "map":
            if typing.get_origin(arms[0]) is not dict or reference.item is None:
                yield f"{path}: {hint} for a map"
            else:
                yield from _mismatches(typing.get_args(arms[0])[1], reference.item, f"{path}{{}}")
        case "message":
            if reference.name in _LEAVES:
                if set(arms) != _LEAVES[reference.name]:
                    yield f"{path}: {hint} for {reference.name}"
            elif isinstance(arms[0], type) and issubclass(arms[0], parts.Part):
                yield from _struct_mismatches(arms[0], reference.name, path)
            else:
                described = go.describe(reference.name)
                if described.fields is not None:
                    yield f"{path}: {hint} for {reference.name}"


def _struct_mismatches(cls: type[parts.Part], go_name: str, path: str) -> Iterator[str]:
    known = _go_fields(go_name)
    for info in msgspec.structs.fields(cls):
        here = f"{path}.{info.encode_name}"
        field = known.get(info.encode_name)
        if field is None:
            # Only Deployments have the field; one class serves the conditions of all four kinds.
            if (go_name.rpartition(".")[2], info.name) not in {(name, "last_update_time") for name in _GO_NAMES}:
                yield f"{here}: not in {go_name}"
            continue
        _, optional = _arms(info.type)
        if (
            not (field.omit_empty or field.type.pointer)
            and field.type.name in {"bool", "int32", "int64"}
            and info.default is not msgspec.NODEFAULT
        ):
            yield f"{here}: Go writes a zero"
        if field.type.pointer and not optional and info.type is not Any:
            yield f"{here}: a pointer in Go, so None must be told from zero"
        yield from _mismatches(info.type, field.type, here)


KINDS = [kind for kind in scheme.Scheme() if "lifecycle" not in kind.gvk.group]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.gvk.kind)
def test_fields_are_spelled_and_typed_as_in_go(kind: scheme.Kind) -> None:
    package = next(
        name
        for name, data in builtin_data().packages.items()
        if (data.group, data.version) == (kind.gvk.group, kind.gvk.version) and kind.gvk.kind in data.types
    )
    assert list(_struct_mismatches(kind.cls, f"{package}.{kind.gvk.kind}", kind.gvk.kind)) == []


@pytest.mark.parametrize(
    ("cls", "go_name"),
    [
        (policy_v1.Eviction, "api.policy.v1.Eviction"),
        (authentication_v1.TokenRequest, "api.authentication.v1.TokenRequest"),
        (meta.DeleteOptions, f"{_META}DeleteOptions"),
        (meta.Status, f"{_META}Status"),
        (meta.LabelSelector, f"{_META}LabelSelector"),
        (meta.ManagedFieldsEntry, f"{_META}ManagedFieldsEntry"),
    ],
)
def test_so_are_those_without_a_resource(cls: type[parts.Part], go_name: str) -> None:
    assert list(_struct_mismatches(cls, go_name, cls.__name__)) == []


@pytest.mark.parametrize("patch_type", list(meta.PatchType))
def test_patch_types_are_content_types(patch_type: meta.PatchType) -> None:
    assert meta.PatchType.of(f"{patch_type.upper()}; charset=utf-8") is patch_type
    assert meta.PatchType.of("application/json") is None


def test_what_objects_say_of_themselves() -> None:
    owner = meta.OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="r", uid="u", controller=True)
    pod = core_v1.Pod(
        metadata=meta.ObjectMeta(
            name="a",
            namespace="n",
            uid="x",
            owner_references=(meta.OwnerReference(uid="o"), owner),
            deletion_timestamp=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        ),
        status=core_v1.PodStatus(phase="Failed", conditions=(core_v1.PodCondition(type="Ready", status="True"),)),
    )
    assert (pod.name, pod.namespace, pod.uid, pod.key) == ("a", "n", "x", "n/a")
    assert pod.deleting
    assert pod.finished
    assert pod.metadata.controller is owner
    ready = pod.condition("Ready")
    assert ready is not None
    assert ready.status == meta.ConditionStatus.TRUE
    assert pod.condition("Other") is None
    assert str(pod.group_version_kind) == "/v1, Kind=Pod"
    node = core_v1.Node(metadata=meta.ObjectMeta(name="a"))
    assert (node.key, node.deleting, node.metadata.controller) == ("a", False, None)
    assert node.condition("Ready") is None
    assert wire.decode(core_v1.Pod, wire.encode(pod)) == pod
