from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api.core_v1 import Node, NodeAddress
from kube_fairlead.cloud.decisions.routes import forget, parse_networks, plan_routes, remember
from kube_fairlead.cloud.ownership import Ownership, ownership
from kube_fairlead.cloud.provider import Route
from tests.unit.cloud.world import node

CLUSTER = parse_networks("10.244.0.0/16")
PLATFORMS = frozenset({"aws"})
CIDRS = [f"10.244.{number}.0/24" for number in range(6)]


@pytest.mark.parametrize(
    ("text", "count"), [("10.0.0.0/8", 1), ("10.0.0.0/8,fd00::/48", 2), ("fd00::/48, 10.0.0.1/8", 2)]
)
def test_parse_networks(text: str, count: int) -> None:
    assert len(parse_networks(text)) == count


@pytest.mark.parametrize("text", ["", "10.0.0.0/8,11.0.0.0/8", "x", "10.0.0.0/8,fd00::/48,fd01::/48"])
def test_bad_networks_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)range|appear"):
        parse_networks(text)


def test_a_node_whose_addresses_changed_gets_its_route_anew() -> None:
    made = node("n1", "aws://1", pod_cidrs=[CIDRS[0]], addresses={"InternalIP": "10.0.0.2"})
    stale = Route(
        destination_cidr=CIDRS[0],
        target_node="n1",
        target_node_addresses=(NodeAddress(type="InternalIP", address="10.0.0.1"),),
    )
    for platforms in (PLATFORMS, frozenset[str]()):
        plan = plan_routes([made], [stale], platforms=platforms, is_confirmed=bool, cluster_cidrs=CLUSTER)
        assert plan.remove == (stale,)
        assert [new.route.target_node_addresses for new in plan.make] == [made.status.addresses]


def test_a_node_with_routes_and_without_a_range_is_reported() -> None:
    made = node("n1", "aws://1")
    plan = plan_routes(
        [made],
        [Route(destination_cidr=CIDRS[0], target_node="n1")],
        platforms=PLATFORMS,
        is_confirmed=bool,
        cluster_cidrs=CLUSTER,
    )
    assert plan.report == (made,)
    assert not plan.reached(made, ())


def test_unparsable_destinations_are_ignored() -> None:
    odd = [Route(destination_cidr=text, target_node="") for text in ("", "pl-123", "10.244.0.0/99", "::/0")]
    for platforms in (PLATFORMS, frozenset[str]()):
        assert plan_routes([], odd, platforms=platforms, is_confirmed=bool, cluster_cidrs=CLUSTER).remove == ()


ids = st.sampled_from(["aws://{}", "gce://{}", "", "aws:/{}"])


@st.composite
def clusters(draw: st.DrawFn) -> list[Node]:
    count = draw(st.integers(0, 5))
    cidrs = draw(st.permutations(CIDRS))
    return [
        node(f"n{number}", draw(ids).format(number), pod_cidrs=[cidrs[number]] if draw(st.booleans()) else [])
        for number in range(count)
    ]


tables = st.lists(
    st.builds(
        Route,
        destination_cidr=st.sampled_from([*CIDRS, "10.244.0.0/17", "10.244.3.128/25", "192.168.0.0/24"]),
        target_node=st.sampled_from(["", "gone", *(f"n{number}" for number in range(5))]),
        blackhole=st.booleans(),
    ),
    max_size=12,
)


@given(
    nodes=clusters(),
    routes=tables,
    ours=st.sets(st.sampled_from(CIDRS)),
    known=st.sets(st.sampled_from(["n0", "n1", "n2"])),
)
def test_invariants_of_any_plan(nodes: list[Node], routes: list[Route], ours: set[str], known: set[str]) -> None:
    def is_confirmed(one: Node) -> bool:
        return one.name in known

    plan = plan_routes(nodes, routes, platforms=PLATFORMS, is_confirmed=is_confirmed, cluster_cidrs=CLUSTER, ours=ours)
    mine = {one.name for one in nodes if ownership(one, PLATFORMS) is Ownership.OWNED and one.name in known}
    others = [one for one in nodes if one.name not in mine]
    taken = [ipaddress.ip_network(cidr) for one in others for cidr in one.spec.pod_cidrs]
    for route in plan.remove:
        network = ipaddress.ip_network(route.destination_cidr)
        assert route.target_node not in {one.name for one in others}
        assert not any(network.overlaps(other) for other in taken)
        made = {(new.node.name, new.route.destination_cidr) for new in plan.make}
        assert (route.target_node, route.destination_cidr) in made or route.destination_cidr in ours
        assert network.subnet_of(CLUSTER[0])  # type: ignore[arg-type]  # both are IPv4
    assert {new.node.name for new in plan.make} <= mine
    assert {one.name for one in plan.report} <= mine
    # Carried out, the plan leaves every owned node reached, and then there is nothing left to do.
    after = [route for route in routes if route not in plan.remove]
    after += [Route(destination_cidr=new.route.destination_cidr, target_node=new.node.name) for new in plan.make]
    again = plan_routes(nodes, after, platforms=PLATFORMS, is_confirmed=is_confirmed, cluster_cidrs=CLUSTER, ours=ours)
    assert again.make == ()
    assert again.remove == ()


def test_what_is_remembered_is_of_owned_nodes_and_of_no_others() -> None:
    mine, theirs = node("n1", "aws://1", pod_cidrs=[CIDRS[0]]), node("n2", "gce://2", pod_cidrs=[CIDRS[1]])
    assert remember((), [mine, theirs], PLATFORMS, bool) == {CIDRS[0]}
    assert remember({CIDRS[1], CIDRS[2]}, [mine, theirs], PLATFORMS, bool) == {CIDRS[0], CIDRS[2]}
    assert remember({CIDRS[0], CIDRS[2]}, [mine], PLATFORMS, lambda _node: False) == {CIDRS[2]}  # it only claims to be
    half = node("n3", pod_cidrs=["10.244.2.128/25"])  # Unknown is not Owned either
    assert remember({CIDRS[2], CIDRS[3]}, [half], PLATFORMS, bool) == {CIDRS[3]}


def test_what_nobody_uses_is_forgotten() -> None:
    mine, theirs = node("n1", "aws://1", pod_cidrs=[CIDRS[0]]), node("n2", "gce://2", pod_cidrs=[CIDRS[1]])
    left = [Route(destination_cidr=CIDRS[2], target_node="gone")]
    assert forget(CIDRS, [mine, theirs], left, PLATFORMS, bool) == {CIDRS[0], CIDRS[2]}
