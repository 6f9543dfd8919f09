"""The provider for Amazon's cloud, over HTTP, against moto's EC2 and load balancing."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from kube_fairlead.api.core_v1 import Service, ServicePort, ServiceSpec
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.environment import Environment
from kube_fairlead.cloud.errors import CloudRefused, CloudUnavailable, ForeignId, ProviderError
from kube_fairlead.cloud.provider import InstanceQuery, ProviderSettings, Route
from kube_fairlead.cloud.providers.aws import instances, provider
from kube_fairlead.cloud.providers.aws.client import AwsError
from kube_fairlead.cloud.providers.aws.instances import to_instance
from kube_fairlead.cloud.providers.aws.loadbalancers import load_balancer_name, target_group_name
from kube_fairlead.cloud.providers.aws.provider import AwsProvider
from kube_fairlead.cloud.requests import requests_by
from tests.clouds.aws import CREDENTIALS, EmulatedAws, emulated_aws
from tests.unit.cloud.world import NO_CLUSTER, NODE, node


@pytest.fixture(scope="module")
def aws() -> Iterator[EmulatedAws]:
    with emulated_aws() as emulated:
        yield emulated


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


def settings(path: pathlib.Path | None, **environment: str) -> ProviderSettings:
    return ProviderSettings(
        cloud_config=path, cluster_name="test", clock=RealClock(), environment=Environment(environment)
    )


@pytest.fixture
async def cloud(aws: EmulatedAws, tmp_path: pathlib.Path) -> AsyncIterator[AwsProvider]:
    made = provider(settings(aws.write_config(tmp_path / "cloud.conf", KubernetesClusterID="test")))
    async with made.running(NO_CLUSTER):
        yield made


CLUSTER = {"kubernetes.io/cluster/test": "owned"}


def id_of(raw: dict[str, Any]) -> str:
    return f"aws:///{raw['Placement']['AvailabilityZone']}/{raw['InstanceId']}"


async def test_instances_by_id_and_by_name(aws: EmulatedAws, cloud: AwsProvider) -> None:
    first, second, third = aws.launch(3, tags=CLUSTER)
    by_id = InstanceQuery("some-name", id_of(first))
    by_name = InstanceQuery(second["PrivateDnsName"])
    by_instance_name = InstanceQuery(third["InstanceId"])
    nobody = [
        InstanceQuery("x", "aws:///us-east-1a/i-00000000000000000"),
        InstanceQuery("y"),
        InstanceQuery("z", "gce://z"),
    ]
    found = await cloud.instances.describe([by_id, by_name, by_instance_name, *nobody])
    assert set(found) == {by_id, by_name, by_instance_name}
    instance = found[by_id]
    assert instance.provider_id == id_of(first)
    assert (instance.instance_type, instance.zone, instance.region) == ("t3.micro", "us-east-1a", "us-east-1")
    assert not instance.shutdown
    by_type = {address.type: address.address for address in instance.addresses}
    assert by_type["InternalIP"] == first["PrivateIpAddress"]
    assert by_type["InternalDNS"] == by_type["Hostname"] == first["PrivateDnsName"]
    assert "ExternalIP" in by_type


async def test_states(aws: EmulatedAws, cloud: AwsProvider) -> None:
    running, stopped, terminated = aws.launch(3)
    aws.stop(stopped["InstanceId"])
    aws.terminate(terminated["InstanceId"])
    queries = [InstanceQuery("n", id_of(raw)) for raw in (running, stopped, terminated)]
    found = await cloud.instances.describe(queries)
    assert [query in found for query in queries] == [True, True, False]
    assert [found[query].shutdown for query in queries[:2]] == [False, True]
    assert [await cloud.instances.exists(query.provider_id, NODE) for query in queries] == [True, True, False]
    assert not await cloud.instances.exists("aws:///us-east-1a/i-00000000000000000", NODE)


async def test_whether_many_exist(aws: EmulatedAws, cloud: AwsProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = recorded(cloud, monkeypatch)
    machines = aws.launch(20)
    for raw in machines[10:]:
        aws.terminate(raw["InstanceId"])
    unknown = "aws:///us-east-1a/i-00000000000000000"
    answers = await cloud.instances.which_exist(dict.fromkeys([*map(id_of, machines), unknown, "gce://p/z/n"], NODE))
    assert answers == {id_of(raw): number < 10 for number, raw in enumerate(machines)} | {unknown: False}
    assert calls == ["describe_instances"] * 2  # the first answer was that one of them is not known
    aws.ec2.terminate_instances(InstanceIds=[raw["InstanceId"] for raw in machines])


async def test_all_that_amazon_does_not_know_are_one_answer(
    cloud: AwsProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    async def refuse(_service: str, _operation: str, /, **parameters: Any) -> Any:
        asked.append(parameters["InstanceIds"])
        code, words = "InvalidInstanceID.NotFound", f"The instance IDs '{', '.join(asked[-1])}' do not exist"
        raise AwsError(code, words)

    monkeypatch.setattr(cloud.instances._client, "call", refuse)
    unknown = [f"aws:///us-east-1a/i-{number:017x}" for number in range(500)]
    assert await cloud.instances.which_exist(dict.fromkeys(unknown, NODE)) == dict.fromkeys(unknown, False)
    assert [len(one) for one in asked] == [500]


@pytest.mark.parametrize("code", ["InvalidInstanceID.NotFound", "UnauthorizedOperation"])
async def test_a_refusal_that_names_nobody_says_nothing(
    cloud: AwsProvider, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    async def refuse(_service: str, _operation: str, /, **_parameters: Any) -> Any:
        raise AwsError(code, "some of them")

    monkeypatch.setattr(cloud.instances._client, "call", refuse)
    with pytest.raises(AwsError):
        await cloud.instances.which_exist(
            dict.fromkeys([f"aws:///us-east-1a/i-{number:017x}" for number in range(2)], NODE)
        )


async def test_a_name_counts_in_the_clusters_own_network_only(aws: EmulatedAws, tmp_path: pathlib.Path) -> None:
    made = [launch_at(aws, "10.7.0.5", CLUSTER) for _ in range(2)]
    untagged = launch_at(aws, "10.7.0.6")
    name = made[0]["PrivateDnsName"]
    assert made[1]["PrivateDnsName"] == name
    queries = [InstanceQuery(name), InstanceQuery(untagged["PrivateDnsName"])]
    config = {"KubernetesClusterID": "test", "VPC": made[0]["VpcId"]}
    one = provider(settings(aws.write_config(tmp_path / "one", **config)))
    async with one.running(NO_CLUSTER):
        found = await one.instances.describe(queries)
    assert {query.node_name: instance.provider_id for query, instance in found.items()} == {name: id_of(made[0])}
    del config["VPC"]
    both = provider(settings(aws.write_config(tmp_path / "both", **config)))
    async with both.running(NO_CLUSTER):
        assert await both.instances.describe(queries) == {}  # which of the two it is nobody can say


async def test_a_client_is_made_once(aws: EmulatedAws, cloud: AwsProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    client = cloud.instances._client
    make = client._make_service

    def counted(name: str) -> Any:
        made.append(name)
        return make(name)

    monkeypatch.setattr(client, "_make_service", counted)
    monkeypatch.setattr(instances, "_FILTER_VALUES", 2)
    await cloud.instances.describe([InstanceQuery("n", f"aws:///z/i-{number:017x}") for number in range(8)])
    assert made == ["ec2"]


async def test_every_request_waits_for_its_turn(cloud: AwsProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "_FILTER_VALUES", 2)
    calls, turns = recorded(cloud, monkeypatch), 0

    async def turn() -> None:
        nonlocal turns
        turns += 1

    with requests_by(turn):
        await cloud.instances.describe([InstanceQuery("n", f"aws:///z/i-{number:017x}") for number in range(8)])
    assert turns == len(calls) == 4


def launch_at(aws: EmulatedAws, address: str, tags: dict[str, str] | None = None) -> dict[str, Any]:
    """An instance with this address, in a network of its own."""
    vpc = aws.ec2.create_vpc(CidrBlock="10.7.0.0/16")["Vpc"]["VpcId"]
    subnet = aws.ec2.create_subnet(VpcId=vpc, CidrBlock="10.7.0.0/24")["Subnet"]["SubnetId"]
    [made] = aws.launch(where={"SubnetId": subnet, "PrivateIpAddress": address}, tags=tags)
    return made


def recorded(cloud: AwsProvider, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operations that it asks for, from now on."""
    calls: list[str] = []
    client = cloud.instances._client
    original = client.call

    async def counted(service: str, operation: str, /, **parameters: Any) -> Any:
        calls.append(operation)
        return await original(service, operation, **parameters)

    monkeypatch.setattr(client, "call", counted)
    return calls


