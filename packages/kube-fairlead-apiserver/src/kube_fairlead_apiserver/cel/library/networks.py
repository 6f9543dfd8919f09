"""IP addresses and networks: ``ip('10.0.0.1')``, ``cidr('10.0.0.0/8').containsIP(...)``.

Upstream: k8s.io/apiserver@v0.36.4/pkg/cel/library/ip.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/library/cidr.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/ip.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/cidr.go
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

from kube_fairlead.api import golang
from kube_fairlead_apiserver.cel import errors, types, values
from kube_fairlead_apiserver.cel.declarations import Library, function, member
from kube_fairlead_apiserver.cel.library import costs
from kube_fairlead_apiserver.cel.types import BOOL, INT, STRING

__all__ = ["NETWORKS", "Address", "Network"]

_IP = types.opaque("net.IP")
_CIDR = types.opaque("net.CIDR")
_BITS = re.compile(r"0|[1-9][0-9]*")
_OCTET = re.compile(r"[0-9]+")
_IP_VERSIONS = ipaddress.IPv4Address | ipaddress.IPv6Address


class Address(values.Opaque):
    """An address without a zone. An IPv4 address mapped to IPv6 is not accepted."""

    __slots__ = ("address",)
    cel_type = _IP

    def __init__(self, address: _IP_VERSIONS) -> None:
        self.address = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)

    def cel_size(self) -> int:
        """Return the bytes of the address."""
        return self.address.max_prefixlen // 8


class Network(values.Opaque):
    """An address with a prefix length; the bits after the prefix are kept."""

    __slots__ = ("address", "prefix_length")
    cel_type = _CIDR

    def __init__(self, address: _IP_VERSIONS, prefix_length: int) -> None:
        self.address = address
        self.prefix_length = prefix_length

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Network):
            return False
        return self.address == other.address and self.prefix_length == other.prefix_length

    def __hash__(self) -> int:
        return hash((self.address, self.prefix_length))

    def cel_size(self) -> int:
        """Return the bytes of the prefix."""
        return -(-self.prefix_length // 8)

    def prefix(self, length: int) -> int:
        """Return the leading bits of the address."""
        return int(self.address) >> (self.address.max_prefixlen - length)


def _trouble(text: str) -> str:
    """Return why Go rejects this address, with Go's text where it is simple."""
    if "." in text and ":" not in text:
        parts = text.split(".")
        for position, part in enumerate(parts):
            if part and not _OCTET.fullmatch(part):
                match = re.search(r"[^0-9]", ".".join(parts[position:]))
                rest = ".".join(parts[position:])[match.start() if match else 0 :]
                return f"unexpected character (at {golang.quote(rest)})"
            if len(part) > 1 and part[0] == "0":
                return "IPv4 field has octet with leading zero"
            if part and int(part[:4]) > 255:
                return "IPv4 field has value >255"
            if not part:
                rest = (".".join(parts[position:]) or ".") if position else text
                return f"IPv4 field must have at least one digit (at {golang.quote(rest)})"
        return "IPv4 address too long" if len(parts) > 4 else "IPv4 address too short"
    return "unable to parse IP"


def _read(text: str) -> _IP_VERSIONS:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise errors.EvaluationError(f"ParseAddr({golang.quote(text)}): {_trouble(text)}") from None


def _ip(text: str) -> Address:
    quoted = golang.quote(text)
    try:
        address = _read(text)
    except errors.EvaluationError as error:
        raise errors.EvaluationError(
            f"IP Address {quoted} parse error during conversion from string: {error}"
        ) from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id:
            raise errors.EvaluationError(f"IP address {quoted} with zone value is not allowed")
        if address.ipv4_mapped:
            raise errors.EvaluationError(f"IPv4-mapped IPv6 address {quoted} is not allowed")
    return Address(address)


