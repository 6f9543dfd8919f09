"""Services: types, ports and addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fairlead.api import names
from fairlead.api.fielderrors import FieldError, FieldPath
from fairlead.api.validation.metadata import validate_labels
from fairlead.apiserver.registry.strategies import checks
from fairlead.apiserver.registry.strategies.addresses import validate_address, validate_endpoint_address
from fairlead.apiserver.registry.strategy import Json, Strategy

__all__ = ["ServiceStrategy"]

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_WITH_NODE_PORTS = frozenset({"LoadBalancer", "NodePort"})
_AFFINITY_SECONDS: Final = 10_800
_MAX_AFFINITY_SECONDS: Final = 86_400


class ServiceStrategy(Strategy):
    """Services; their addresses are given by admission, which knows which are free."""

    allow_create_on_update: bool = True
    has_status: bool = True
    returns_deleted_object: bool = True
    name_rule: Callable[..., list[str]] = staticmethod(names.name_is_dns1035_label)
    selectable = frozenset({"spec.clusterIP", "spec.type"})

    def default(self, obj: Json) -> None:
        """Type, session affinity, ports and addresses."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        _default_affinity(spec)
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in {None, "", 0}:
                port["targetPort"] = port.get("port")
        if spec["type"] == "ExternalName":
            return
        spec.setdefault("internalTrafficPolicy", "Cluster")
        # Where nobody is selected and nothing allotted, whoever makes the endpoints may use either family.
        both = spec.get("clusterIP") == "None" and not spec.get("selector") and "ipFamilyPolicy" not in spec
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if both else "SingleStack")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if both else ["IPv4"])
        if spec["type"] in _WITH_NODE_PORTS or (spec["type"] == "ClusterIP" and spec.get("externalIPs")):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)

    def prepare_create(self, obj: Json) -> None:
        """No load balancer yet."""
        obj["status"] = {"loadBalancer": {}}

    def prepare_update(self, obj: Json, old: Json) -> None:
        """An update that leaves the addresses out keeps them; what only the former type had goes with it."""
        super().prepare_update(obj, old)
        spec, before = obj.setdefault("spec", {}), old.get("spec") or {}
        _drop_of_former_type(spec, before)
        if spec.get("type", "ClusterIP") != "ExternalName" and before.get("type") != "ExternalName":
            for field in ("clusterIP", "clusterIPs"):
                if not spec.get(field) and before.get(field):
                    spec[field] = before[field]

    def validate(self, obj: Json) -> list[FieldError]:
        """Ports, type, and what goes with the type."""
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
        elif kind in _WITH_NODE_PORTS and spec.get("clusterIP") == "None":
            text = f"may not be set to 'None' for {kind} services"
            problems.append(FieldError.invalid(path.child("clusterIPs").index(0), "None", text))
        for index, port in enumerate(ports):
            at = path.child("ports").index(index)
            problems += _port(port, at, named=len(ports) > 1)
            if port.get("nodePort") and kind not in _WITH_NODE_PORTS:
                problems.append(FieldError.forbidden(at.child("nodePort"), f"may not be used when `type` is '{kind}'"))
        problems += _validate_unique(ports, path)
        problems += validate_labels(spec.get("selector") or {}, path.child("selector"))
        return problems + _validate_traffic(spec, path)

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """A cluster address is given once."""
        problems = self.validate(obj)
        before, now = (old.get("spec") or {}).get("clusterIP"), (obj.get("spec") or {}).get("clusterIP")
        if before and now != before and (obj.get("spec") or {}).get("type") != "ExternalName":
            problems.append(
                FieldError.invalid(FieldPath("spec").child("clusterIPs").index(0), now, "field is immutable")
            )
        return problems

    def fields(self, obj: Json) -> dict[str, str]:
        """Address and type."""
        spec = obj.get("spec") or {}
        return {"spec.clusterIP": spec.get("clusterIP") or "", "spec.type": spec.get("type") or ""}


def _drop_of_former_type(spec: Json, before: Json) -> None:
    """Clients send back what they read: node ports of a service that has none any more are no request for them."""
    had, has = before.get("type") in _WITH_NODE_PORTS, spec.get("type") in _WITH_NODE_PORTS
    ports, former = spec.get("ports") or [], before.get("ports") or []
    if had and not has:
        if [port.get("nodePort") for port in ports] == [port.get("nodePort") for port in former]:
            for port in ports:
                port.pop("nodePort", None)
        if spec.get("externalTrafficPolicy") == before.get("externalTrafficPolicy"):
            spec.pop("externalTrafficPolicy", None)
    if before.get("type") != "ExternalName" and spec.get("type") == "ExternalName":
        if spec.get("clusterIP") == before.get("clusterIP"):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        for field in ("ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    for field in ("allocateLoadBalancerNodePorts", "healthCheckNodePort", "loadBalancerClass"):
        if spec.get("type") != "LoadBalancer" and spec.get(field) == before.get(field):
            spec.pop(field, None)


def _default_affinity(spec: Json) -> None:
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        given = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds")
        if given is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}


def _validate_external(spec: Json, path: FieldPath) -> list[FieldError]:
    """A service elsewhere has a name there, and no address here."""
    given = {**spec, "clusterIPs": spec.get("clusterIPs") or spec.get("clusterIP")}
    problems = [
        FieldError.forbidden(path.child(field), "may not be set for ExternalName services")
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if given.get(field)
    ]
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        return [*problems, FieldError.required(path.child("externalName"), "")]
    return problems + checks.complaints(path.child("externalName"), name, names.dns1123_subdomain(name))


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


def _validate_traffic(spec: Json, path: FieldPath) -> list[FieldError]:
    """Which endpoint a client reaches, and whether it stays the same one."""
    problems = checks.one_of(spec, path, "sessionAffinity", ("ClientIP", "None"))
    seconds = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds")
    if seconds is not None and not 0 < seconds <= _MAX_AFFINITY_SECONDS:
        at = path.child("sessionAffinityConfig", "clientIP", "timeoutSeconds")
        text = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
        problems.append(FieldError.invalid(at, seconds, text))
    for index, address in enumerate(spec.get("externalIPs") or ()):
        at = path.item("externalIPs", index)
        problems += validate_address(address, at) or validate_endpoint_address(address, at)
    reachable = spec.get("type") in _WITH_NODE_PORTS or (spec.get("type") == "ClusterIP" and spec.get("externalIPs"))
    if reachable:
        problems += checks.one_of(spec, path, "externalTrafficPolicy", ("Cluster", "Local"))
    elif spec.get("externalTrafficPolicy"):
        text = "may only be set for externally-accessible services"
        problems.append(FieldError.invalid(path.child("externalTrafficPolicy"), spec["externalTrafficPolicy"], text))
    return problems + checks.one_of(spec, path, "internalTrafficPolicy", ("Cluster", "Local"))


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
        problems += checks.complaints(at, target, names.port_name(target))
    else:
        problems += checks.complaints(at, target or 0, names.port_number(target or 0))
    if port.get("protocol") not in {"TCP", "UDP", "SCTP"}:
        problems.append(FieldError.not_supported(path.child("protocol"), port.get("protocol"), ("SCTP", "TCP", "UDP")))
    return problems