@pytest.mark.parametrize(
    "provider_id",
    ["aws:///us-east-1a/x", "aws://i-00000000000000000", "gce://p/z/n", "aws:///z/fargate-1", "", "aws://"],
)
async def test_ids_that_are_not_amazons(cloud: AwsProvider, provider_id: str) -> None:
    with pytest.raises(ForeignId):
        await cloud.instances.exists(provider_id, NODE)


@pytest.mark.parametrize("form", ["aws:///{zone}/{id}", "aws://{zone}/{id}", "aws:///{id}"])
async def test_forms_of_ids(aws: EmulatedAws, cloud: AwsProvider, form: str) -> None:
    [raw] = aws.launch()
    assert await cloud.instances.exists(form.format(zone="us-east-1a", id=raw["InstanceId"]), NODE)


async def test_many_instances_are_few_calls(
    aws: EmulatedAws, cloud: AwsProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Amazon's limits, a fiftieth of them.
    for name, value in {"_FILTER_VALUES": 4, "_PAGE": 20, "_LIST_FROM": 16}.items():
        monkeypatch.setattr(instances, name, value)
    calls = recorded(cloud, monkeypatch)
    tagged = aws.launch(30, tags=CLUSTER)
    untagged = aws.launch(2)
    some = [InstanceQuery(f"n{number}", id_of(raw)) for number, raw in enumerate(tagged[:9])]
    assert len(await cloud.instances.describe(some)) == 9
    assert len(calls) == 3  # by four values of a filter
    calls.clear()
    everyone = [InstanceQuery(f"n{number}", id_of(raw)) for number, raw in enumerate([*tagged, *untagged])]
    assert len(await cloud.instances.describe(everyone)) == 32
    assert len(calls) <= 3  # pages of what bears the tag, and one call for the rest
    aws.ec2.terminate_instances(InstanceIds=[raw["InstanceId"] for raw in [*tagged, *untagged]])


async def test_routes(aws: EmulatedAws, cloud: AwsProvider) -> None:
    vpc = aws.ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    table = aws.ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    aws.ec2.create_tags(Resources=[table], Tags=[{"Key": "kubernetes.io/cluster/test", "Value": "owned"}])
    gateway = aws.ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    aws.ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    raw, stranger = aws.launch(2)
    aws.ec2.create_route(RouteTableId=table, DestinationCidrBlock="10.244.9.0/24", InstanceId=stranger["InstanceId"])
    made = node("n1", id_of(raw), pod_cidrs=["10.244.1.0/24"])
    wanted = Route(destination_cidr="10.244.1.0/24", target_node="n1")
    await cloud.routes.create_route("test", "hint", wanted, made)
    await cloud.routes.create_route("test", "hint", wanted, made)
    routes = await cloud.routes.list_routes("test", [made])
    assert {(route.target_node, route.destination_cidr) for route in routes} == {
        ("n1", "10.244.1.0/24"),
        (stranger["InstanceId"], "10.244.9.0/24"),
    }
    attribute = aws.ec2.describe_instance_attribute(InstanceId=raw["InstanceId"], Attribute="sourceDestCheck")
    assert attribute["SourceDestCheck"] == {"Value": False}
    elsewhere = Route(destination_cidr="10.244.9.0/24", target_node="n1")
    with pytest.raises(CloudRefused, match=r"10\.244\.9\.0/24 leads elsewhere"):
        await cloud.routes.create_route("test", "hint", elsewhere, made)
    await cloud.routes.delete_route("test", wanted)
    await cloud.routes.delete_route("test", wanted)
    assert len(await cloud.routes.list_routes("test", [made])) == 1
    aws.ec2.delete_route_table(RouteTableId=table)
    with pytest.raises(CloudRefused, match="0 route tables fit"):
        await cloud.routes.list_routes("test", [made])


def service(*ports: ServicePort, **spec: Any) -> Service:
    return Service(
        metadata=ObjectMeta(name="web", namespace="shop", uid="0e2b6a1c-7d1f-4b5e-9a53-1f2e3d4c5b6a"),
        spec=ServiceSpec(type="LoadBalancer", ports=ports, **spec),
    )


def port(number: int, node_port: int) -> ServicePort:
    return ServicePort(port=number, node_port=node_port, protocol="TCP")


def targets(aws: EmulatedAws, group_name: str) -> set[tuple[str, int]]:
    group = aws.elb.describe_target_groups(Names=[group_name])["TargetGroups"][0]["TargetGroupArn"]
    health = aws.elb.describe_target_health(TargetGroupArn=group)["TargetHealthDescriptions"]
    return {(one["Target"]["Id"], one["Target"]["Port"]) for one in health}


async def test_a_load_balancer_comes_changes_and_goes(aws: EmulatedAws, tmp_path: pathlib.Path) -> None:
    subnets = [one["SubnetId"] for one in aws.ec2.describe_subnets()["Subnets"]][:2]
    config = aws.write_config(tmp_path / "cloud.conf", SubnetID=",".join(subnets))
    first, second = aws.launch(2)
    nodes = [node("n1", id_of(first)), node("n2", id_of(second)), node("n3", platform="aws")]
    made = provider(settings(config))
    async with made.running(NO_CLUSTER):
        balancers = made.load_balancers
        before = service(port(80, 30080), port(443, 30443))
        status = await balancers.ensure_load_balancer("test", before, nodes[:1])
        assert status.ingress[0].hostname
        assert targets(aws, target_group_name(before, before.spec.ports[0])) == {(first["InstanceId"], 30080)}
        await balancers.update_load_balancer("test", before, nodes[1:])
        for one in before.spec.ports:
            assert targets(aws, target_group_name(before, one)) == {(second["InstanceId"], one.node_port)}
        # One port goes, another gets a new node port.
        after = service(port(80, 31080))
        assert await balancers.ensure_load_balancer("test", after, nodes) == status
        arn = aws.elb.describe_load_balancers(Names=[load_balancer_name(after)])["LoadBalancers"][0]["LoadBalancerArn"]
        assert [one["Port"] for one in aws.elb.describe_listeners(LoadBalancerArn=arn)["Listeners"]] == [80]
        assert len(targets(aws, target_group_name(after, after.spec.ports[0]))) == 2
        await balancers.ensure_load_balancer_deleted("test", after)
        await balancers.ensure_load_balancer_deleted("test", after)
    assert aws.elb.describe_load_balancers()["LoadBalancers"] == []
    assert aws.elb.describe_target_groups()["TargetGroups"] == []


async def test_groups_go_although_no_listener_leads_to_them_any_more(
    aws: EmulatedAws, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subnets = [one["SubnetId"] for one in aws.ec2.describe_subnets()["Subnets"]][:2]
    made = provider(settings(aws.write_config(tmp_path / "cloud.conf", SubnetID=",".join(subnets))))
    client = made.load_balancers._client
    original = client.call

    async def call(name: str, operation: str, /, **parameters: Any) -> Any:
        answer = await original(name, operation, **parameters)
        if operation == "describe_target_groups" and "LoadBalancerArn" in parameters:
            # As Amazon has it: a group is a load balancer's while a listener of it leads there.
            listeners = aws.elb.describe_listeners(LoadBalancerArn=parameters["LoadBalancerArn"])["Listeners"]
            used = {action["TargetGroupArn"] for one in listeners for action in one["DefaultActions"]}
            answer["TargetGroups"] = [one for one in answer["TargetGroups"] if one["TargetGroupArn"] in used]
        return answer

    monkeypatch.setattr(client, "call", call)
    vpc = aws.ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    after = service(port(80, 31080))
    prefix = target_group_name(after, after.spec.ports[0]).rpartition("-")[0]
    group = {"Protocol": "TCP", "Port": 1, "VpcId": vpc}
    stranger = aws.elb.create_target_group(Name=f"{prefix}-theirs", **group)["TargetGroups"][0]["TargetGroupArn"]
    async with made.running(NO_CLUSTER):
        await made.load_balancers.ensure_load_balancer("test", service(port(80, 30080), port(443, 30443)), [])
        await made.load_balancers.ensure_load_balancer("test", after, [])
        left = {one["TargetGroupName"] for one in aws.elb.describe_target_groups()["TargetGroups"]}
        assert left == {target_group_name(after, after.spec.ports[0]), f"{prefix}-theirs"}
        await made.load_balancers.ensure_load_balancer_deleted("test", after)
    left = {one["TargetGroupName"] for one in aws.elb.describe_target_groups()["TargetGroups"]}
    assert left == {f"{prefix}-theirs"}  # a name is not enough
    aws.elb.delete_target_group(TargetGroupArn=stranger)


async def test_a_service_that_changes_its_mind(aws: EmulatedAws, tmp_path: pathlib.Path) -> None:
    subnets = [one["SubnetId"] for one in aws.ec2.describe_subnets()["Subnets"]][:2]
    made = provider(settings(aws.write_config(tmp_path / "cloud.conf", SubnetID=",".join(subnets))))
    local = service(port(80, 30090), external_traffic_policy="Local", health_check_node_port=32000)
    anywhere = service(port(80, 30090), external_traffic_policy="Cluster")
    limited = service(port(80, 30090), load_balancer_source_ranges=("192.0.2.0/24",))
    balancers = made.load_balancers
    async with made.running(NO_CLUSTER):
        for wanted, check in (
            (local, ("HTTP", "32000")),
            (anywhere, ("TCP", "traffic-port")),
            (local, ("HTTP", "32000")),
        ):
            await balancers.ensure_load_balancer("test", wanted, [])
            [group] = aws.elb.describe_target_groups()["TargetGroups"]
            assert (group["HealthCheckProtocol"], group["HealthCheckPort"]) == check
        arn = aws.elb.describe_load_balancers(Names=[load_balancer_name(local)])["LoadBalancers"][0]["LoadBalancerArn"]
        with pytest.raises(CloudRefused, match="loadBalancerSourceRanges"):
            await balancers.ensure_load_balancer("test", limited, [])
        assert aws.elb.describe_listeners(LoadBalancerArn=arn)["Listeners"] == []  # nobody is served
        await balancers.ensure_load_balancer("test", anywhere, [])
        assert [one["Port"] for one in aws.elb.describe_listeners(LoadBalancerArn=arn)["Listeners"]] == [80]
        await balancers.ensure_load_balancer_deleted("test", anywhere)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (service(port(80, 30080), load_balancer_source_ranges=("192.0.2.0/24",)), "loadBalancerSourceRanges"),
        (service(ServicePort(port=80, node_port=30080, protocol="SCTP")), "SCTP"),
        (service(port(80, 0)), "node port"),
    ],
)
async def test_what_is_not_supported_is_refused(cloud: AwsProvider, made: Service, message: str) -> None:
    with pytest.raises(CloudRefused, match=message):
        await cloud.load_balancers.ensure_load_balancer("test", made, [])


