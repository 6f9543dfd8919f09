"""The provider that calls a cloud over gRPC, against a real server: over TLS, and over a unix socket."""

from __future__ import annotations

import contextlib
import pathlib
import re
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpclib
import pytest

from kube_fairlead.api.core_v1 import Service, ServicePort, ServiceSpec
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.environment import Environment
from kube_fairlead.cloud.checked import checked
from kube_fairlead.cloud.errors import (
    CloudError,
    CloudRefused,
    CloudUnavailable,
    ForeignId,
    ImplementedElsewhere,
    NotReadyYet,
    ProviderError,
    ProviderFault,
)
from kube_fairlead.cloud.provider import ProviderSettings, Route, query_for
from kube_fairlead.cloud.providers.external import provider
from kube_fairlead.cloud.providers.external.channel import message
from kube_fairlead.cloud.providers.external.provider import ExternalProvider
from kube_fairlead.cloud.registry import make_provider
from kube_fairlead_lab.testing.credentials import CertificateAuthority
from tests.clouds.external import METHODS, ExternalCloud
from tests.unit.cloud.world import NO_CLUSTER, NODE, node

PROTO = pathlib.Path(__file__).parents[6] / "proto" / "fairlead" / "cloud" / "v1alpha1" / "provider.proto"
ALL = "parts: [instances, routes, loadBalancers]\n"


def settings(path: pathlib.Path | None) -> ProviderSettings:
    return ProviderSettings(cloud_config=path, cluster_name="test", clock=RealClock(), environment=Environment({}))


def made(folder: pathlib.Path, text: str) -> ExternalProvider:
    path = folder / "cloud.yaml"
    path.write_text(text, encoding="utf-8")
    return provider(settings(path))


@pytest.fixture
async def cloud(short_path: pathlib.Path) -> AsyncIterator[ExternalCloud]:
    served = ExternalCloud()
    async with served.serving(path=short_path / "cloud.sock"):
        yield served


@pytest.fixture
async def external(cloud: ExternalCloud, short_path: pathlib.Path) -> AsyncIterator[ExternalProvider]:
    found = made(short_path, f"address: unix://{short_path}/cloud.sock\nplatforms: [nimbus]\n{ALL}")
    async with found.running(NO_CLUSTER):
        yield found
    assert cloud.requests[0][1].cluster_name == "test"


def service(**spec: Any) -> Service:
    ports = (ServicePort(name="http", port=80, protocol="TCP", node_port=30080),)
    return Service(
        metadata=ObjectMeta(name="web", namespace="default", uid="0a-1b", annotations={"size": "xl"}),
        spec=ServiceSpec(type="LoadBalancer", ports=ports, **spec),
    )


def answering(answer: Any) -> Callable[[Any], Any]:
    return lambda _request: answer


async def test_instances(cloud: ExternalCloud, external: ExternalProvider) -> None:
    assert external.instances is not None
    instance = message("Instance")(provider_id="nimbus://1", zone="z", additional_labels={"a": "b"}, shutdown=True)
    instance.addresses.add(type="InternalIP", address="10.0.0.1")
    cloud.answers["DescribeInstances"] = lambda _: message("DescribeInstancesResponse")(instances={"n1": instance})
    queries = [query_for(node("n1", labels={"rack": "7"})), query_for(node("n2", "nimbus://2"))]
    found = await external.instances.describe(queries)
    assert list(found) == queries[:1]
    assert found[queries[0]].addresses[0].address == "10.0.0.1"
    assert found[queries[0]].shutdown
    assert found[queries[0]].additional_labels == {"a": "b"}
    asked = cloud.last("DescribeInstances").nodes
    assert [(one.name, one.provider_id, dict(one.labels)) for one in asked] == [
        ("n1", "", {"rack": "7"}),
        ("n2", "nimbus://2", {}),
    ]
    cloud.answers["DescribeInstances"] = lambda _: message("DescribeInstancesResponse")(instances={"n9": instance})
    with pytest.raises(ProviderFault, match="'n9', which was not in the query"):
        await external.instances.describe(queries)


