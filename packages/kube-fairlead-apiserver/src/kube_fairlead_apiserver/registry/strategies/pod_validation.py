"""Validation of a pod's spec: what Kubernetes rejects and clients expect to be rejected.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

import functools
from typing import Final

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.quantity import Quantity, QuantityError
from kube_fairlead_apiserver.registry.strategies.volumes import validate_volume_source
from kube_fairlead_apiserver.schema.defaulting import copy_json

__all__ = ["validate_pod_spec", "validate_pod_spec_update"]


_NOTHING: Final = Quantity(0)
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_pod_spec(spec: Json, path: FieldPath, *, template: bool = False) -> list[FieldError]:
    """The errors of a spec. A template may omit fields that are set when a pod is created."""
    problems: list[FieldError] = []
    containers = spec.get("containers") or []
    if not containers:
        problems.append(FieldError.required(path.child("containers"), ""))
    volumes = _volume_names(spec, path, problems)
    seen: dict[str, None] = {}
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            problems += _container(container, path.item(field, index), seen, volumes)
    problems += _host_ports(spec, path, template=template)
    problems += _choice(path, "restartPolicy", spec, _RESTART_POLICIES)
    problems += _choice(path, "dnsPolicy", spec, _DNS_POLICIES)
    deadline = spec.get("activeDeadlineSeconds")
    if isinstance(deadline, int) and not 1 <= deadline <= 2147483647:
        problems.append(
            FieldError.invalid(path.child("activeDeadlineSeconds"), deadline, names.range_error(1, 2147483647))
        )
    if spec.get("nodeName"):
        problems += [
            FieldError.invalid(path.child("nodeName"), spec["nodeName"], message)
            for message in names.name_is_dns_subdomain(spec["nodeName"])
        ]
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        problems += _toleration(toleration, path.item("tolerations", index))
    return problems


def _choice(path: FieldPath, field: str, holder: Json, allowed: tuple[str, ...]) -> list[FieldError]:
    value = holder.get(field)
    if value is None or value in allowed:
        return []
    return [FieldError.not_supported(path.child(field), value, allowed)]


def _volume_names(spec: Json, path: FieldPath, problems: list[FieldError]) -> set[str]:
    known: dict[str, None] = {}
    for index, volume in enumerate(spec.get("volumes") or ()):
        at = path.item("volumes", index)
        name = volume.get("name") or ""
        if not name:
            problems.append(FieldError.required(at.child("name"), ""))
            continue
        problems += [FieldError.invalid(at.child("name"), name, message) for message in names.dns1123_label(name)]
        problems += validate_volume_source(volume, at)
        if name in known:
            problems.append(FieldError.duplicate(at.child("name"), name))
        known[name] = None
    return set(known)


def _container(container: Json, path: FieldPath, seen: dict[str, None], volumes: set[str]) -> list[FieldError]:
    problems: list[FieldError] = []
    name = container.get("name") or ""
    if not name:
        problems.append(FieldError.required(path.child("name"), ""))
    else:
        problems += [FieldError.invalid(path.child("name"), name, message) for message in names.dns1123_label(name)]
        if name in seen:
            problems.append(FieldError.duplicate(path.child("name"), name))
        seen[name] = None
    if not container.get("image"):
        problems.append(FieldError.required(path.child("image"), ""))
    problems += _choice(path, "imagePullPolicy", container, _PULL_POLICIES)
    for index, port in enumerate(container.get("ports") or ()):
        problems += _port(port, path.item("ports", index))
    problems += _resources(container.get("resources") or {}, path)
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            problems.append(FieldError.required(path.item("env", index).child("name"), ""))
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        at = path.item("volumeMounts", index)
        if not mount.get("name"):
            problems.append(FieldError.required(at.child("name"), ""))
        elif mount["name"] not in volumes:
            problems.append(FieldError.not_found(at.child("name"), mount["name"]))
        if not mount.get("mountPath"):
            problems.append(FieldError.required(at.child("mountPath"), ""))
    return problems


def _port(port: Json, path: FieldPath) -> list[FieldError]:
    problems: list[FieldError] = []
    number = port.get("containerPort")
    if number is None:
        problems.append(FieldError.required(path.child("containerPort"), ""))
    else:
        problems += [
            FieldError.invalid(path.child("containerPort"), number, message) for message in names.port_number(number)
        ]
    if port.get("name"):
        problems += [
            FieldError.invalid(path.child("name"), port["name"], message) for message in names.port_name(port["name"])
        ]
    return problems + _choice(path, "protocol", port, _PROTOCOLS)


def _host_ports(spec: Json, path: FieldPath, *, template: bool) -> list[FieldError]:
    """Validate host ports: no duplicates; with the host's network they equal the container ports."""
    problems: list[FieldError] = []
    taken: set[str] = set()
    for number, container in enumerate(spec.get("containers") or ()):
        for index, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if not host and (template or not spec.get("hostNetwork")):
                continue
            at = path.item("containers", number).item("ports", index).child("hostPort")
            problems += [FieldError.invalid(at, host, message) for message in names.port_number(host) if host]
            use = f"{port.get('protocol')}/{port.get('hostIP') or ''}/{host}"
            if host and use in taken:
                problems.append(FieldError.duplicate(at, use))
            taken.add(use)
            if spec.get("hostNetwork") and host != port.get("containerPort"):
                text = "must match `containerPort` when `hostNetwork` is true"
                problems.append(FieldError.invalid(at, host, text))
    return problems


