"""Between the provider protocol and the messages of the contract. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kube_fairlead.api.core_v1 import LoadBalancerIngress, LoadBalancerStatus, Node, NodeAddress, Service
from kube_fairlead.cloud.provider import Instance, Route
from kube_fairlead.cloud.providers.external.channel import message

__all__ = [
    "batches",
    "decode_instance",
    "decode_route",
    "decode_status",
    "encode_node",
    "encode_route",
    "encode_service",
    "load_balancer_name",
]

# Servers in Go take 4 MiB unless they say otherwise.
_BATCH_BYTES: Final = 1 << 20
_BATCH: Final = 500


def load_balancer_name(service: Service) -> str:
    """As upstream names load balancers."""
    return f"a{service.uid.replace('-', '')}"[:32]


def encode_node(node: Node, *, whole: bool = True) -> Any:
    """A Node; without its labels and annotations where there are many."""
    made = message("Node")(
        name=node.name,
        uid=node.uid,
        provider_id=node.spec.provider_id,
        labels=node.metadata.labels if whole else {},
        annotations=node.metadata.annotations if whole else {},
        pod_cidrs=list(node.spec.pod_cidrs),
    )
    for one in node.status.addresses:
        made.addresses.add(type=one.type, address=one.address)
    return made


def batches(nodes: Iterable[Node]) -> Iterator[list[Any]]:
    """Nodes, as many at once as fit into one message."""
    batch: list[Any] = []
    size = 0
    for node in nodes:
        encoded = encode_node(node)
        if batch and (len(batch) == _BATCH or size + encoded.ByteSize() > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(encoded)
        size += encoded.ByteSize()
    if batch:
        yield batch


def decode_instance(made: Any) -> Instance:
    """What a cloud knows of a machine."""
    return Instance(
        provider_id=made.provider_id,
        shutdown=made.shutdown,
        instance_type=made.instance_type,
        addresses=tuple(NodeAddress(type=one.type, address=one.address) for one in made.addresses),
        zone=made.zone,
        region=made.region,
        additional_labels=dict(made.additional_labels),
    )


def encode_route(route: Route) -> Any:
    """A Route."""
    return message("Route")(
        name=route.name,
        destination_cidr=route.destination_cidr,
        target_node=route.target_node,
        blackhole=route.blackhole,
    )


def decode_route(made: Any) -> Route:
    """A route of the cloud's."""
    return Route(
        name=made.name,
        destination_cidr=made.destination_cidr,
        target_node=made.target_node,
        blackhole=made.blackhole,
    )


def encode_service(service: Service) -> Any:
    """A Service."""
    spec = service.spec
    made = message("Service")(
        namespace=service.namespace,
        name=service.name,
        uid=service.uid,
        labels=service.metadata.labels,
        annotations=service.metadata.annotations,
        load_balancer_ip=spec.load_balancer_ip,
        load_balancer_source_ranges=list(spec.load_balancer_source_ranges),
        session_affinity=spec.session_affinity,
        external_traffic_policy=spec.external_traffic_policy,
        health_check_node_port=spec.health_check_node_port,
        ip_families=list(spec.ip_families),
        load_balancer_name=load_balancer_name(service),
    )
    for port in spec.ports:
        made.ports.add(
            name=port.name,
            protocol=port.protocol,
            port=port.port,
            node_port=port.node_port,
            app_protocol=port.app_protocol or "",
        )
    return made


def decode_status(made: Any) -> LoadBalancerStatus:
    """Where a load balancer is reached."""
    return LoadBalancerStatus(
        ingress=tuple(LoadBalancerIngress(ip=one.ip, hostname=one.hostname) for one in made.ingress)
    )
