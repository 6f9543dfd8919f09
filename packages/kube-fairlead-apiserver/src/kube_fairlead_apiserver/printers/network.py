"""Printers of services, endpoints, ingresses, network policies and addresses.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/printers/internalversion/printers.go
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from kube_fairlead.api.gvk import GroupResource
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.printers.cluster import simple
from kube_fairlead_apiserver.printers.columns import (
    NONE,
    Printer,
    age,
    columns,
    count_text,
    dig,
    labels_text,
    listed,
    name_of,
    selector_text,
)

__all__ = ["NETWORK"]

_MOST = 3


def _service(obj: Json, now: dt.datetime) -> list[Any]:
    addresses = listed(obj, "spec", "clusterIPs")
    return [
        name_of(obj),
        dig(obj, "spec", "type", default=""),
        addresses[0] if addresses else NONE,
        _external_ip(obj),
        ",".join(_service_port(port) for port in listed(obj, "spec", "ports")) or NONE,
        age(obj, now),
        labels_text(dig(obj, "spec", "selector")),
    ]


def _service_port(port: Json) -> str:
    number, protocol = port.get("port") or 0, port.get("protocol") or ""
    return f"{number}:{port['nodePort']}/{protocol}" if port.get("nodePort") else f"{number}/{protocol}"


def _external_ip(service: Json) -> str:
    external = ",".join(listed(service, "spec", "externalIPs"))
    kind = dig(service, "spec", "type")
    if kind in {"ClusterIP", "NodePort"}:
        return external or NONE
    if kind == "LoadBalancer":
        balancers = _load_balancers(service)
        return ",".join(text for text in (balancers, external) if text) or "<pending>"
    if kind == "ExternalName":
        return str(dig(service, "spec", "externalName", default=""))
    return "<unknown>"


def _load_balancers(obj: Json) -> str:
    ingresses = listed(obj, "status", "loadBalancer", "ingress")
    return ",".join(sorted({found.get("ip") or found.get("hostname") or "" for found in ingresses} - {""}))


def _endpoints(obj: Json) -> str:
    found: list[str] = []
    for subset in listed(obj, "subsets"):
        addresses = [address.get("ip", "") for address in listed(subset, "addresses")]
        ports = listed(subset, "ports")
        if not ports:
            found += addresses
        for port in ports:
            found += [_join(address, port.get("port") or 0) for address in addresses]
    return count_text(found, most=_MOST, empty="" if listed(obj, "subsets") else NONE)


def _join(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _slice_ports(obj: Json) -> str:
    ports = []
    for port in listed(obj, "ports"):
        number = port.get("port")
        ports.append(str(number) if number is not None else port.get("name", "*"))
    return count_text(ports, most=_MOST)


def _slice_endpoints(obj: Json) -> str:
    addresses = [address for endpoint in listed(obj, "endpoints") for address in listed(endpoint, "addresses")]
    return count_text(addresses, most=_MOST)


def _hosts(obj: Json) -> str:
    rules: Sequence[Json] = listed(obj, "spec", "rules")
    hosts: list[str] = []
    more = False
    for rule in rules:
        more = more or len(hosts) == _MOST
        if not more and rule.get("host"):
            hosts.append(rule["host"])
    text = ",".join(hosts) or "*"
    return f"{text} + {len(rules) - _MOST} more..." if more and hosts else text


def _ingress_class(obj: Json, now: dt.datetime) -> list[Any]:
    annotations = dig(obj, "metadata", "annotations", default={})
    is_default = annotations.get("ingressclass.kubernetes.io/is-default-class") == "true"
    parameters = dig(obj, "spec", "parameters")
    text = NONE
    if parameters is not None:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
        text = f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"
    name = name_of(obj) + (" (default)" if is_default else "")
    return [name, dig(obj, "spec", "controller", default=""), text, age(obj, now)]


def _ip_address(obj: Json, now: dt.datetime) -> list[Any]:
    parent = dig(obj, "spec", "parentRef")
    text = NONE
    if parent is not None:
        text = str(GroupResource(parent.get("group", ""), parent.get("resource", ""))).lower()
        namespace = f"/{parent['namespace']}" if parent.get("namespace") else ""
        text += f"{namespace}/{parent.get('name', '')}"
    return [name_of(obj), text, age(obj, now)]


NETWORK: dict[tuple[str, str], Printer] = {
    ("", "Endpoints"): Printer(columns("Name", "Endpoints", "Age"), simple(_endpoints)),
    ("", "Service"): Printer(
        columns("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector+"), _service
    ),
    ("discovery.k8s.io", "EndpointSlice"): Printer(
        columns("Name", "AddressType", "Ports", "Endpoints", "Age"),
        simple(lambda obj: obj.get("addressType", ""), _slice_ports, _slice_endpoints),
    ),
    ("networking.k8s.io", "IPAddress"): Printer(columns("Name", "ParentRef", "Age"), _ip_address),
    ("networking.k8s.io", "Ingress"): Printer(
        columns("Name", "Class", "Hosts", "Address", "Ports", "Age"),
        simple(
            lambda obj: dig(obj, "spec", "ingressClassName", default=NONE),
            _hosts,
            _load_balancers,
            lambda obj: "80, 443" if listed(obj, "spec", "tls") else "80",
        ),
    ),
    ("networking.k8s.io", "IngressClass"): Printer(columns("Name", "Controller", "Parameters", "Age"), _ingress_class),
    ("networking.k8s.io", "NetworkPolicy"): Printer(
        columns("Name", "Pod-Selector", "Age"),
        simple(lambda obj: selector_text(dig(obj, "spec", "podSelector", default={}))),
    ),
    ("networking.k8s.io", "ServiceCIDR"): Printer(
        columns("Name", "CIDRs", "Age"), simple(lambda obj: ",".join(listed(obj, "spec", "cidrs")))
    ),
}
