"""Services: types, ports and addresses.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/core/v1/defaults.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/service/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/service/storage/storage.go
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.validation.metadata import validate_labels
from kube_fairlead_apiserver.registry.strategies import field_checks, traffic
from kube_fairlead_apiserver.registry.strategy import Strategy

__all__ = ["ServiceStrategy"]

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


class ServiceStrategy(Strategy):
    """Services; admission allocates their addresses."""

    allow_create_on_update: bool = True
    has_status: bool = True
    returns_deleted_object: bool = True
    name_rule: Callable[..., list[str]] = staticmethod(names.name_is_dns1035_label)
    selectable = frozenset({"spec.clusterIP", "spec.type"})

    def default(self, obj: Json) -> None:
        """Type, session affinity, ports and addresses."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        traffic.default_affinity(spec)
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in {None, "", 0}:
                port["targetPort"] = port.get("port")
        if spec["type"] == "ExternalName":
            return
        traffic.default_traffic(spec)
        # Without a selector and a cluster IP, the endpoints may use either IP family.
        both = spec.get("clusterIP") == "None" and not spec.get("selector") and "ipFamilyPolicy" not in spec
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if both else "SingleStack")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if both else ["IPv4"])
        if spec["type"] == "LoadBalancer":
            traffic.default_balancer_status(obj.get("status") or {})

    def prepare_create(self, obj: Json) -> None:
        """A new service has no load balancer status."""
        obj["status"] = {"loadBalancer": {}}

    def prepare_update(self, obj: Json, old: Json) -> None:
        """Keep addresses that an update omits; drop fields that only the former type has."""
        super().prepare_update(obj, old)
        spec, before = obj.setdefault("spec", {}), old.get("spec") or {}
        spec.setdefault("type", "ClusterIP")
        _drop_of_former_type(spec, before)
        if spec["type"] != "LoadBalancer":
            obj["status"] = {**(old.get("status") or {}), "loadBalancer": {}}
        if spec["type"] != "ExternalName" and before.get("type") != "ExternalName":
            for field in ("clusterIP", "clusterIPs"):
                if not spec.get(field) and before.get(field):
                    spec[field] = before[field]

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate ports, type, and the fields of the type."""
        spec = obj.get("spec") or {}
        path = FieldPath("spec")
        problems: list[FieldError] = []
        kind = spec.get("type")
        if kind not in _TYPES:
            problems.append(FieldError.not_supported(path.child("type"), kind, _TYPES))
        ports = spec.get("ports") or []
        if not ports and spec.get("clusterIP") != "None" and kind != "ExternalName":
            problems.append(FieldError.required(path.child("ports"), ""))
        if kind == "ExternalName":
            problems += _validate_external(spec, path)
        elif kind in traffic.WITH_NODE_PORTS and spec.get("clusterIP") == "None":
            text = f"may not be set to 'None' for {kind} services"
            problems.append(FieldError.invalid(path.child("clusterIPs").index(0), "None", text))
        for index, port in enumerate(ports):
            at = path.child("ports").index(index)
            problems += _port(port, at, named=len(ports) > 1)
            if port.get("nodePort") and kind not in traffic.WITH_NODE_PORTS:
                problems.append(FieldError.forbidden(at.child("nodePort"), f"may not be used when `type` is '{kind}'"))
        problems += _validate_unique(ports, path)
        problems += validate_labels(spec.get("selector") or {}, path.child("selector"))
        return problems + traffic.validate_traffic(spec)

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """The cluster IP and the load balancer class are immutable."""
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        problems = traffic.validate_traffic_update(spec, before) + self.validate(obj)
        address = before.get("clusterIP")
        if address and spec.get("clusterIP") != address and spec.get("type") != "ExternalName":
            path = FieldPath("spec").child("clusterIPs").index(0)
            problems.append(FieldError.invalid(path, spec.get("clusterIP"), "field is immutable"))
        return problems

    def validate_status_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Validate the load balancer status."""
        del old
        return traffic.validate_balancer_status(obj.get("spec") or {}, obj.get("status") or {})

    def fields(self, obj: Json) -> dict[str, str]:
        """Address and type."""
        spec = obj.get("spec") or {}
        return {"spec.clusterIP": spec.get("clusterIP") or "", "spec.type": spec.get("type") or ""}