async def test_gone_is_what_the_cloud_says_is_gone(cloud: ExternalCloud, external: ExternalProvider) -> None:
    assert external.instances is not None
    said = {"nimbus://1": 1, "nimbus://2": 2, "nimbus://3": 0, "nimbus://4": 7}
    cloud.answers["InstancesExist"] = lambda _: message("InstancesExistResponse")(instances=said)
    nodes = {one: node("n", one) for one in (*said, "nimbus://5", "aws://6")}
    assert await external.instances.which_exist(nodes) == {"nimbus://1": True, "nimbus://2": False}
    assert [one.provider_id for one in cloud.last("InstancesExist").nodes] == [*said, "nimbus://5"]
    assert not await external.instances.exists("nimbus://2", node("n", "nimbus://2"))
    with pytest.raises(CloudUnavailable, match="cannot say whether nimbus://3 exists"):
        await external.instances.exists("nimbus://3", node("n", "nimbus://3"))
    with pytest.raises(ForeignId):
        await external.instances.exists("aws://6", NODE)


async def test_many_nodes_are_several_messages(cloud: ExternalCloud, external: ExternalProvider) -> None:
    assert external.instances is not None
    large = {"note": "x" * 300_000}
    nodes = [node(f"n{number}", annotations=large if number < 5 else {}) for number in range(600)]
    assert await external.instances.describe([query_for(one) for one in nodes]) == {}
    batches = [request for name, request in cloud.requests if name == "DescribeInstances"]
    assert [one.name for batch in batches for one in batch.nodes] == [one.name for one in nodes]
    assert [len(batch.nodes) for batch in batches] == [3, 500, 97]
    assert all(batch.ByteSize() < 4 << 20 for batch in batches)


async def test_routes(cloud: ExternalCloud, external: ExternalProvider) -> None:
    assert external.routes is not None
    answer = message("ListRoutesResponse")()
    answer.routes.add(name="r1", destination_cidr="10.244.1.0/24", target_node="n1", blackhole=True)
    cloud.answers["ListRoutes"] = lambda _: answer
    route = Route(name="r1", destination_cidr="10.244.1.0/24", target_node="n1", blackhole=True)
    assert await external.routes.list_routes("test", [node("n1", labels={"a": "b"})]) == [route]
    asked = cloud.last("ListRoutes")
    assert (asked.cluster_name, asked.nodes[0].name, dict(asked.nodes[0].labels)) == ("test", "n1", {})
    await external.routes.create_route("test", "hint", route, node("n1", pod_cidrs=["10.244.1.0/24"]))
    asked = cloud.last("CreateRoute")
    assert (asked.name_hint, asked.route.target_node, list(asked.node.pod_cidrs)) == ("hint", "n1", ["10.244.1.0/24"])
    await external.routes.delete_route("test", route)
    assert cloud.last("DeleteRoute").route.name == "r1"


async def test_load_balancers(cloud: ExternalCloud, external: ExternalProvider) -> None:
    balancers = external.load_balancers
    assert balancers is not None
    assert await balancers.get_load_balancer("test", service()) is None
    status = message("LoadBalancerStatus")()
    cloud.answers["GetLoadBalancer"] = lambda _: message("GetLoadBalancerResponse")(status=status)
    found = await balancers.get_load_balancer("test", service())
    assert found is not None
    assert found.ingress == ()  # one without an address exists too
    status.ingress.add(ip="192.0.2.1")
    cloud.answers["EnsureLoadBalancer"] = lambda _: message("EnsureLoadBalancerResponse")(status=status)
    ensured = await balancers.ensure_load_balancer("test", service(session_affinity="ClientIP"), [node("n1")])
    assert ensured.ingress[0].ip == "192.0.2.1"
    asked = cloud.last("EnsureLoadBalancer")
    assert (asked.service.ports[0].node_port, asked.service.annotations["size"]) == (30080, "xl")
    assert (asked.service.session_affinity, asked.nodes[0].name) == ("ClientIP", "n1")
    assert asked.service.load_balancer_name == balancers.get_load_balancer_name("test", service()) == "a0a1b"
    outcomes: list[tuple[dict[str, Any], type[CloudError]]] = [
        ({"retry_after_seconds": 3.0}, NotReadyYet),
        ({"implemented_elsewhere": True}, ImplementedElsewhere),
        ({}, ProviderFault),
    ]
    for outcome, error in outcomes:
        cloud.answers["EnsureLoadBalancer"] = answering(message("EnsureLoadBalancerResponse")(**outcome))
        with pytest.raises(error):
            await balancers.ensure_load_balancer("test", service(), [])
    await balancers.update_load_balancer("test", service(), [node("n2")])
    assert cloud.last("UpdateLoadBalancer").nodes[0].name == "n2"
    await balancers.ensure_load_balancer_deleted("test", service())
    assert cloud.last("DeleteLoadBalancer").service.uid == "0a-1b"


