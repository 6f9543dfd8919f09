"""Endpoints and EndpointSlices of services.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/discovery/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/endpoint/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/discovery/endpointslice/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/discovery/v1/defaults.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/discovery/v1/zz_generated.validations.go
"""

from __future__ import annotations

import ipaddress
from typing import Final

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.registry.strategies import field_checks
from kube_fairlead_apiserver.registry.strategies.addresses import validate_address, validate_endpoint_address
from kube_fairlead_apiserver.registry.strategy import Strategy

__all__ = ["EndpointSliceStrategy", "EndpointsStrategy"]

_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MAX_ENDPOINTS: Final = 1000
_MAX_ADDRESSES: Final = 100
_MAX_HINTS: Final = 8


class EndpointsStrategy(Strategy):
    """Endpoints as data."""

    deprecation: str = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    allow_create_on_update: bool = True

    def default(self, obj: Json) -> None:
        """Default protocol: TCP."""
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                port.setdefault("protocol", "TCP")


class EndpointSliceStrategy(Strategy):
    """discovery.k8s.io/v1 EndpointSlice."""

    tracks_generation: bool = True
    always_written = ("endpoints", "ports")

    def default(self, obj: Json) -> None:
        """Defaults: protocol TCP, an empty port name, empty conditions."""
        for endpoint in obj.get("endpoints") or ():
            endpoint.setdefault("conditions", {})
            endpoint.pop("deprecatedTopology", None)  # which only older versions could write
        for port in obj.get("ports") or ():
            port.setdefault("protocol", "TCP")
            port.setdefault("name", "")

    def generation_changed(self, obj: Json, old: Json) -> bool:
        """Return whether the generation increases: also for labels, by which readers select slices."""
        labels, before = (one["metadata"].get("labels") or {} for one in (obj, old))
        fields = ("endpoints", "ports", "addressType")
        return bool(labels != before) or any((obj.get(field) or None) != (old.get(field) or None) for field in fields)

    def warnings(self, obj: Json, old: Json | None) -> list[str]:
        """Warning for the deprecated address type FQDN."""
        if old is None and obj.get("addressType") == "FQDN":
            return ["spec.addressType: FQDN endpoints are deprecated"]
        return []

    def validate(self, obj: Json) -> list[FieldError]:
        """Addresses of the declared type, and ports with distinct names."""
        return self._validate_slice(obj) + _validate_endpoints(obj)

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """The address type is immutable. Unchanged endpoints are not validated again, because slices change often."""
        problems = self._validate_slice(obj)
        if obj.get("endpoints") != old.get("endpoints"):
            problems += _validate_endpoints(obj)
        return problems + field_checks.changed(obj, old, FieldPath(), "addressType")

    def _validate_slice(self, obj: Json) -> list[FieldError]:
        kind, path = obj.get("addressType") or "", FieldPath("addressType")
        problems: list[FieldError] = []
        if not kind:
            problems.append(FieldError.required(path, ""))
        elif kind not in _ADDRESS_TYPES:
            problems.append(FieldError.not_supported(path, kind, _ADDRESS_TYPES))
        seen: set[str] = set()
        for index, port in enumerate(obj.get("ports") or ()):
            name, at = port.get("name") or "", FieldPath("ports").index(index)
            if name:
                problems += field_checks.complaints(at.child("name"), name, names.dns1123_label(name))
            if name in seen:
                problems.append(FieldError.duplicate(at.child("name"), name))
            seen.add(name)
            problems += field_checks.one_of(port, at, "protocol", _PROTOCOLS)
            if port.get("appProtocol") is not None:
                spoken = port["appProtocol"]
                problems += field_checks.complaints(at.child("appProtocol"), spoken, names.qualified_name(spoken))
        return problems


def _validate_endpoints(obj: Json) -> list[FieldError]:
    endpoints, path = obj.get("endpoints") or [], FieldPath("endpoints")
    if len(endpoints) > _MAX_ENDPOINTS:
        return [FieldError.too_many(path, len(endpoints), _MAX_ENDPOINTS)]
    problems: list[FieldError] = []
    for index, endpoint in enumerate(endpoints):
        at, addresses = path.index(index), endpoint.get("addresses") or []
        if not addresses:
            problems.append(FieldError.required(at.child("addresses"), "must contain at least 1 address"))
        elif len(addresses) > _MAX_ADDRESSES:
            problems.append(FieldError.too_many(at.child("addresses"), len(addresses), _MAX_ADDRESSES))
        for number, address in enumerate(addresses):
            problems += _validate_address(address, obj.get("addressType"), at.child("addresses"), number)
        if endpoint.get("hostname") is not None:
            name = endpoint["hostname"]
            problems += field_checks.complaints(at.child("hostname"), name, names.dns1123_label(name))
        if endpoint.get("nodeName") is not None:
            name = endpoint["nodeName"]
            problems += field_checks.complaints(at.child("nodeName"), name, names.dns1123_subdomain(name))
        problems += _validate_hints(endpoint.get("hints") or {}, at.child("hints"))
    return problems


def _validate_hints(hints: Json, path: FieldPath) -> list[FieldError]:
    """Validate hints: each zone and each node once, and a limited number."""
    problems: list[FieldError] = []
    for field, rule in (("forZones", names.label_value), ("forNodes", names.dns1123_subdomain)):
        meant = [hint.get("name") or "" for hint in hints.get(field) or ()]
        if len(meant) > _MAX_HINTS:
            return [*problems, FieldError.too_many(path.child(field), len(meant), _MAX_HINTS)]
        for index, name in enumerate(meant):
            at = path.item(field, index).child("name")
            if name in meant[:index]:
                problems.append(FieldError.duplicate(at, name))
            problems += field_checks.complaints(at, name, rule(name))
    return problems


def _validate_address(address: str, kind: str | None, path: FieldPath, number: int) -> list[FieldError]:
    if kind == "FQDN":
        return _validate_domain(address, path.index(number))
    if kind not in {"IPv4", "IPv6"}:
        return []
    problems = validate_address(address, path.index(number))
    if problems:
        return problems
    if f"IPv{ipaddress.ip_address(address).version}" != kind:
        problems.append(FieldError.invalid(path, address, f"must be an {kind} address"))
    return problems + validate_endpoint_address(address, path.index(number))


def _validate_domain(text: str, path: FieldPath) -> list[FieldError]:
    """Validate a fully qualified domain name."""
    name = text.removesuffix(".")
    if not text:
        return [FieldError.required(path, "")]
    messages = names.dns1123_subdomain(name)
    if messages:
        return [FieldError.invalid(path, name, ",".join(messages))]
    if "." not in name:
        return [FieldError.invalid(path, name, "should be a domain with at least two segments separated by dots")]
    for label in name.split("."):
        messages = names.dns1123_label(label)
        if messages:
            return [FieldError.invalid(path, label, ",".join(messages))]
    return []
