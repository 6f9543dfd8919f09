"""Services and Endpoints: how traffic finds pods.

Upstream: k8s.io/api@v0.36.4/core/v1/types.go
"""

from __future__ import annotations

from kube_fairlead.api.core_v1.references import ObjectReference
from kube_fairlead.api.meta import Condition, KubeObject
from kube_fairlead.api.parts import IntOrString, Part, always, mapping, named

__all__ = [
    "EndpointAddress",
    "EndpointPort",
    "EndpointSubset",
    "Endpoints",
    "LoadBalancerIngress",
    "LoadBalancerStatus",
    "PortStatus",
    "Service",
    "ServicePort",
    "ServiceSpec",
    "ServiceStatus",
]


class ServicePort(Part):
    """One port of a service."""

    MERGE_KEY = ("port", "protocol")

    name: str = ""
    protocol: str = ""
    app_protocol: str | None = None
    port: int = always(0)
    target_port: IntOrString | None = None
    node_port: int = 0


class ServiceSpec(Part):
    """What a service should be."""

    ports: tuple[ServicePort, ...] = ()
    selector: dict[str, str] = mapping()
    cluster_ip: str = named("clusterIP")
    cluster_ips: tuple[str, ...] = named("clusterIPs", ())
    type: str = ""
    external_ips: tuple[str, ...] = named("externalIPs", ())
    session_affinity: str = ""
    load_balancer_ip: str = named("loadBalancerIP")
    load_balancer_source_ranges: tuple[str, ...] = ()
    external_name: str = ""
    external_traffic_policy: str = ""
    health_check_node_port: int = 0
    publish_not_ready_addresses: bool = False
    ip_families: tuple[str, ...] = ()
    ip_family_policy: str | None = None
    allocate_load_balancer_node_ports: bool | None = None
    load_balancer_class: str | None = None
    internal_traffic_policy: str | None = None


class PortStatus(Part):
    """Whether a load balancer serves a port."""

    MERGE_KEY = ("port", "protocol")

    port: int = always(0)
    protocol: str = always("")
    error: str | None = None


class LoadBalancerIngress(Part):
    """Where a load balancer is reached."""

    MERGE_KEY = ("ip", "hostname")

    ip: str = ""
    hostname: str = ""
    ip_mode: str | None = None
    ports: tuple[PortStatus, ...] = ()


class LoadBalancerStatus(Part):
    """What the cloud made of a load balancer."""

    ingress: tuple[LoadBalancerIngress, ...] = ()


class ServiceStatus(Part):
    """What a service is."""

    load_balancer: LoadBalancerStatus = LoadBalancerStatus()
    conditions: tuple[Condition, ...] = ()


class Service(KubeObject):
    """A stable address for pods."""

    api_version: str = always("v1")
    kind: str = always("Service")
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()


class EndpointAddress(Part):
    """One address behind a service."""

    MERGE_KEY = ("ip",)

    ip: str = ""
    hostname: str = ""
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointPort(Part):
    """One port behind a service."""

    MERGE_KEY = ("port", "protocol")

    name: str = ""
    port: int = always(0)
    protocol: str = ""
    app_protocol: str | None = None


class EndpointSubset(Part):
    """Addresses that share the same ports."""

    addresses: tuple[EndpointAddress, ...] = ()
    not_ready_addresses: tuple[EndpointAddress, ...] = ()
    ports: tuple[EndpointPort, ...] = ()


class Endpoints(KubeObject):
    """The older form of EndpointSlices."""

    api_version: str = always("v1")
    kind: str = always("Endpoints")
    subsets: tuple[EndpointSubset, ...] = ()
