"""Routes and load balancers of Hetzner Cloud, over HTTP, against an emulation of the calls they make."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kube_fairlead.api.core_v1 import Node, Service, ServicePort, ServiceSpec
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.environment import Environment
from kube_fairlead.cloud.errors import CloudRefused, ForeignId, NotReadyYet
from kube_fairlead.cloud.provider import ProviderSettings, Route
from kube_fairlead.cloud.providers.hcloud import HetznerProvider, provider
from kube_fairlead.cloud.providers.hcloud.loadbalancers import HetznerLoadBalancers
from kube_fairlead.cloud.providers.hcloud.routes import HetznerRoutes
from tests.clouds.hetzner import TOKEN, EmulatedHetzner, emulated_hetzner
from tests.unit.cloud.world import NO_CLUSTER, node

PREFIX = "load-balancer.hetzner.cloud/"
UID = "0a1b2c3d-0000-4000-8000-00000000000f"


@pytest.fixture
async def hetzner() -> AsyncIterator[EmulatedHetzner]:
    async with emulated_hetzner() as emulated:
        yield emulated


@contextlib.asynccontextmanager
async def running(hetzner: EmulatedHetzner, **environment: str) -> AsyncIterator[HetznerProvider]:
    given = {"HCLOUD_TOKEN": TOKEN, "HCLOUD_ENDPOINT": hetzner.url, "HCLOUD_NETWORK": "cluster", **environment}
    made = provider(
        ProviderSettings(cloud_config=None, cluster_name="test", clock=RealClock(), environment=Environment(given))
    )
    async with made.running(NO_CLUSTER):
        yield made


@pytest.fixture
async def routes(hetzner: EmulatedHetzner) -> AsyncIterator[HetznerRoutes]:
    async with running(hetzner) as made:
        assert made.routes is not None
        yield made.routes


@pytest.fixture
async def balancers(hetzner: EmulatedHetzner) -> AsyncIterator[HetznerLoadBalancers]:
    async with running(hetzner, HCLOUD_LOAD_BALANCERS_LOCATION="fsn1") as made:
        yield made.load_balancers


def server(hetzner: EmulatedHetzner, name: str) -> Node:
    number = hetzner.launch(name)
    address = {"InternalIP": hetzner.servers[number]["private_net"][0]["ip"]}
    return node(name, f"hcloud://{number}", addresses=address)


def gateway(one: Node) -> str:
    return one.status.addresses[0].address


def service(*ports: int, annotations: dict[str, str] | None = None, **spec: Any) -> Service:
    return Service(
        metadata=ObjectMeta(
            name="web",
            namespace="default",
            uid=UID,
            annotations={f"{PREFIX}{key}": value for key, value in (annotations or {}).items()},
        ),
        spec=ServiceSpec(
            type="LoadBalancer",
            ports=tuple(ServicePort(port=one, protocol="TCP", node_port=30000 + one) for one in ports or (80,)),
            **spec,
        ),
    )


def only(hetzner: EmulatedHetzner) -> dict[str, Any]:
    [made] = hetzner.balancers.values()
    return made


def targets(hetzner: EmulatedHetzner) -> list[str]:
    return sorted(f"hcloud://{one['server']['id']}" for one in only(hetzner)["targets"])


async def test_routes_are_made_listed_and_removed(hetzner: EmulatedHetzner, routes: HetznerRoutes) -> None:
    first = server(hetzner, "n1")
    foreign = node("elsewhere", "aws:///z/i-1", addresses={"InternalIP": gateway(first)})  # ranges may overlap
    administrators = {"destination": "10.50.0.0/16", "gateway": "10.0.0.1"}
    hetzner.network["routes"].append(administrators)
    wanted = Route(destination_cidr="10.244.1.0/24", target_node="n1")
    for _ in range(2):  # one that is there already is no error
        await routes.create_route("test", "hint", wanted, first)
    assert hetzner.network["routes"] == [administrators, {"destination": "10.244.1.0/24", "gateway": gateway(first)}]
    listed = await routes.list_routes("test", [foreign, first])
    assert {(one.destination_cidr, one.target_node) for one in listed} == {
        ("10.50.0.0/16", ""),
        ("10.244.1.0/24", "n1"),
    }
    for _ in range(2):  # nor is one that is gone
        await routes.delete_route("test", listed[1])
    assert hetzner.network["routes"] == [administrators]


async def test_routes_that_cannot_be(hetzner: EmulatedHetzner, routes: HetznerRoutes) -> None:
    first, second = server(hetzner, "n1"), server(hetzner, "n2")
    with pytest.raises(CloudRefused, match="carry IPv4 only"):
        await routes.create_route("test", "", Route(destination_cidr="fd00::/64", target_node="n1"), first)
    route = Route(destination_cidr="10.244.1.0/24", target_node="n1")
    await routes.create_route("test", "", route, first)
    with pytest.raises(CloudRefused, match=f"a route to 10.244.1.0/24 already, through {gateway(first)}"):
        await routes.create_route("test", "", route, second)
    with pytest.raises(ForeignId):
        await routes.create_route("test", "", route, node("n3", "hrobot://1"))
    outside = server(hetzner, "n4")
    hetzner.servers[int(outside.spec.provider_id.rpartition("/")[2])]["private_net"] = []
    with pytest.raises(CloudRefused, match="n4 is not in the network"):
        await routes.create_route("test", "", Route(destination_cidr="10.244.4.0/24", target_node="n4"), outside)
    hetzner.is_locked = True
    with pytest.raises(NotReadyYet):
        await routes.delete_route("test", Route(destination_cidr="10.244.1.0/24", target_node="", name=gateway(first)))


async def test_an_action_that_fails_is_refused(hetzner: EmulatedHetzner, routes: HetznerRoutes) -> None:
    hetzner.breaks_at = "add_route"
    with pytest.raises(CloudRefused, match="add_route: Action failed"):
        await routes.create_route(
            "test", "", Route(destination_cidr="10.244.1.0/24", target_node="n1"), server(hetzner, "n1")
        )


async def test_a_load_balancer_from_its_making_to_its_end(
    hetzner: EmulatedHetzner, balancers: HetznerLoadBalancers
) -> None:
    one, two = server(hetzner, "n1"), server(hetzner, "n2")
    assert await balancers.get_load_balancer("test", service()) is None
    status = await balancers.ensure_load_balancer("test", service(80, 443), [one])
    assert [ingress.ip for ingress in status.ingress] == ["198.51.100.7", "2001:db8::7"]
    assert await balancers.get_load_balancer("test", service()) == status
    made = only(hetzner)
    assert made["name"] == balancers.get_load_balancer_name("test", service()) == "a0a1b2c3d00004000800000000000000"
    assert made["location"]["name"] == "fsn1"
    assert {(port["listen_port"], port["destination_port"]) for port in made["services"]} == {(80, 30080), (443, 30443)}
    assert targets(hetzner) == [one.spec.provider_id]
    before = len([request for request in hetzner.requests if request.startswith("POST")])
    await balancers.ensure_load_balancer("test", service(80, 443), [one])
    assert len([request for request in hetzner.requests if request.startswith("POST")]) == before  # it was in line
    await balancers.update_load_balancer("test", service(80, 443), [two])
    assert targets(hetzner) == [two.spec.provider_id]
    await balancers.ensure_load_balancer("test", service(443, 8080), [one, two])
    assert {port["listen_port"] for port in made["services"]} == {443, 8080}
    for _ in range(2):
        await balancers.ensure_load_balancer_deleted("test", service())
    assert hetzner.balancers == {}
    assert await balancers.get_load_balancer("test", service()) is None
    with pytest.raises(CloudRefused, match="no load balancer for default/web"):
        await balancers.update_load_balancer("test", service(), [one])


async def test_what_a_service_may_ask_for(hetzner: EmulatedHetzner, balancers: HetznerLoadBalancers) -> None:
    one = server(hetzner, "n1")
    asked = {
        "name": "web",
        "network-zone": "eu-central",
        "type": "lb21",
        "algorithm-type": "least_connections",
        "use-private-ip": "true",
        "uses-proxyprotocol": "true",
        "disable-public-network": "true",
    }
    local = service(annotations=asked, external_traffic_policy="Local", health_check_node_port=31000)
    status = await balancers.ensure_load_balancer("test", local, [one])
    assert [ingress.ip for ingress in status.ingress] == ["10.0.0.250"]
    made = only(hetzner)
    assert (made["name"], made["network_zone"], made["algorithm"]) == (
        "web",
        "eu-central",
        {"type": "least_connections"},
    )
    [listener] = made["services"]
    assert listener["proxyprotocol"] is True
    assert listener["health_check"]["port"] == 31000
    assert listener["health_check"]["http"]["path"] == "/healthz"
    assert made["targets"][0]["use_private_ip"] is True
    # And back to what is usual.
    usual = service(annotations={"ipv6-disabled": "true", "disable-public-network": "false", "type": "lb11"})
    status = await balancers.ensure_load_balancer("test", usual, [one])
    assert [ingress.ip for ingress in status.ingress] == ["198.51.100.7"]
    assert made["load_balancer_type"]["name"] == "lb11"
    assert [target["use_private_ip"] for target in made["targets"]] == [False]
    named = service(annotations={"hostname": "web.example.com"})
    status = await balancers.ensure_load_balancer("test", named, [one])
    assert [ingress.hostname for ingress in status.ingress] == ["web.example.com"]


@pytest.mark.parametrize(
    ("annotations", "spec", "why"),
    [
        ({"protocol": "https"}, {}, "annotation load-balancer.hetzner.cloud/protocol is not supported"),
        ({"type": "lb11", "algorithm-type": "random"}, {}, "must be least_connections or round_robin"),
        ({"use-private-ip": "maybe"}, {}, "must be true or false, got 'maybe'"),
        ({"location": "fsn1", "network-zone": "eu-central"}, {}, "exactly one of the annotations"),
        ({}, {"load_balancer_source_ranges": ("192.0.2.0/24",)}, "loadBalancerSourceRanges"),
        ({}, {"session_affinity": "ClientIP"}, "sessionAffinity ClientIP is not supported"),
        ({}, {"ports": (ServicePort(port=53, protocol="UDP", node_port=30053),)}, "protocol UDP is not supported"),
        ({}, {"ports": (ServicePort(port=53, protocol="TCP"),)}, "every port needs a node port"),
    ],
)
async def test_what_it_may_not_ask_for_is_refused(
    hetzner: EmulatedHetzner,
    balancers: HetznerLoadBalancers,
    annotations: dict[str, str],
    spec: dict[str, Any],
    why: str,
) -> None:
    wrong = service(annotations=annotations)
    ports = spec.pop("ports", wrong.spec.ports)
    wrong = Service(metadata=wrong.metadata, spec=ServiceSpec(type="LoadBalancer", ports=ports, **spec))
    with pytest.raises(CloudRefused, match=why):
        await balancers.ensure_load_balancer("test", wrong, [])
    assert hetzner.balancers == {}
    await balancers.ensure_load_balancer("test", service(), [])
    with pytest.raises(CloudRefused, match=why):
        await balancers.ensure_load_balancer("test", wrong, [])
    # Only what lets in clients that the Service excludes is closed. Everything else goes on as it was.
    assert bool(only(hetzner)["services"]) is (why != "loadBalancerSourceRanges")


async def test_what_a_service_does_not_say_stays_as_it_was_made(
    hetzner: EmulatedHetzner, balancers: HetznerLoadBalancers
) -> None:
    """Another manager made it larger, or private: taking it over neither shrinks nor opens it."""
    larger = {"type": "lb21", "algorithm-type": "least_connections", "disable-public-network": "true"}
    await balancers.ensure_load_balancer("test", service(annotations=larger), [])
    await balancers.ensure_load_balancer("test", service(), [])
    made = only(hetzner)
    assert made["load_balancer_type"]["name"] == "lb21"
    assert made["algorithm"] == {"type": "least_connections"}
    assert made["public_net"]["enabled"] is False


async def test_a_load_balancer_that_is_there_needs_no_place(hetzner: EmulatedHetzner) -> None:
    """The variable went away with an edit of a Secret: nothing may happen to what works."""
    async with running(hetzner, HCLOUD_LOAD_BALANCERS_LOCATION="fsn1") as first:
        await first.load_balancers.ensure_load_balancer("test", service(), [])
    async with running(hetzner) as second:
        await second.load_balancers.ensure_load_balancer("test", service(), [])
        assert only(hetzner)["services"]
        del hetzner.balancers[only(hetzner)["id"]]
        with pytest.raises(CloudRefused, match="say where"):
            await second.load_balancers.ensure_load_balancer("test", service(), [])


async def test_one_server_that_cannot_be_a_target_keeps_no_other_out(
    hetzner: EmulatedHetzner, balancers: HetznerLoadBalancers
) -> None:
    gone, there = node("gone", "hcloud://1"), server(hetzner, "n1")
    with pytest.raises(CloudRefused, match="not_found"):
        await balancers.ensure_load_balancer("test", service(), [gone, there])
    assert targets(hetzner) == [there.spec.provider_id]


async def test_a_name_that_is_taken_and_two_of_one_service(
    hetzner: EmulatedHetzner, balancers: HetznerLoadBalancers
) -> None:
    await balancers.ensure_load_balancer("test", service(annotations={"name": "web"}), [])
    only(hetzner)["labels"] = {}
    with pytest.raises(CloudRefused, match="uniqueness_error"):
        await balancers.ensure_load_balancer("test", service(annotations={"name": "web"}), [])
    await balancers.ensure_load_balancer("test", service(), [])
    for made in hetzner.balancers.values():
        made["labels"] = {"hcloud-ccm/service-uid": UID}
    with pytest.raises(CloudRefused, match="several load balancers bear the uid of default/web"):
        await balancers.get_load_balancer("test", service())


async def test_without_a_place_or_a_network_it_says_so(hetzner: EmulatedHetzner) -> None:
    async with running(hetzner, HCLOUD_NETWORK="") as made:
        with pytest.raises(CloudRefused, match="HCLOUD_LOAD_BALANCERS_LOCATION"):
            await made.load_balancers.ensure_load_balancer("test", service(), [])
        private = service(annotations={"use-private-ip": "true", "location": "fsn1"})
        with pytest.raises(CloudRefused, match="needs HCLOUD_NETWORK"):
            await made.load_balancers.ensure_load_balancer("test", private, [])
