"""The plan of hollow nodes: names, zones, clouds, addresses, capacity. Pure."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Iterable, Mapping, Sequence

from kube_fairlead.api.core_v1 import Taint

__all__ = ["NODES_MAX", "NodePlan", "check_ranges", "plan_nodes"]

# Every node has a /24 for its pods out of 10.64.0.0/10.
_POD_NETWORK = ipaddress.IPv4Address("10.64.0.0")
_NODE_NETWORK = ipaddress.IPv4Address("172.16.0.1")
NODES_MAX = 2**14

_ZONES = 3
_PODS_MAX = 110  # the kubelet's default
# The taint of a new node of a cloud; the cloud controller manager removes it.
_UNINITIALIZED = Taint(key="node.cloudprovider.kubernetes.io/uninitialized", value="true", effect="NoSchedule")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """One node. `plan_nodes` creates it; a test can change it with `dataclasses.replace`."""

    name: str
    address: str
    pod_cidr: str
    provider_id: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    capacity: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": str(_PODS_MAX)}
    )


def plan_nodes(
    count: int,
    *,
    first: int = 0,
    prefix: str = "hollow-",
    clouds: Sequence[str] = ("aws", "hcloud"),
    provider_ids: bool = True,
    uninitialized: bool = False,
    taints: Sequence[Taint] = (),
) -> list[NodePlan]:
    """Nodes `<prefix><number>`, spread over clouds and over three zones of each.

    Args:
        count: number of nodes.
        first: number of the first node.
        prefix: prefix of their names.
        clouds: their platforms, in turn; an empty name is a node without a cloud.
        provider_ids: whether to set their providerID.
        uninitialized: whether they wait for a cloud controller manager, which then sets providerID and the labels of
            type, region and zone.
        taints: additional taints.

    Raises:
        ValueError: there are not enough addresses.
    """
    if first + count > NODES_MAX:
        raise ValueError(f"there are addresses for {NODES_MAX} hollow nodes, not for {first + count}")
    return [
        _plan(
            number,
            prefix,
            clouds or [""],
            tuple(taints),
            provider_ids=provider_ids and not uninitialized,
            uninitialized=uninitialized,
        )
        for number in range(first, first + count)
    ]


def check_ranges(plans: Iterable[NodePlan], others: Mapping[str, str]) -> None:
    """Reject nodes whose pod ranges are in use.

    Args:
        plans: the planned nodes.
        others: used pod ranges, and their nodes.

    Raises:
        ValueError: a range is in use; the message names a free number.
    """
    for plan in plans:
        owner = others.get(plan.pod_cidr, plan.name)
        if owner != plan.name:
            raise ValueError(
                f"node {owner} already has the pod range {plan.pod_cidr} of {plan.name}:"
                f" use another first number, such as --first={_first_free(others)}"
            )


def _first_free(ranges: Iterable[str]) -> int:
    starts = [int(ipaddress.IPv4Network(one).network_address) for one in ranges if ":" not in one]
    numbers = [(start - int(_POD_NETWORK)) // 256 for start in starts]
    return max((number + 1 for number in numbers if 0 <= number < NODES_MAX), default=0)


def _plan(
    number: int,
    prefix: str,
    clouds: Sequence[str],
    taints: tuple[Taint, ...],
    *,
    provider_ids: bool,
    uninitialized: bool,
) -> NodePlan:
    cloud = clouds[number % len(clouds)]
    region = f"{cloud or 'site'}-1"
    zone = f"{region}{'abc'[number // len(clouds) % _ZONES]}"
    name = f"{prefix}{number}"
    return NodePlan(
        name=name,
        address=str(_NODE_NETWORK + number),
        pod_cidr=f"{_POD_NETWORK + number * 256}/24",
        provider_id=_provider_id(cloud, zone, number) if provider_ids else "",
        labels={
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            # A cloud controller manager sets the labels of type and location.
            **({} if uninitialized and cloud else _location_labels(region, zone)),
        },
        taints=(*taints, _UNINITIALIZED) if uninitialized and cloud else taints,
    )


def _location_labels(region: str, zone: str) -> dict[str, str]:
    return {
        "node.kubernetes.io/instance-type": "hollow",
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": zone,
    }


def _provider_id(cloud: str, zone: str, number: int) -> str:
    """Return the providerID in each cloud's own format."""
    match cloud:
        case "":
            return ""
        case "aws":
            return f"aws:///{zone}/i-{number:017x}"
        case _:
            return f"{cloud}://{number + 1}"