def _resources(resources: Json, path: FieldPath) -> list[FieldError]:
    """Resources are not negative, and requests do not exceed limits."""
    problems: list[FieldError] = []
    limits = resources.get("limits") or {}
    for field in ("limits", "requests"):
        for name, value in (resources.get(field) or {}).items():
            limit = limits.get(name)
            if limit == value and str(value)[:1] != "-":
                continue  # as in most pods: requests are made from limits, or there is neither
            amount, most = _quantity(str(value)), None if limit is None else _quantity(str(limit))
            if amount is not None and amount < _NOTHING:
                at = path.child("resources", field).key(name)
                problems.append(FieldError.invalid(at, str(amount), "must be greater than or equal to 0"))
            elif amount is not None and most is not None and amount > most:
                text = f"must be less than or equal to {name} limit of {most}"
                problems.append(FieldError.invalid(path.child("resources", field), str(amount), text))
    return problems


@functools.lru_cache(maxsize=1024)
def _quantity(text: str) -> Quantity | None:
    """Return a quantity, cached because pods use few different ones; None for an invalid one."""
    try:
        return Quantity.parse(text)
    except QuantityError:
        return None


def _toleration(toleration: Json, path: FieldPath) -> list[FieldError]:
    problems: list[FieldError] = []
    operator = toleration.get("operator") or "Equal"
    if toleration.get("key"):
        problems += [
            FieldError.invalid(path.child("key"), toleration["key"], message)
            for message in names.qualified_name(toleration["key"])
        ]
    elif operator != "Exists":
        problems.append(
            FieldError.invalid(
                path.child("operator"),
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        )
    effect = toleration.get("effect") or ""
    if effect:
        problems += _choice(path, "effect", toleration, _EFFECTS)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        problems.append(
            FieldError.invalid(
                path.child("effect"), effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"
            )
        )
    return problems


def validate_pod_spec_update(spec: Json, old: Json) -> list[FieldError]:
    """A pod's spec is immutable, except the fields that Kubernetes allows to change."""
    if spec == old:
        return []
    path = FieldPath("spec")
    problems = _tolerations_kept(spec, old, path)
    allowed = copy_json(spec)
    for field in ("containers", "initContainers"):
        new_list, old_list = allowed.get(field) or [], old.get(field) or []
        if len(new_list) != len(old_list):
            problems.append(FieldError.forbidden(path.child(field), "pod updates may not add or remove containers"))
            return problems
        for container, before in zip(new_list, old_list, strict=True):
            container["image"] = before.get("image")
    for field in ("activeDeadlineSeconds", "tolerations"):
        _put_back(allowed, old, field)
    if spec.get("terminationGracePeriodSeconds") == 1 and (old.get("terminationGracePeriodSeconds") or 0) < 0:
        _put_back(allowed, old, "terminationGracePeriodSeconds")
    if old.get("schedulingGates"):
        # A pod with scheduling gates may lose gates and get a narrower node selector.
        for field in ("schedulingGates", "nodeSelector", "affinity"):
            _put_back(allowed, old, field)
    if allowed != old:
        problems.append(FieldError.forbidden(path, _IMMUTABLE))
    return problems


def _tolerations_kept(spec: Json, old: Json, path: FieldPath) -> list[FieldError]:
    now, before = ({frozenset(one.items()) for one in holder.get("tolerations") or ()} for holder in (spec, old))
    if before <= now:
        return []
    return [
        FieldError.forbidden(
            path.child("tolerations"), "existing toleration can not be modified except its tolerationSeconds"
        )
    ]


def _put_back(spec: Json, old: Json, field: str) -> None:
    if field in old:
        spec[field] = old[field]
    else:
        spec.pop(field, None)