def _cidr(text: str) -> Network:
    quoted = golang.quote(text)
    before = "network address parse error during conversion from string"
    host, slash, bits = text.rpartition("/")
    trouble = ""
    address: _IP_VERSIONS = ipaddress.IPv4Address(0)
    if not slash:
        trouble = "no '/'"
    else:
        try:
            address = _read(host)
        except errors.EvaluationError as error:
            trouble = str(error)
    if not trouble:
        if isinstance(address, ipaddress.IPv6Address) and address.scope_id:
            trouble = "IPv6 zones cannot be present in a prefix"
        elif not _BITS.fullmatch(bits):
            trouble = f"bad bits after slash: {golang.quote(bits)}"
        elif len(bits) > 3 or int(bits) > address.max_prefixlen:
            trouble = "prefix length out of range"
    if trouble:
        raise errors.EvaluationError(f"{before}: {before}: netip.ParsePrefix({quoted}): {trouble}")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        raise errors.EvaluationError(f"{before}: IPv4-mapped IPv6 address {quoted} is not allowed")
    return Network(address, int(bits))


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except errors.EvaluationError:
            return False
        return True

    return check


def _is_link_local_multicast(value: Address) -> bool:
    packed = value.address.packed
    if len(packed) == 4:
        return packed[:3] == b"\xe0\x00\x00"
    return packed[0] == 0xFF and packed[1] & 0x0F == 0x02


def _is_global_unicast(value: Address) -> bool:
    address = value.address
    return not (
        address == ipaddress.IPv4Address("255.255.255.255")
        or address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
    )


def _contains_ip(network: Network, value: Address) -> bool:
    if network.address.version != value.address.version:
        return False
    other = Network(value.address, value.address.max_prefixlen)
    return network.prefix(network.prefix_length) == other.prefix(network.prefix_length)


def _contains_cidr(network: Network, other: Network) -> bool:
    if network.address.version != other.address.version or network.prefix_length > other.prefix_length:
        return False
    return network.prefix(network.prefix_length) == other.prefix(network.prefix_length)


def _masked(network: Network) -> Network:
    width = network.address.max_prefixlen
    kept = network.prefix(network.prefix_length) << (width - network.prefix_length)
    return Network(type(network.address)(kept), network.prefix_length)


def _containment_cost(arguments: tuple[Network, str | Address | Network]) -> int:
    network, other = arguments
    cost = -(-2 * network.cel_size() // 10)
    if isinstance(other, Network) or (isinstance(other, str) and "/" in other):
        cost += -(-network.cel_size() // 10) + 1
    return cost + (-(-len(other) // 10) if isinstance(other, str) else 0)


NETWORKS = Library(
    "kubernetes.net",
    overloads=(
        function("ip", (STRING,), _IP, _ip, costs.traversal),
        function("isIP", (STRING,), BOOL, _parses(_ip), costs.traversal),
        function("ip.isCanonical", (STRING,), BOOL, lambda text: str(_ip(text).address) == text, costs.twice),
        member("family", (_IP,), INT, lambda value: value.address.version),
        member("isUnspecified", (_IP,), BOOL, lambda value: value.address.is_unspecified),
        member("isLoopback", (_IP,), BOOL, lambda value: value.address.is_loopback),
        member("isLinkLocalMulticast", (_IP,), BOOL, _is_link_local_multicast),
        member("isLinkLocalUnicast", (_IP,), BOOL, lambda value: value.address.is_link_local),
        member("isGlobalUnicast", (_IP,), BOOL, _is_global_unicast),
        function("string", (_IP,), STRING, lambda value: str(value.address)),
        function("cidr", (STRING,), _CIDR, _cidr, costs.traversal),
        function("isCIDR", (STRING,), BOOL, _parses(_cidr), costs.traversal),
        member("containsIP", (_CIDR, STRING), BOOL, lambda net, text: _contains_ip(net, _ip(text)), _containment_cost),
        member("containsIP", (_CIDR, _IP), BOOL, _contains_ip, _containment_cost),
        member(
            "containsCIDR", (_CIDR, STRING), BOOL, lambda net, text: _contains_cidr(net, _cidr(text)), _containment_cost
        ),
        member("containsCIDR", (_CIDR, _CIDR), BOOL, _contains_cidr, _containment_cost),
        member("ip", (_CIDR,), _IP, lambda network: Address(network.address)),
        member("prefixLength", (_CIDR,), INT, lambda network: network.prefix_length),
        member("masked", (_CIDR,), _CIDR, _masked),
        function("string", (_CIDR,), STRING, lambda network: f"{network.address}/{network.prefix_length}"),
    ),
    types={"net.IP": _IP, "net.CIDR": _CIDR},
)