@pytest.mark.parametrize("code", [one for one in grpclib.const.Status if one is not grpclib.const.Status.OK])
async def test_how_a_call_ends(cloud: ExternalCloud, external: ExternalProvider, code: grpclib.const.Status) -> None:
    def fail(_request: Any) -> Any:
        raise grpclib.GRPCError(code, "in plain words")

    cloud.answers["ListRoutes"] = fail
    refusals = "INVALID_ARGUMENT NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED FAILED_PRECONDITION OUT_OF_RANGE "
    is_refusal = code.name in f"{refusals}UNIMPLEMENTED UNAUTHENTICATED".split()
    assert external.routes is not None
    with pytest.raises(CloudError, match=r"ListRoutes: in plain words") as failure:
        await external.routes.list_routes("test", [])
    assert type(failure.value) is (CloudRefused if is_refusal else CloudUnavailable)


@pytest.mark.parametrize(
    ("info", "why"),
    [
        ({"platforms": ["fog"], "parts": [1, 2, 3]}, "does not answer for platform nimbus; it answers for fog"),
        (
            {"platforms": ["nimbus"], "parts": [1, 3, 9]},
            "does not support routes; it supports instances, loadBalancers",
        ),
        ({}, "it answers for none"),
    ],
)
async def test_a_server_of_another_cloud_is_not_asked(
    cloud: ExternalCloud, short_path: pathlib.Path, info: dict[str, Any], why: str
) -> None:
    cloud.answers["GetInfo"] = lambda _: message("GetInfoResponse")(**info)
    found = made(short_path, f"address: unix://{short_path}/cloud.sock\nplatforms: [nimbus]\n{ALL}")
    with pytest.raises(CloudRefused, match=why):
        async with found.running(NO_CLUSTER):
            pass
    assert len(cloud.requests) == 1


def test_it_is_what_the_protocol_demands(short_path: pathlib.Path) -> None:
    config = short_path / "cloud.yaml"
    config.write_text(f"address: unix://{short_path}/cloud.sock\nplatforms: [lab, on-prem]\n{ALL}", encoding="utf-8")
    found = make_provider("external-grpc", settings(config))
    assert found.supported_platforms() == {"lab", "on-prem"}
    assert found.platforms_are_configured
    few = checked("external-grpc", lambda: made(short_path, "address: unix:///x\nplatforms: [lab]\n"))
    assert (few.routes, few.load_balancers) == (None, None)


