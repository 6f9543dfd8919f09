"""Which addresses a node gets from its cloud. Pure.

Upstream: k8s.io/cloud-provider@v0.36.4/node/helpers/address.go,
    k8s.io/cloud-provider@v0.36.4/controllers/node/node_controller.go
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from kube_fairlead.api.core_v1 import Node, NodeAddress
from kube_fairlead.cloud.wellknown import ANNOTATION_PROVIDED_NODE_IP

__all__ = ["AddressMismatch", "changed_addresses", "node_addresses"]

_HOSTNAME = "Hostname"
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressMismatch(ValueError):
    """Raised when the kubelet was given an address that the cloud does not know."""


def changed_addresses(node: Node, from_cloud: tuple[NodeAddress, ...]) -> tuple[NodeAddress, ...] | None:
    """The addresses to write; None when there is nothing to write.

    Raises:
        AddressMismatch: the node says an address of its own that is not among the cloud's.
    """
    if not from_cloud:
        return None
    addresses = from_cloud
    if not any(address.type == _HOSTNAME for address in addresses):
        # The kubelet's own word, when the cloud has none.
        addresses += tuple(address for address in node.status.addresses if address.type == _HOSTNAME)
    addresses = node_addresses(node, addresses)
    return addresses if _differ(node.status.addresses, addresses) else None


def node_addresses(node: Node, from_cloud: tuple[NodeAddress, ...]) -> tuple[NodeAddress, ...]:
    """The cloud's addresses as the node wants them: those that the kubelet was given first, alone of their type.

    Raises:
        AddressMismatch: the node says an address of its own that is not among the cloud's.
    """
    provided = node.metadata.annotations.get(ANNOTATION_PROVIDED_NODE_IP)
    if provided is None:
        return from_cloud
    preferred: list[NodeAddress] = []
    for wanted in _parse_provided(provided):
        matching = [address for address in from_cloud if _parse(address.address) == wanted]
        if not matching:
            raise AddressMismatch(f"failed to get node address from cloud provider that matches ip: {wanted}")
        preferred += matching
    taken = {address.type for address in preferred}
    return (*preferred, *(address for address in from_cloud if address.type not in taken))


def _parse_provided(text: str) -> Iterable[IPAddress]:
    addresses = [_parse(part.strip()) for part in text.split(",")]
    known = [address for address in addresses if address is not None]
    families = {address.version for address in known}
    if not known or len(known) != len(addresses) or len(known) > 2 or len(families) != len(known):
        raise AddressMismatch(f"failed to parse node IP {text!r}: one address, or one of each family, is needed")
    return known


def _parse(text: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _differ(before: tuple[NodeAddress, ...], after: tuple[NodeAddress, ...]) -> bool:
    # As upstream, but with all addresses of a type compared, not only its last.
    return sorted((one.type, one.address) for one in before) != sorted((one.type, one.address) for one in after)
