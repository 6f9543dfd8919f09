"""What the route controller does in one pass: which routes to remove and to make. Pure.

Without platforms this is upstream's rule: inside the cluster's range, a route that leads to no known node is removed.
With platforms a route of another's node must never look like an orphan, so that rule is turned round: a route is
removed only if it is known to be ours.

Invariants, with platforms:
1. A route that leads to a node that is not Owned, or whose range touches the pod range of one, is left as it is.
2. A route is removed only if its range was given to an Owned node before (`ours`), and to no other's since. A dead end
   (a blackhole) is no exception: the owner of its traffic is not known.
3. Routes are made, and the condition is written, for Owned nodes only.

Owned means here, too, that the cloud has confirmed the node's providerID (`confirmation`). A node that only claims to
be this cloud's is treated as another's.

Upstream: k8s.io/cloud-provider@v0.36.4/controllers/route/route_controller.go
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Callable, Collection, Iterable, Sequence

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.cloud.ownership import owned_by_id
from kube_fairlead.cloud.provider import Route

__all__ = ["IsConfirmed", "Network", "NewRoute", "RoutePlan", "forget", "parse_networks", "plan_routes", "remember"]

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
IsConfirmed = Callable[[Node], bool]


@dataclasses.dataclass(frozen=True, slots=True)
class NewRoute:
    """A route to make, to this node."""

    node: Node
    route: Route


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RoutePlan:
    """What to do, in this order: remove, make, then say of these nodes whether they can be reached."""

    remove: tuple[Route, ...]
    make: tuple[NewRoute, ...]
    report: tuple[Node, ...]

    def reached(self, node: Node, failed: Collection[tuple[str, str]]) -> bool:
        """Whether all routes to a node are there, given the (node, range) pairs that could not be made."""
        return bool(node.spec.pod_cidrs) and not any((node.name, cidr) in failed for cidr in node.spec.pod_cidrs)


def plan_routes(
    nodes: Sequence[Node],
    routes: Sequence[Route],
    *,
    platforms: Collection[str],
    is_confirmed: IsConfirmed,
    cluster_cidrs: Sequence[Network],
    ours: Collection[str] = (),
) -> RoutePlan:
    """What to do about these routes.

    Args:
        nodes: all nodes of the cluster, whosever they are.
        routes: all routes of this cloud that could be the cluster's.
        platforms: those of this manager; empty for a single cloud.
        is_confirmed: whether the cloud has confirmed a node's providerID.
        cluster_cidrs: the ranges that pods get addresses from.
        ours: pod ranges that Owned nodes have had since this manager began to look (`remember`, `forget`).
    """
    owned = [node for node in nodes if _is_own(node, platforms, is_confirmed)]
    others = [node for node in nodes if not _is_own(node, platforms, is_confirmed)]
    by_target: dict[tuple[str, str], list[Route]] = {}
    for route in routes:
        by_target.setdefault((route.target_node, route.destination_cidr), []).append(route)
    routed = {name for name, _ in by_target if name}
    kept: set[tuple[str, str]] = set()
    make: list[NewRoute] = []
    for node in owned:
        for cidr in node.spec.pod_cidrs:
            if any(_serves(route, node) for route in by_target.get((node.name, cidr), ())):
                kept.add((node.name, cidr))
            else:
                make.append(NewRoute(node, _route_to(node, cidr)))
    removable = _OwnRoutes(others, ours, make) if platforms else None
    remove = [
        route
        for route in routes
        if _is_within(route, cluster_cidrs)
        and (route.blackhole or (route.target_node, route.destination_cidr) not in kept)
        and (removable is None or removable.contains(route))
    ]
    report = [node for node in owned if node.spec.pod_cidrs or node.name in routed]
    return RoutePlan(remove=tuple(remove), make=tuple(make), report=tuple(report))


def remember(
    ours: Collection[str], nodes: Iterable[Node], platforms: Collection[str], is_confirmed: IsConfirmed
) -> set[str]:
    """What to remember for `ours` from now on: the ranges of Owned nodes too, and none that another's node has."""
    known = set(ours)
    others: list[Network] = []
    for node in nodes:
        if _is_own(node, platforms, is_confirmed):
            known.update(node.spec.pod_cidrs)
        else:
            others += _networks(node)
    # A range that has passed to another's node is that node's, also when it is gone.
    return {cidr for cidr in known if not _touches(_parse(cidr), others)}


