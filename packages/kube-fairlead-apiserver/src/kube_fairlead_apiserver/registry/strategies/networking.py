"""NetworkPolicies, Ingresses and IngressClasses.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/networking/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/networking/v1/defaults.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/networking/networkpolicy/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/networking/ingress/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/networking/ingressclass/strategy.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/networking/v1/zz_generated.validations.go
"""

from __future__ import annotations

from typing import Final

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.validation.selectors import validate_label_selector
from kube_fairlead_apiserver.registry.strategies import field_checks
from kube_fairlead_apiserver.registry.strategies.addresses import Range, no_range, read_range
from kube_fairlead_apiserver.registry.strategy import Strategy

__all__ = ["IngressClassStrategy", "IngressStrategy", "NetworkPolicyStrategy"]

_SPEC: Final = FieldPath("spec")
_DIRECTIONS: Final = ("Ingress", "Egress")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_PATH_PARTS: Final = ("//", "/./", "/../", "%2f", "%2F")
_BAD_PATH_ENDS: Final = ("/..", "/.")
_MAX_CONTROLLER: Final = 250
_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"


class NetworkPolicyStrategy(Strategy):
    """networking.k8s.io/v1 NetworkPolicy."""

    tracks_generation: bool = True

    def default(self, obj: Json) -> None:
        """Defaults: policyTypes Ingress, and Egress with egress rules; protocol TCP."""
        spec = obj.setdefault("spec", {})
        if not spec.get("policyTypes"):
            spec["policyTypes"] = [*_DIRECTIONS] if spec.get("egress") else ["Ingress"]
        for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
            for port in rule.get("ports") or ():
                if port.get("protocol") is None:
                    port["protocol"] = "TCP"

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate selectors, peers and ports."""
        spec = obj.get("spec") or {}
        problems = validate_label_selector(spec.get("podSelector") or {}, _SPEC.child("podSelector"))
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for number, rule in enumerate(spec.get(direction) or ()):
                path = _SPEC.item(direction, number)
                for index, port in enumerate(rule.get("ports") or ()):
                    problems += _validate_policy_port(port, path.item("ports", index))
                for index, peer in enumerate(rule.get(peers) or ()):
                    problems += _validate_peer(peer, path.item(peers, index))
        types = spec.get("policyTypes") or []
        if len(types) > len(_DIRECTIONS):
            at = _SPEC.child("policyTypes")
            return [*problems, FieldError.invalid(at, types, "may not specify more than two policyTypes")]
        return problems + [
            FieldError.not_supported(_SPEC.item("policyTypes", index), name, _DIRECTIONS)
            for index, name in enumerate(types)
            if name not in _DIRECTIONS
        ]


def _validate_policy_port(port: Json, path: FieldPath) -> list[FieldError]:
    problems = field_checks.one_of(port, path, "protocol", _PROTOCOLS)
    first, last = port.get("port"), port.get("endPort")
    at = path.child("endPort")
    if isinstance(first, int):
        problems += field_checks.complaints(path.child("port"), first, names.port_number(first))
        if last is not None and last < first:
            problems.append(FieldError.invalid(at, first, "must be greater than or equal to `port`"))
        if last is not None:
            problems += field_checks.complaints(at, last, names.port_number(last))
        return problems
    if last is not None:
        why = "is not specified" if first is None else "is non-numeric"
        problems.append(FieldError.invalid(at, last, f"may not be specified when `port` {why}"))
    if first is not None:
        problems += field_checks.complaints(path.child("port"), first, names.port_name(first))
    return problems


def _validate_peer(peer: Json, path: FieldPath) -> list[FieldError]:
    chosen = [field for field in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(field) is not None]
    if not chosen:
        return [FieldError.required(path, "must specify a peer")]
    problems: list[FieldError] = []
    for field in chosen:
        if field == "ipBlock":
            problems += _validate_block(peer[field], path.child(field))
        else:
            problems += validate_label_selector(peer[field], path.child(field))
    if "ipBlock" in chosen and len(chosen) > 1:
        problems.append(FieldError.forbidden(path, "may not specify both ipBlock and another peer"))
    return problems


def _validate_block(block: Json, path: FieldPath) -> list[FieldError]:
    whole = block.get("cidr") or ""
    if not whole:
        return [FieldError.required(path.child("cidr"), "")]
    outer = read_range(whole)
    if outer is None:
        return [no_range(whole, path.child("cidr"))]
    problems: list[FieldError] = []
    for index, part in enumerate(block.get("except") or ()):
        inner = read_range(part)
        if inner is None:
            problems.append(no_range(part, path.item("except", index)))
        elif not _is_inside(inner, outer):
            text = "must be a strict subset of `cidr`"
            problems.append(FieldError.invalid(path.item("except", index), part, text))
    return problems


def _is_inside(inner: Range, outer: Range) -> bool:
    return inner.version == outer.version and inner.network_address in outer and inner.prefixlen > outer.prefixlen


class IngressStrategy(Strategy):
    """networking.k8s.io/v1 Ingress."""

    has_status: bool = True
    tracks_generation: bool = True

    def prepare_create(self, obj: Json) -> None:
        """A new object has no load balancer status."""
        obj["status"] = {"loadBalancer": {}}

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate a new ingress; annotation and field of the class exclude each other."""
        problems = _validate_ingress(obj.get("spec") or {})
        annotated = (obj["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
        named = (obj.get("spec") or {}).get("ingressClassName")
        if annotated is not None and named is not None and annotated != named:
            at = FieldPath("annotations", _CLASS_ANNOTATION)
            text = "must match `ingressClassName` when both are specified"
            problems.append(FieldError.invalid(at, annotated, text))
        return problems

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """A changed ingress."""
        del old
        return _validate_ingress(obj.get("spec") or {})


def _validate_ingress(spec: Json) -> list[FieldError]:
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    problems: list[FieldError] = []
    if not rules and backend is None:
        text = "either `defaultBackend` or `rules` must be specified"
        problems.append(FieldError.invalid(_SPEC, None, text))
    if backend is not None:
        problems += _validate_backend(backend, _SPEC.child("defaultBackend"))
    for index, rule in enumerate(rules):
        problems += _validate_ingress_rule(rule, _SPEC.item("rules", index))
    for number, entry in enumerate(spec.get("tls") or ()):
        path = _SPEC.item("tls", number)
        for index, host in enumerate(entry.get("hosts") or ()):
            problems += field_checks.complaints(path.item("hosts", index), host, _host_messages(host))
        secret = entry.get("secretName")
        if secret:
            problems += field_checks.complaints(path.child("secretName"), secret, names.dns1123_subdomain(secret))
    named = spec.get("ingressClassName")
    if named is not None:
        problems += field_checks.complaints(_SPEC.child("ingressClassName"), named, names.dns1123_subdomain(named))
    return problems


def _host_messages(host: str) -> list[str]:
    return names.wildcard_dns1123_subdomain(host) if "*" in host else names.dns1123_subdomain(host)


def _validate_ingress_rule(rule: Json, path: FieldPath) -> list[FieldError]:
    problems: list[FieldError] = []
    host = rule.get("host") or ""
    if host:
        if not names.ip_address(host):
            problems.append(FieldError.invalid(path.child("host"), host, "must be a DNS name, not an IP address"))
        problems += field_checks.complaints(path.child("host"), host, _host_messages(host))
    if rule.get("http") is None:
        return problems
    paths, at = rule["http"].get("paths") or [], path.child("http")
    if not paths:
        problems.append(FieldError.required(at.child("paths"), ""))
    for index, entry in enumerate(paths):
        problems += _validate_path(entry, at.item("paths", index))
    return problems


def _validate_path(entry: Json, path: FieldPath) -> list[FieldError]:
    kind, text, at = entry.get("pathType"), entry.get("path") or "", path.child("path")
    if kind is None:
        return [FieldError.required(path.child("pathType"), "pathType must be specified")]
    problems: list[FieldError] = []
    if kind not in _PATH_TYPES:
        problems.append(FieldError.not_supported(path.child("pathType"), kind, _PATH_TYPES))
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        problems.append(FieldError.invalid(at, text, "must be an absolute path"))
    if kind in {"Exact", "Prefix"}:
        problems += [
            FieldError.invalid(at, text, f"must not contain '{part}'") for part in _BAD_PATH_PARTS if part in text
        ]
        problems += [
            FieldError.invalid(at, text, f"cannot end with '{end}'") for end in _BAD_PATH_ENDS if text.endswith(end)
        ]
    return problems + _validate_backend(entry.get("backend") or {}, path.child("backend"))


def _validate_backend(backend: Json, path: FieldPath) -> list[FieldError]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [FieldError.invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _validate_reference(resource, path.child("resource"))
    if service is None:
        return [FieldError.invalid(path, "", "resource or service backend is required")]
    name, port, at = service.get("name") or "", service.get("port") or {}, path.child("service")
    problems = [] if name else [FieldError.required(at.child("name"), "")]
    if name:
        problems += field_checks.complaints(at.child("name"), name, names.dns1123_label(name))
    if port.get("name") and port.get("number"):
        problems.append(FieldError.invalid(path, "", "cannot set both port name & port number"))
    elif port.get("name"):
        problems += field_checks.complaints(at.child("port", "name"), port["name"], names.port_name(port["name"]))
    elif port.get("number"):
        problems += field_checks.complaints(
            at.child("port", "number"), port["number"], names.port_number(port["number"])
        )
    else:
        problems.append(FieldError.required(path, "port name or number is required"))
    return problems


def _validate_reference(reference: Json, path: FieldPath) -> list[FieldError]:
    """Validate a reference to another object."""
    problems: list[FieldError] = []
    group = reference.get("apiGroup")
    if group is not None:
        problems += field_checks.complaints(path.child("apiGroup"), group, names.dns1123_subdomain(group))
    for field in ("kind", "name"):
        value = reference.get(field) or ""
        if value:
            problems += field_checks.complaints(path.child(field), value, names.path_segment_name(value))
        else:
            problems.append(FieldError.required(path.child(field), ""))
    return problems


class IngressClassStrategy(Strategy):
    """networking.k8s.io/v1 IngressClass."""

    tracks_generation: bool = True

    def default(self, obj: Json) -> None:
        """Default: parameters have the scope Cluster."""
        parameters = (obj.get("spec") or {}).get("parameters")
        if parameters is not None and parameters.get("scope") is None:
            parameters["scope"] = "Cluster"

    def validate(self, obj: Json) -> list[FieldError]:
        """A controller is required."""
        spec = obj.get("spec") or {}
        controller, path = spec.get("controller") or "", _SPEC.child("controller")
        problems = names.domain_prefixed_path(controller, path)
        if len(controller) > _MAX_CONTROLLER:
            problems.append(FieldError.too_long(path, controller, _MAX_CONTROLLER))
        parameters, path = spec.get("parameters"), _SPEC.child("parameters")
        if parameters is None:
            return problems
        problems += _validate_reference(parameters, path)
        problems += field_checks.one_of(parameters, path, "scope", ("Cluster", "Namespace"))
        namespace, at = parameters.get("namespace"), path.child("namespace")
        if parameters.get("scope") == "Namespace" and namespace is None:
            problems.append(FieldError.required(at, "`parameters.scope` is set to 'Namespace'"))
        elif parameters.get("scope") == "Cluster" and namespace is not None:
            problems.append(FieldError.forbidden(at, "`parameters.scope` is set to 'Cluster'"))
        return problems

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """The controller is immutable."""
        fixed = field_checks.changed(obj.get("spec") or {}, old.get("spec") or {}, _SPEC, "controller")
        return fixed + self.validate(obj)