class Certificates:
    """Two authorities; the files that the configuration names are of the first, until they are replaced."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.ours = CertificateAuthority.create(folder / "ours")
        self.theirs = CertificateAuthority.create(folder / "theirs")

    def write(self, authority: CertificateAuthority, client: CertificateAuthority) -> None:
        certificate, key = client.client("manager", [])
        for name, source in (("ca.crt", authority.certificate_file), ("me.crt", certificate), ("me.key", key)):
            (self.folder / name).write_bytes(source.read_bytes())

    def server(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.ours.certificate_file))
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(*self.ours.serving("cloud"))
        context.set_alpn_protocols(["h2"])
        return context


@contextlib.asynccontextmanager
async def over_tls(folder: pathlib.Path, certificates: Certificates) -> AsyncIterator[tuple[ExternalCloud, Any]]:
    cloud = ExternalCloud()
    async with cloud.serving(context=certificates.server()):
        tls = "tls: {caFile: ca.crt, certFile: me.crt, keyFile: me.key}\n"
        yield cloud, made(folder, f"address: 127.0.0.1:{cloud.port}\nplatforms: [nimbus]\n{tls}{ALL}")


async def test_both_sides_prove_who_they_are(tmp_path: pathlib.Path) -> None:
    certificates = Certificates(tmp_path)
    certificates.write(certificates.theirs, certificates.ours)
    async with over_tls(tmp_path, certificates) as (cloud, found):
        with pytest.raises(CloudUnavailable, match="certificate verify failed"):  # the server is not whom we trust
            await found.routes.list_routes("test", [])
        certificates.write(certificates.ours, certificates.theirs)
        with pytest.raises(CloudUnavailable):  # nor are we whom it trusts
            await found.routes.list_routes("test", [])
        assert cloud.requests == []
        certificates.write(certificates.ours, certificates.ours)  # rotated: read anew
        async with found.running(NO_CLUSTER):
            assert await found.routes.list_routes("test", []) == []


async def test_a_server_that_is_away_is_an_outage(tmp_path: pathlib.Path) -> None:
    certificates = Certificates(tmp_path)
    certificates.write(certificates.ours, certificates.ours)
    async with over_tls(tmp_path, certificates) as (_, found):
        pass
    with pytest.raises(CloudUnavailable, match="cannot connect"):
        await found.instances.exists("nimbus://1", node("n1", "nimbus://1"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("platforms: [nimbus]", "missing required field `address`"),
        ("address: unix:///x\nplatforms: []", "platforms: must name at least one"),
        ("address: unix:///x\nplatforms: [A B]", "'A B' is not a platform"),
        ("address: unix:///x\nplatforms: [lab]\nparts: [zones]", "parts: 'zones' is not known; known are instances"),
        ("address: unix://x\nplatforms: [lab]", "must be an absolute path"),
        ("address: cloud\nplatforms: [lab]", "address: must be HOST:PORT or unix:///PATH, got 'cloud'"),
        ("address: cloud:99999\nplatforms: [lab]", "address: must be HOST:PORT"),
        ("address: cloud:1\nplatforms: [lab]", "tls: is needed"),
        ("address: cloud:1\nplatforms: [lab]\ntls: {caFile: a, certFile: b}", "missing required field `keyFile`"),
        (
            "address: cloud:1\nplatforms: [lab]\ntls: {caFile: a, certFile: b, keyFile: c}",
            "tls.caFile: there is no file",
        ),
        ("address: unix:///x\nplatforms: [lab]\ntls: {caFile: a, certFile: b, keyFile: c}", "a unix socket has none"),
        ("address: unix:///x\nplatforms: [lab]\ninsecure: true", "unknown field `insecure`"),
    ],
)
def test_a_configuration_that_does_not_do(tmp_path: pathlib.Path, text: str, why: str) -> None:
    with pytest.raises(ProviderError, match=r"--cloud-config .*cloud.yaml: ") as failure:
        made(tmp_path, text)
    assert why in str(failure.value)


def test_the_descriptors_are_those_of_the_file() -> None:
    text = re.sub(r"//.*", "", PROTO.read_text(encoding="utf-8"))
    messages = re.findall(r"^message (\w+) {(.*?)}\n(?=\n|$)", f"{text}\n", re.MULTILINE | re.DOTALL)
    assert len(messages) == len(re.findall(r"^message ", text, re.MULTILINE)) > 20
    for name, body in messages:
        written = {field: int(number) for field, number in re.findall(r"(\w+) = (\d+);", body)}
        assert {one.name: one.number for one in message(name).DESCRIPTOR.fields} == written, f"{name}: run `make proto`"
    methods = re.findall(r"rpc (\w+)\((\w+)\) returns \((\w+)\)", text)
    assert methods == [(name, f"{name}Request", f"{name}Response") for name in METHODS]


def test_it_needs_a_configuration(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ProviderError, match="needs --cloud-config"):
        provider(settings(None))
    with pytest.raises(ProviderError, match="No such file"):
        provider(settings(tmp_path / "none.yaml"))
