"""The load balancer that a Service requests of Hetzner's cloud. Pure: from annotations and ports to API fields.

The annotations are those of Hetzner's own manager, as far as they are supported. One that is not is refused by name: a
Service that requests HTTPS must not be served as plain TCP.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from kube_fairlead.api.core_v1 import Service, ServicePort
from kube_fairlead.api.json_object import Json
from kube_fairlead.cloud.errors import CloudRefused
from kube_fairlead.cloud.providers.hcloud.config import HetznerConfig

__all__ = [
    "LoadBalancerSpec",
    "OpenToAll",
    "load_balancer_name",
    "location_of",
    "shown_hostname",
    "shows_ipv6",
    "spec_of",
]


_PREFIX: Final = "load-balancer.hetzner.cloud/"
_SUPPORTED: Final = frozenset(
    {
        "algorithm-type",
        "disable-public-network",
        "hostname",
        "ipv6-disabled",
        "location",
        "name",
        "network-zone",
        "type",
        "use-private-ip",
        "uses-proxyprotocol",
    }
)
# Hetzner's own manager writes these.
_WRITTEN: Final = frozenset({"id", "ipv4", "ipv4-rdns", "ipv6", "ipv6-rdns"})
_EVERYWHERE: Final = frozenset({"0.0.0.0/0", "::/0"})
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False", ""})
_ALGORITHMS: Final = frozenset({"least_connections", "round_robin"})


_SAY_WHERE: Final = (
    f"say where: exactly one of the annotations {_PREFIX}location and {_PREFIX}network-zone, or "
    "HCLOUD_LOAD_BALANCERS_LOCATION for all Services"
)


class OpenToAll(CloudRefused):
    """The Service may be reached by some clients only, and a load balancer here would let in all."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoadBalancerSpec:
    """What the load balancer of a Service should be. None: as it is, or as new ones are."""

    name: str
    type: str | None
    algorithm: str | None
    private: bool  # whether it reaches servers through the network
    public: bool | None  # whether it is reached from outside
    services: tuple[Json, ...]


def load_balancer_name(service: Service) -> str:
    """The requested name, else the name that upstream gives load balancers."""
    return service.metadata.annotations.get(f"{_PREFIX}name") or f"a{service.uid.replace('-', '')}"[:32]


def shown_hostname(service: Service) -> str:
    """The name by which the load balancer is to be reached, instead of its addresses."""
    return service.metadata.annotations.get(f"{_PREFIX}hostname", "")


def shows_ipv6(service: Service) -> bool:
    """Whether its IPv6 address is to be shown."""
    return service.metadata.annotations.get(f"{_PREFIX}ipv6-disabled", "") not in _TRUE


def spec_of(service: Service, config: HetznerConfig) -> LoadBalancerSpec:
    """What a Service requests.

    Raises:
        CloudRefused: it requests something that load balancers here do not support.
    """
    notes = _notes(service)
    _check_spec(service)
    if unknown := sorted(notes.keys() - _SUPPORTED):
        supported = ", ".join(sorted(_SUPPORTED))
        raise CloudRefused(f"annotation {_PREFIX}{unknown[0]} is not supported; supported are {supported}")
    if notes.get("location") and notes.get("network-zone"):
        raise CloudRefused(_SAY_WHERE)
    algorithm = notes.get("algorithm-type") or None
    if algorithm is not None and algorithm not in _ALGORITHMS:
        raise CloudRefused(f"annotation {_PREFIX}algorithm-type: must be {' or '.join(sorted(_ALGORITHMS))}")
    private = _boolean(notes, "use-private-ip", default=config.load_balancer_private)
    public = not _boolean(notes, "disable-public-network") if "disable-public-network" in notes else None
    if (private or public is False) and not config.network:
        raise CloudRefused("a load balancer in a private network needs HCLOUD_NETWORK")
    proxy = _boolean(notes, "uses-proxyprotocol")
    _boolean(notes, "ipv6-disabled")
    return LoadBalancerSpec(
        name=load_balancer_name(service),
        type=notes.get("type") or None,
        algorithm=algorithm,
        private=private,
        public=public,
        services=tuple(_listener(service, port, proxy=proxy) for port in service.spec.ports),
    )


def _boolean(notes: dict[str, str], name: str, *, default: bool = False) -> bool:
    value = notes.get(name)
    if value is None:
        return default
    if value not in _TRUE | _FALSE:
        raise CloudRefused(f"annotation {_PREFIX}{name}: must be true or false, got {value[:40]!r}")
    return value in _TRUE


def _notes(service: Service) -> dict[str, str]:
    return {
        key.removeprefix(_PREFIX): value
        for key, value in service.metadata.annotations.items()
        if key.startswith(_PREFIX) and key.removeprefix(_PREFIX) not in _WRITTEN
    }


def location_of(service: Service, config: HetznerConfig) -> Json:
    """Where a new load balancer is made: location or network_zone.

    Raises:
        CloudRefused: neither the Service nor the configuration says so.
    """
    notes = _notes(service)
    asked = {"location": notes.get("location", ""), "network_zone": notes.get("network-zone", "")}
    if not any(asked.values()):
        asked = {"location": config.load_balancer_location, "network_zone": config.load_balancer_network_zone}
    place = {key: value for key, value in asked.items() if value}
    if len(place) != 1:
        raise CloudRefused(_SAY_WHERE)
    return place


def _check_spec(service: Service) -> None:
    spec = service.spec
    if limited := sorted(set(spec.load_balancer_source_ranges) - _EVERYWHERE):
        raise OpenToAll(f"loadBalancerSourceRanges ({', '.join(limited)}) are not supported by Hetzner Cloud")
    if odd := sorted({port.protocol for port in spec.ports} - {"TCP"}):
        raise CloudRefused(f"protocol {', '.join(odd)} is not supported by load balancers of Hetzner Cloud")
    if any(not port.node_port for port in spec.ports):
        raise CloudRefused("every port needs a node port: do not set allocateLoadBalancerNodePorts to false")
    if spec.session_affinity == "ClientIP":
        raise CloudRefused("sessionAffinity ClientIP is not supported: connections are spread over all nodes")


def _listener(service: Service, port: ServicePort, *, proxy: bool) -> Json:
    check: Json = {"protocol": "tcp", "port": port.node_port, "interval": 15, "timeout": 10, "retries": 3}
    if service.spec.external_traffic_policy == "Local":
        # Only nodes that have a pod of the Service answer here with 200.
        check |= {"protocol": "http", "port": service.spec.health_check_node_port, "http": {"path": "/healthz"}}
    return {
        "protocol": "tcp",
        "listen_port": port.port,
        "destination_port": port.node_port,
        "proxyprotocol": proxy,
        "health_check": check,
    }
