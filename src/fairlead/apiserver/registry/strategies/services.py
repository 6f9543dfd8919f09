"""Services and what follows from them: addresses, ports, endpoints."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.api import names
from fairlead.api.fielderrors import FieldError, FieldPath
from fairlead.apiserver.registry.strategy import Json, Strategy

__all__ = ["EndpointSliceStrategy", "EndpointsStrategy", "ServiceStrategy"]

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_WITH_NODE_PORTS = frozenset({"LoadBalancer", "NodePort"})


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
        spec.setdefault("sessionAffinity", "None")
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in {None, "", 0}:
                port["targetPort"] = port.get("port")
        if spec["type"] == "ExternalName":
            return
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        spec.setdefault("ipFamilies", ["IPv4"])
        if spec["type"] in {"NodePort", "LoadBalancer"}:
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
        if kind == "ExternalName" and not spec.get("externalName"):
            problems.append(FieldError.required(path.child("externalName"), ""))
        for index, port in enumerate(ports):
            at = path.child("ports").index(index)
            problems += _port(port, at, named=len(ports) > 1)
            if port.get("nodePort") and kind not in _WITH_NODE_PORTS:
                problems.append(FieldError.forbidden(at.child("nodePort"), f"may not be used when `type` is '{kind}'"))
        return problems

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
    for field in ("allocateLoadBalancerNodePorts", "healthCheckNodePort"):
        if spec.get("type") != "LoadBalancer" and spec.get(field) == before.get(field):
            spec.pop(field, None)


def _port(port: Json, path: FieldPath, *, named: bool) -> list[FieldError]:
    problems: list[FieldError] = []
    if named and not port.get("name"):
        problems.append(FieldError.required(path.child("name"), ""))
    if port.get("name"):
        problems += [FieldError.invalid(path.child("name"), port["name"], m) for m in names.dns1123_label(port["name"])]
    number = port.get("port")
    messages = names.port_number(number) if isinstance(number, int) else [names.range_error(1, 65535)]
    problems += [FieldError.invalid(path.child("port"), number or 0, message) for message in messages]
    if port.get("protocol") not in {"TCP", "UDP", "SCTP"}:
        problems.append(FieldError.not_supported(path.child("protocol"), port.get("protocol"), ("SCTP", "TCP", "UDP")))
    return problems


class EndpointsStrategy(Strategy):
    """Endpoints as data."""

    allow_create_on_update: bool = True

    def default(self, obj: Json) -> None:
        """TCP unless said otherwise."""
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                port.setdefault("protocol", "TCP")


class EndpointSliceStrategy(Strategy):
    """discovery.k8s.io/v1 EndpointSlice."""

    tracks_generation: bool = True

    def default(self, obj: Json) -> None:
        """TCP unless said otherwise; a port without a name has an empty one."""
        for port in obj.get("ports") or ():
            port.setdefault("protocol", "TCP")
            port.setdefault("name", "")

    def generation_changed(self, obj: Json, old: Json) -> bool:
        """Everything but metadata counts."""
        return any(obj.get(field) != old.get(field) for field in ("endpoints", "ports", "addressType"))

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """The address type is set once."""
        if obj.get("addressType") == old.get("addressType"):
            return []
        return [FieldError.invalid(FieldPath("addressType"), obj.get("addressType"), "field is immutable")]