def forget(
    ours: Collection[str],
    nodes: Iterable[Node],
    routes: Iterable[Route],
    platforms: Collection[str],
    is_confirmed: IsConfirmed,
) -> set[str]:
    """Drop ranges that no Owned node has and no route leads to any more: they may be reused."""
    in_use = {cidr for node in nodes if _is_own(node, platforms, is_confirmed) for cidr in node.spec.pod_cidrs}
    in_use |= {route.destination_cidr for route in routes}
    return set(ours) & in_use


def parse_networks(text: str) -> tuple[Network, ...]:
    """`--cluster-cidr`: one range, or one of each family.

    Raises:
        ValueError: it is not that.
    """
    networks = tuple(ipaddress.ip_network(part.strip(), strict=False) for part in text.split(","))
    if len(networks) > 2 or len({network.version for network in networks}) != len(networks):
        raise ValueError(f"{text!r} must be one range, or one of each IP family")
    return networks


def _is_own(node: Node, platforms: Collection[str], is_confirmed: IsConfirmed) -> bool:
    return owned_by_id(node, platforms) and (not platforms or is_confirmed(node))


class _OwnRoutes:
    """Which routes are known to be of this cloud's own nodes."""

    def __init__(self, others: Sequence[Node], ours: Collection[str], make: Sequence[NewRoute]) -> None:
        self._names = {node.name for node in others}
        self._ranges = [network for node in others for network in _networks(node)]
        self._ours = set(ours)
        # The addresses of a node changed: its own route is replaced.
        self._stale = {(new.node.name, new.route.destination_cidr) for new in make}

    def contains(self, route: Route) -> bool:
        network = _parse(route.destination_cidr)
        if network is None or route.target_node in self._names:
            return False
        if _touches(network, self._ranges):
            return False
        is_stale = (route.target_node, route.destination_cidr) in self._stale
        return is_stale or route.destination_cidr in self._ours


def _serves(route: Route, node: Node) -> bool:
    # Clouds that route to addresses need an update when those change.
    same = route.target_node_addresses is None or set(route.target_node_addresses) == set(node.status.addresses)
    return same and not route.blackhole


def _route_to(node: Node, cidr: str) -> Route:
    return Route(destination_cidr=cidr, target_node=node.name, target_node_addresses=node.status.addresses)


def _is_within(route: Route, cluster_cidrs: Sequence[Network]) -> bool:
    network = _parse(route.destination_cidr)
    if network is None:
        return False
    # Either end inside is enough, as upstream has it.
    return any(
        network.version == cluster.version
        and (network.network_address in cluster or network.broadcast_address in cluster)
        for cluster in cluster_cidrs
    )


def _parse(cidr: str) -> Network | None:
    try:
        return ipaddress.ip_network(cidr, strict=False)
    except ValueError:
        return None


def _networks(node: Node) -> list[Network]:
    return [network for cidr in node.spec.pod_cidrs if (network := _parse(cidr))]


def _touches(network: Network | None, taken: Iterable[Network]) -> bool:
    return network is not None and any(_overlap(network, other) for other in taken)


def _overlap(one: Network, other: Network) -> bool:
    if isinstance(one, ipaddress.IPv4Network) and isinstance(other, ipaddress.IPv4Network):
        return one.overlaps(other)
    if isinstance(one, ipaddress.IPv6Network) and isinstance(other, ipaddress.IPv6Network):
        return one.overlaps(other)
    return False
