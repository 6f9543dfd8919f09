"""The provider for Amazon's cloud, over HTTP, against moto's EC2 and load balancing."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from fairlead.api.core_v1 import Service, ServicePort, ServiceSpec
from fairlead.api.meta import ObjectMeta
from fairlead.base.clock import RealClock
from fairlead.base.environment import Environment
from fairlead.cloud.errors import CloudRefused, CloudUnavailable, ForeignId, ProviderError
from fairlead.cloud.provider import InstanceQuery, ProviderSettings, Route
from fairlead.cloud.providers.aws import instances, provider
from fairlead.cloud.providers.aws.instances import to_instance
from fairlead.cloud.providers.aws.loadbalancers import load_balancer_name, target_group_name
from fairlead.cloud.providers.aws.provider import AwsProvider
from tests.clouds.aws import CREDENTIALS, EmulatedAws, emulated_aws
from tests.unit.cloud.world import node


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
    async with made.running():
        yield made


def id_of(raw: dict[str, Any]) -> str:
    return f"aws:///{raw['Placement']['AvailabilityZone']}/{raw['InstanceId']}"


async def test_instances_by_id_and_by_name(aws: EmulatedAws, cloud: AwsProvider) -> None:
    first, second, third = aws.launch(3)
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
    assert [await cloud.instances.exists(query.provider_id) for query in queries] == [True, True, False]
    assert not await cloud.instances.exists("aws:///us-east-1a/i-00000000000000000")


@pytest.mark.parametrize(
    "provider_id",
    ["aws:///us-east-1a/x", "aws://i-00000000000000000", "gce://p/z/n", "aws:///z/fargate-1", "", "aws://"],
)
async def test_ids_that_are_not_amazons(cloud: AwsProvider, provider_id: str) -> None:
    with pytest.raises(ForeignId):
        await cloud.instances.exists(provider_id)


@pytest.mark.parametrize("form", ["aws:///{zone}/{id}", "aws://{zone}/{id}", "aws:///{id}"])
async def test_forms_of_ids(aws: EmulatedAws, cloud: AwsProvider, form: str) -> None:
    [raw] = aws.launch()
    assert await cloud.instances.exists(form.format(zone="us-east-1a", id=raw["InstanceId"]))


async def test_many_instances_are_few_calls(
    aws: EmulatedAws, cloud: AwsProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Amazon's limits, a fiftieth of them.
    for name, value in {"_FILTER_VALUES": 4, "_PAGE": 20, "_LIST_FROM": 16}.items():
        monkeypatch.setattr(instances, name, value)
    calls: list[str] = []
    client = cloud.instances._client
    original = client.call

    async def counted(service: str, operation: str, /, **parameters: Any) -> Any:
        calls.append(operation)
        return await original(service, operation, **parameters)

    monkeypatch.setattr(client, "call", counted)
    tagged = aws.launch(30, **{"kubernetes.io/cluster/test": "owned"})
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
    async with made.running():
        balancers = made.load_balancers
        before = service(port(80, 30080), port(443, 30443))
        assert await balancers.get_load_balancer("test", before) is None
        status = await balancers.ensure_load_balancer("test", before, nodes[:1])
        assert status.ingress[0].hostname
        assert await balancers.get_load_balancer("test", before) == status
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
        assert await balancers.get_load_balancer("test", after) is None
    left = [one["TargetGroupName"] for one in aws.elb.describe_target_groups()["TargetGroups"]]
    assert target_group_name(after, after.spec.ports[0]) not in left


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
    async with made.running():
        with pytest.raises(CloudUnavailable):
            await made.instances.describe([InstanceQuery("n")])
        with pytest.raises(CloudUnavailable):
            await made.instances.exists("aws:///z/i-00000000000000000")


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
