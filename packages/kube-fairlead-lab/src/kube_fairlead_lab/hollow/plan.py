"""Which nodes there shall be: names, zones, clouds, addresses, capacity. Pure."""

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
# As a cloud's kubelets register: the cloud controller manager takes it away.
_UNINITIALIZED = Taint(key="node.cloudprovider.kubernetes.io/uninitialized", value="true", effect="NoSchedule")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """One node. Made by `plan_nodes`; a test may change it with `dataclasses.replace`."""

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
        count: how many.
        first: the number of the first.
        prefix: what their names begin with.
        clouds: the platforms they run on; an empty name is a machine of nobody's.
        provider_ids: whether their providerID says so.
        uninitialized: whether they wait for a cloud controller manager; then their providerID, and the labels that say
            what and where they are, are its to set.
        taints: more of them.

    Raises:
        ValueError: more nodes than there are addresses for.
    """
    if first + count > NODES_MAX:
        raise ValueError(f"at most {NODES_MAX} hollow nodes have addresses, not {first + count}")
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
    """Refuse nodes whose pods would have the addresses of others'.

    Args:
        plans: the nodes to be.
        others: the pod ranges that are in use, and by which node.

    Raises:
        ValueError: a range would be used twice; says which number is free.
    """
    for plan in plans:
        owner = others.get(plan.pod_cidr, plan.name)
        if owner != plan.name:
            raise ValueError(
                f"node {owner} has the pod range {plan.pod_cidr} that {plan.name} would get:"
                f" begin at another number, --first={_first_free(others)}"
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
            # What a machine is, and where, is the cloud controller manager's to say where there is one.
            **({} if uninitialized and cloud else _whereabouts(region, zone)),
        },
        taints=(*taints, _UNINITIALIZED) if uninitialized and cloud else taints,
    )


def _whereabouts(region: str, zone: str) -> dict[str, str]:
    return {
        "node.kubernetes.io/instance-type": "hollow",
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": zone,
    }


def _provider_id(cloud: str, zone: str, number: int) -> str:
    """In each cloud's own spelling."""
    match cloud:
        case "":
            return ""
        case "aws":
            return f"aws:///{zone}/i-{number:017x}"
        case _:
            return f"{cloud}://{number + 1}"
