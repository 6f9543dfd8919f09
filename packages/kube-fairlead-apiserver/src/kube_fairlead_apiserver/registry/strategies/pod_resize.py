"""pods/resize: changes the resources of containers and nothing else.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/core/pod/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/pod/storage/storage.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.quantity import Quantity, QuantityError

__all__ = ["resize", "validate_resize"]

_SPEC: Final = FieldPath("spec")
_KINDS: Final = ("containers", "initContainers")
_LISTS: Final = ("requests", "limits")
_RESIZABLE: Final = frozenset({"cpu", "memory"})
_STATIC: Final = "kubernetes.io/config.mirror"
_ONLY: Final = "only cpu and memory resources are mutable"


def resize(spec: Json, asked: Json) -> None:
    """Copy the requested resources of the pod and of containers that match in order and name.

    Other containers are copied whole, and validation rejects them.
    """
    same = {kind: len(asked.get(kind) or ()) == len(spec.get(kind) or ()) for kind in _KINDS}
    _take(spec, asked, "resources")
    for kind in _KINDS:
        there, wanted = spec.get(kind) or [], asked.get(kind) or []
        if not all(same.values()) or [one.get("name") for one in there] != [one.get("name") for one in wanted]:
            _take(spec, asked, kind)
            continue
        for container, new in zip(there, wanted, strict=True):
            _take(container, new, "resources")
            _take(container, new, "resizePolicy")


def _take(target: Json, source: Json, field: str) -> None:
    if source.get(field):
        target[field] = source[field]
    else:
        target.pop(field, None)


def validate_resize(obj: Json, old: Json, quality: str, was_quality: str) -> list[FieldError]:
    """The errors of new resources. ``quality``: the resulting QoS class."""
    spec, was = obj["spec"], old["spec"]
    if _STATIC in (old["metadata"].get("annotations") or {}):
        return [FieldError.forbidden(FieldPath(""), "static pods cannot be resized")]
    if (was.get("os") or {}).get("name") == "windows":
        return [FieldError.forbidden(FieldPath(""), "windows pods cannot be resized")]
    problems: list[FieldError] = []
    if quality != was_quality:
        value = (obj.get("status") or {}).get("qosClass") or ""
        problems.append(FieldError.invalid(_SPEC, value, "Pod QOS Class may not change as a result of resizing"))
    if not _node_resizes(old):
        problems.append(FieldError.forbidden(_SPEC, "Pod running on node without support for resize"))
    if (old.get("status") or {}).get("nodeAllocatableResourceClaimStatuses"):
        text = "pods with node allocatable resource claims cannot be resized"
        problems.append(FieldError.forbidden(_SPEC, text))
    problems += _validate_pod_level(spec.get("resources"), was.get("resources"))
    others = list(_other_containers(spec, was))
    return problems + (others or list(_validate_containers(spec, was)))


def _node_resizes(old: Json) -> bool:
    """Return whether the node reports resources of running containers; true without running containers."""
    for status in (old.get("status") or {}).get("containerStatuses") or ():
        if (status.get("state") or {}).get("running") is not None:
            return status.get("resources") is not None
    return True


def _validate_pod_level(resources: Json | None, was: Json | None) -> list[FieldError]:
    if not _names_any(resources) and not _names_any(was):
        return []
    at = _SPEC.child("resources")
    if was is not None and resources is None:
        return [FieldError.forbidden(at, "pod-level resources cannot be removed")]
    problems = [
        FieldError.forbidden(at.child(kind), f"pod-level resource {kind} cannot be removed")
        for kind in _LISTS
        if set((was or {}).get(kind) or ()) - set((resources or {}).get(kind) or ())
    ]
    if _unresizable(resources) != _unresizable(was):
        problems.append(FieldError.forbidden(_SPEC, f"{_ONLY} at pod-level"))
    return problems


def _names_any(resources: Json | None) -> bool:
    return any((resources or {}).get(kind) for kind in _LISTS)


def _other_containers(spec: Json, was: Json) -> Iterator[FieldError]:
    for kind in _KINDS:
        there, known = spec.get(kind) or [], was.get(kind) or []
        if len(there) != len(known):
            yield FieldError.forbidden(_SPEC.child(kind), f"{kind} may not be added or removed on resize")
            continue
        for index, (one, other) in enumerate(zip(there, known, strict=True)):
            if one.get("name") != other.get("name"):
                text = f"{kind} may not be renamed or reordered on resize"
                yield FieldError.forbidden(_SPEC.item(kind, index).child("name"), text)


def _validate_containers(spec: Json, was: Json) -> Iterator[FieldError]:
    for kind in reversed(_KINDS):
        for index, (one, other) in enumerate(zip(spec.get(kind) or (), was.get(kind) or (), strict=True)):
            at = _SPEC.item(kind, index).child("resources")
            for amounts in _LISTS:
                if set(_amounts(other, amounts)) - set(_amounts(one, amounts)):
                    yield FieldError.forbidden(at.child(amounts), f"resource {amounts} cannot be removed")
    for one, other in zip(spec.get("containers") or (), was.get("containers") or (), strict=True):
        if _fixed(one) != _fixed(other):
            yield FieldError.forbidden(_SPEC, _ONLY)
    for index, (one, other) in enumerate(
        zip(spec.get("initContainers") or (), was.get("initContainers") or (), strict=True)
    ):
        yield from _validate_init(one, other, _SPEC.item("initContainers", index))


def _validate_init(one: Json, other: Json, at: FieldPath) -> Iterator[FieldError]:
    if _fixed(one) != _fixed(other):
        yield FieldError.forbidden(at, "only cpu and memory resources for init or sidecar containers are mutable")
    changed = {kind: _read(_amounts(one, kind)) for kind in _LISTS} != {
        kind: _read(_amounts(other, kind)) for kind in _LISTS
    }
    if (changed or _fixed(one) != _fixed(other)) and one.get("restartPolicy") != "Always":
        for policy in one.get("resizePolicy") or ():
            if policy.get("restartPolicy") == "RestartContainer":
                text = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
                yield FieldError.forbidden(at, text)


def _amounts(container: Json, kind: str) -> Json:
    return (container.get("resources") or {}).get(kind) or {}


def _read(amounts: Json) -> dict[str, object]:
    """Quantities as numbers: 1 and 1000m are equal."""
    return {name: _worth(amount) for name, amount in amounts.items()}


def _worth(amount: object) -> object:
    try:
        return Quantity.parse(str(amount))
    except QuantityError:
        return amount


def _unresizable(resources: Json | None) -> Json:
    """Return the immutable part of resources."""
    kept = {key: value for key, value in (resources or {}).items() if key not in _LISTS and value}
    for kind in _LISTS:
        rest = {name: amount for name, amount in ((resources or {}).get(kind) or {}).items() if name not in _RESIZABLE}
        if rest:
            kept[kind] = _read(rest)
    return kept


def _fixed(container: Json) -> Json:
    """Return the immutable part of a container."""
    rest = {key: value for key, value in container.items() if key != "resources"}
    return {**rest, "resources": _unresizable(container.get("resources"))}
