"""Validation and defaults of a service's traffic: session affinity, external access, load balancers, health checks.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/core/v1/defaults.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/service/strategy.go
"""

from __future__ import annotations

from typing import Final

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.registry.strategies import field_checks
from kube_fairlead_apiserver.registry.strategies.addresses import (
    validate_address,
    validate_endpoint_address,
    validate_range,
)

__all__ = [
    "WITH_NODE_PORTS",
    "default_affinity",
    "default_balancer_status",
    "default_traffic",
    "is_health_checked",
    "is_reachable",
    "validate_balancer_status",
    "validate_traffic",
    "validate_traffic_update",
]

WITH_NODE_PORTS: Final = frozenset({"LoadBalancer", "NodePort"})

_AFFINITY_SECONDS: Final = 10_800
_MAX_AFFINITY_SECONDS: Final = 86_400
_POLICIES: Final = ("Cluster", "Local")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_ONLY_BALANCED: Final = "may only be used when `type` is 'LoadBalancer'"
_SPEC: Final = FieldPath("spec")


def is_reachable(spec: Json) -> bool:
    """Return whether the service is reachable from outside the cluster."""
    kind = spec.get("type")
    return kind in WITH_NODE_PORTS or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def is_health_checked(spec: Json) -> bool:
    """Return whether the load balancer must check each node for local endpoints, at a port for that purpose."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def default_affinity(spec: Json) -> None:
    """Default the session affinity: None, or ClientIP for three hours."""
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        given = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds")
        if given is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}


def default_traffic(spec: Json) -> None:
    """Default the traffic policies of services in this cluster: any endpoint serves any request."""
    spec.setdefault("internalTrafficPolicy", "Cluster")
    if is_reachable(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def default_balancer_status(status: Json) -> None:
    """Default the ipMode of a load balancer's address: VIP."""
    for ingress in (status.get("loadBalancer") or {}).get("ingress") or ():
        if ingress.get("ip"):
            ingress.setdefault("ipMode", "VIP")


def validate_traffic(spec: Json) -> list[FieldError]:
    """Validate the traffic policies, the session affinity and the external addresses."""
    problems = field_checks.one_of(spec, _SPEC, "sessionAffinity", ("ClientIP", "None"))
    seconds = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds")
    if seconds is not None and not 0 < seconds <= _MAX_AFFINITY_SECONDS:
        at = _SPEC.child("sessionAffinityConfig", "clientIP", "timeoutSeconds")
        text = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
        problems.append(FieldError.invalid(at, seconds, text))
    for index, address in enumerate(spec.get("externalIPs") or ()):
        at = _SPEC.item("externalIPs", index)
        problems += validate_address(address, at) or validate_endpoint_address(address, at)
    problems += _validate_balancer(spec)
    if is_reachable(spec):
        problems += field_checks.one_of(spec, _SPEC, "externalTrafficPolicy", _POLICIES)
    elif spec.get("externalTrafficPolicy"):
        text = "may only be set for externally-accessible services"
        problems.append(FieldError.invalid(_SPEC.child("externalTrafficPolicy"), spec["externalTrafficPolicy"], text))
    if spec.get("healthCheckNodePort") and not is_health_checked(spec):
        at = _SPEC.child("healthCheckNodePort")
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        problems.append(FieldError.invalid(at, spec["healthCheckNodePort"], text))
    problems += field_checks.one_of(spec, _SPEC, "internalTrafficPolicy", _POLICIES)
    return problems + field_checks.one_of(spec, _SPEC, "trafficDistribution", _DISTRIBUTIONS)


def _validate_balancer(spec: Json) -> list[FieldError]:
    """Validate the fields that only a load balancer has."""
    balanced = spec.get("type") == "LoadBalancer"
    ranges, at = (
        spec.get("loadBalancerSourceRanges") or (),
        _SPEC.child("LoadBalancerSourceRanges"),
    )  # Kubernetes' spelling
    problems = [FieldError.forbidden(at, _ONLY_BALANCED)] if ranges and not balanced else []
    for index, text in enumerate(ranges):
        problems += validate_range(text.strip(), at.index(index))
    if not balanced:
        return problems + [
            FieldError.forbidden(_SPEC.child(field), _ONLY_BALANCED)
            for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass")
            if spec.get(field) is not None
        ]
    name = spec.get("loadBalancerClass")
    if name is not None:
        problems += field_checks.complaints(_SPEC.child("loadBalancerClass"), name, names.qualified_name(name))
    return problems


def validate_traffic_update(spec: Json, before: Json) -> list[FieldError]:
    """The load balancer class and the health check port are immutable."""
    problems: list[FieldError] = []
    kinds = {one.get("type") for one in (spec, before)}
    if kinds == {"LoadBalancer"} and spec.get("loadBalancerClass") != before.get("loadBalancerClass"):
        at = _SPEC.child("loadBalancerClass")
        problems.append(FieldError.invalid(at, spec.get("loadBalancerClass"), "may not change once set"))
    changed = spec.get("healthCheckNodePort") != before.get("healthCheckNodePort")
    if changed and is_health_checked(spec) and is_health_checked(before):
        problems.append(FieldError.forbidden(_SPEC.child("healthCheckNodePort"), "field is immutable"))
    return problems


def validate_balancer_status(spec: Json, status: Json) -> list[FieldError]:
    """Validate the addresses of a load balancer."""
    path = FieldPath("status", "loadBalancer", "ingress")
    found = (status.get("loadBalancer") or {}).get("ingress") or ()
    if found and spec.get("type") != "LoadBalancer":
        return [FieldError.forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")]
    problems: list[FieldError] = []
    for index, ingress in enumerate(found):
        at, address, name = path.index(index), ingress.get("ip") or "", ingress.get("hostname") or ""
        if address:
            problems += validate_address(address, at.child("ip"))
            problems += field_checks.one_of(ingress, at, "ipMode", ("Proxy", "VIP"))
        elif ingress.get("ipMode") is not None:
            problems.append(FieldError.forbidden(at.child("ipMode"), "may not be specified when `ip` is not set"))
        if name:
            problems += field_checks.complaints(at.child("hostname"), name, names.dns1123_subdomain(name))
            if not names.ip_address(name):
                text = "must be a DNS name, not an IP address"
                problems.append(FieldError.invalid(at.child("hostname"), name, text))
    return problems