def _drop_of_former_type(spec: Json, before: Json) -> None:
    """Drop node ports after a change of type: clients send back the ports that they read."""

    def drop(*fields: str) -> None:
        for field in fields:
            if spec.get(field) == before.get(field):
                spec.pop(field, None)

    kind, was = spec["type"], before.get("type")
    if was in traffic.WITH_NODE_PORTS and kind not in traffic.WITH_NODE_PORTS:
        held = {port.get("nodePort") for port in before.get("ports") or ()}
        if all(port["nodePort"] in held for port in spec.get("ports") or () if port.get("nodePort")):
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    if was != "ExternalName" and kind == "ExternalName":
        if spec.get("clusterIP") == before.get("clusterIP"):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        drop("ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
    if was == "LoadBalancer" and kind != "LoadBalancer":
        drop("allocateLoadBalancerNodePorts", "loadBalancerClass")
    if traffic.is_reachable(before) and not traffic.is_reachable(spec):
        drop("externalTrafficPolicy")
    if traffic.is_health_checked(before) and not traffic.is_health_checked(spec):
        drop("healthCheckNodePort")


def _validate_external(spec: Json, path: FieldPath) -> list[FieldError]:
    """Validate type ExternalName: an external name, and no cluster IP."""
    given = {**spec, "clusterIPs": spec.get("clusterIPs") or spec.get("clusterIP")}
    problems = [
        FieldError.forbidden(path.child(field), "may not be set for ExternalName services")
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if given.get(field)
    ]
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        return [*problems, FieldError.required(path.child("externalName"), "")]
    return problems + field_checks.complaints(path.child("externalName"), name, names.dns1123_subdomain(name))


def _validate_unique(ports: list[Json], path: FieldPath) -> list[FieldError]:
    problems: list[FieldError] = []
    seen: set[tuple[str, Any, Any]] = set()
    for index, port in enumerate(ports):
        at, protocol = path.child("ports").index(index), port.get("protocol")
        short = {"protocol": protocol, "port": port.get("port")}
        for what, value, duplicate in (
            ("name", port.get("name"), FieldError.duplicate(at.child("name"), port.get("name"))),
            ("nodePort", port.get("nodePort"), _taken(at.child("nodePort"), port.get("nodePort"))),
            ("port", port.get("port"), FieldError.duplicate(at, short)),
        ):
            use = what, value, None if what == "name" else protocol
            if value and use in seen:
                problems.append(duplicate)
            seen.add(use)
    return problems


def _taken(path: FieldPath, number: int | None) -> FieldError:
    return FieldError.invalid(path, number, "provided port is already allocated")


def _port(port: Json, path: FieldPath, *, named: bool) -> list[FieldError]:
    problems: list[FieldError] = []
    if named and not port.get("name"):
        problems.append(FieldError.required(path.child("name"), ""))
    if port.get("name"):
        problems += [FieldError.invalid(path.child("name"), port["name"], m) for m in names.dns1123_label(port["name"])]
    number = port.get("port")
    messages = names.port_number(number) if isinstance(number, int) else [names.range_error(1, 65535)]
    problems += [FieldError.invalid(path.child("port"), number or 0, message) for message in messages]
    target, at = port.get("targetPort"), path.child("targetPort")
    if isinstance(target, str):
        problems += field_checks.complaints(at, target, names.port_name(target))
    else:
        problems += field_checks.complaints(at, target or 0, names.port_number(target or 0))
    if port.get("appProtocol") is not None:
        spoken = port["appProtocol"]
        problems += field_checks.complaints(path.child("appProtocol"), spoken, names.qualified_name(spoken))
    if port.get("protocol") not in {"TCP", "UDP", "SCTP"}:
        problems.append(FieldError.not_supported(path.child("protocol"), port.get("protocol"), ("SCTP", "TCP", "UDP")))
    return problems