async def test_an_outage_is_no_answer(tmp_path: pathlib.Path, aws: EmulatedAws) -> None:
    made = provider(settings(aws.write_config(tmp_path / "cloud.conf", url="http://127.0.0.1:9")))
    async with made.running(NO_CLUSTER):
        with pytest.raises(CloudUnavailable):
            await made.instances.describe([InstanceQuery("n")])
        with pytest.raises(CloudUnavailable):
            await made.instances.exists("aws:///z/i-00000000000000000", NODE)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[Global]\nRoleARN = x\nRegion = r", r"\[Global\] rolearn is not supported"),
        ("[Global]\nVPC = v", "needs a region"),
        ("[Other]\nx = y", r"\[Other\] is not supported"),
        ('[ServiceOverride "1"]\nService = s3\nURL = http://x', "is not supported"),
        ("nonsense", "cannot be read"),
    ],
)
def test_configuration_errors(tmp_path: pathlib.Path, content: str, message: str) -> None:
    path = tmp_path / "cloud.conf"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ProviderError, match=message):
        provider(settings(path))


@pytest.mark.parametrize(
    ("content", "environment", "region"),
    [
        ("[Global]\nZone = eu-central-1b", {}, "eu-central-1"),
        ("[Global]\nRegion = eu-west-1", {"AWS_REGION": "x-1"}, "eu-west-1"),
        ("", {"AWS_REGION": "ap-1"}, "ap-1"),
        ("", {"AWS_DEFAULT_REGION": "ap-2"}, "ap-2"),
    ],
)
def test_where_the_region_comes_from(
    tmp_path: pathlib.Path, content: str, environment: dict[str, str], region: str
) -> None:
    path = tmp_path / "cloud.conf"
    path.write_text(content, encoding="utf-8")
    made = provider(settings(path, **environment))
    assert made.instances._config.region == region
    assert made.supported_platforms() == {"aws"}


def test_addresses_of_several_interfaces_come_in_order() -> None:
    raw = {
        "InstanceId": "i-1",
        "State": {"Name": "running"},
        "PrivateIpAddress": "10.0.0.1",
        "Placement": {"AvailabilityZone": "z1", "AvailabilityZoneId": "use1-az1"},
        "NetworkInterfaces": [
            {"Attachment": {"DeviceIndex": 1}, "PrivateIpAddresses": [{"PrivateIpAddress": "10.0.1.1"}]},
            {
                "Attachment": {"DeviceIndex": 0},
                "PrivateIpAddresses": [{"PrivateIpAddress": "10.0.0.1"}, {"PrivateIpAddress": "10.0.0.2"}],
                "Ipv6Addresses": [{"Ipv6Address": "fd00::1"}],
            },
        ],
    }
    instance = to_instance(raw, "r")
    assert [one.address for one in instance.addresses] == ["10.0.0.1", "10.0.0.2", "10.0.1.1", "fd00::1"]
    assert instance.additional_labels == {"topology.k8s.aws/zone-id": "use1-az1"}
    assert dataclasses.replace(instance, addresses=()).zone == "z1"
