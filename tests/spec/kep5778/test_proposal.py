"""The proposal's end-to-end test and its two user stories, with managers as processes, on both control planes."""

from __future__ import annotations

import pytest

from kube_fairlead.cloud.wellknown import LABEL_PLATFORM, LABEL_REGION, LABEL_ZONE, SHUTDOWN_TAINT
from tests.spec.kep5778.cluster import NODES, set_ready
from tests.spec.kep5778.hybrid import Hybrid, keys_of_taints

pytestmark = pytest.mark.timeout(300)

SHUTDOWN = SHUTDOWN_TAINT.key


async def test_unmanaged_node(hybrid: Hybrid) -> None:
    """The proposal's "unmanaged node test", step by step."""
    # Create a cluster with nodes in one cloud. Verify that CCM manages them correctly.
    await hybrid.start_aws()
    first, second, third = [await hybrid.join_aws() for _ in range(3)]
    await hybrid.initialised(first, second, third)
    node = await hybrid.until(first, lambda node: "addresses" in node["status"])
    assert node["spec"]["providerID"] == f"aws:///us-east-1a/{hybrid.instances[first]}"
    assert node["metadata"]["labels"][LABEL_PLATFORM] == "aws"
    assert node["metadata"]["labels"][LABEL_ZONE] == "us-east-1a"
    assert node["metadata"]["labels"][LABEL_REGION] == "us-east-1"
    assert {address["type"] for address in node["status"]["addresses"]} >= {"InternalIP", "Hostname"}
    # A machine that is shut down gives the manager a reason to ask about its nodes at every pass.
    hybrid.aws.stop(hybrid.instances[second])
    await set_ready(hybrid.api, second, "Unknown")
    await hybrid.until(second, lambda node: SHUTDOWN in keys_of_taints(node))

    # Add node with a different ProviderID prefix (different cloud or on-premises).
    await hybrid.join("other-cloud", "gce://project/zone/other-cloud")
    await hybrid.join("on-premises", "on-prem://rack1")
    before = {name: await hybrid.get(name) for name in ("other-cloud", "on-premises")}
    # Verify that CCM ignores the new node and does not perform any actions on it.
    await hybrid.passes()
    assert {name: await hybrid.get(name) for name in before} == before

    # Remove the new node. Verify that CCM does not delete the node resource.
    for name in before:
        before[name] = await set_ready(hybrid.api, name, "Unknown")
    await hybrid.passes()
    assert {name: await hybrid.get(name) for name in before} == before

    # The same, for a node of its own: there it does.
    hybrid.aws.terminate(hybrid.instances[third])
    await set_ready(hybrid.api, third, "Unknown")
    await hybrid.until_gone(third)
    assert {name: await hybrid.get(name) for name in before} == before
    hybrid.judge()


async def test_story_1_cloud_control_plane_and_self_managed_nodes(hybrid: Hybrid) -> None:
    """CCM must not delete my self-managed nodes, nor manage load balancers or routes for them."""
    ec2 = hybrid.aws.ec2
    table = ec2.create_route_table(VpcId=ec2.describe_vpcs()["Vpcs"][0]["VpcId"])["RouteTable"]["RouteTableId"]
    # The administrator leads traffic for the home lab through a router in the cloud.
    [router] = hybrid.aws.launch()
    hybrid.instances["router"] = router["InstanceId"]
    lab = {"RouteTableId": table, "DestinationCidrBlock": "10.244.9.0/24", "InstanceId": router["InstanceId"]}
    ec2.create_route(**lab)
    subnets = ",".join(one["SubnetId"] for one in ec2.describe_subnets()["Subnets"][:2])
    await hybrid.start_aws(
        "--controllers=*,route,service",
        "--cluster-cidr=10.244.0.0/16",
        config={"RouteTableID": table, "SubnetID": subnets},
        routes=True,
        services=True,
    )
    first = await hybrid.join_aws(pod_cidr="10.244.1.0/24")
    second = await hybrid.join_aws(pod_cidr="10.244.2.0/24")
    gpu = await hybrid.join("gpu", pod_cidr="10.244.9.0/24")  # without a providerID
    fpga = await hybrid.join("fpga", "metal://fpga", pod_cidr="10.244.10.0/24")  # with one
    home = await hybrid.join("home", platform="home-lab", waiting=True)  # with the annotation
    await hybrid.initialised(first, second)
    service = {
        "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}], "selector": {"app": "web"}},
    }
    (await hybrid.api.post("/api/v1/namespaces/default/services", service)).expect(201)

    # Routes and load balancers for its own nodes.
    for name in (first, second):
        await hybrid.until(name, lambda node: "NetworkUnavailable" in {c["type"] for c in node["status"]["conditions"]})
    await hybrid.api.poll(
        "/api/v1/namespaces/default/services/web",
        lambda answer: bool(answer.json["status"]["loadBalancer"].get("ingress")),
    )
    assert targets(hybrid) == {hybrid.instances[first], hybrid.instances[second]}

    # The self-managed ones fall silent. A machine of its own is shut down, so that the manager looks at every pass.
    hybrid.aws.stop(hybrid.instances[second])
    await set_ready(hybrid.api, second, "Unknown")
    before = {name: await set_ready(hybrid.api, name, "Unknown") for name in (gpu, fpga, home)}
    await hybrid.passes()
    await hybrid.witness.wait_for_more("DescribeRouteTables", 3)
    assert {name: await hybrid.get(name) for name in before} == before
    routes = {"10.244.1.0/24", "10.244.2.0/24", "10.244.9.0/24"}
    assert destinations(hybrid, table) >= routes

    # Even when a self-managed node is removed by its owner, its route is not the manager's to remove.
    (await hybrid.api.delete(f"{NODES}/{gpu}")).expect(200)
    await hybrid.witness.wait_for_more("DescribeRouteTables", 3)
    assert destinations(hybrid, table) >= routes
    assert targets(hybrid) == {hybrid.instances[first], hybrid.instances[second]}
    hybrid.judge()
    assert not [call for call in hybrid.witness.calls if call.action == "DeleteRoute"]


async def test_story_2_two_clouds_two_managers(hybrid: Hybrid) -> None:
    """CCM X manages only nodes from cloud X, and CCM Y only those from cloud Y; both at once."""
    await hybrid.start_aws()
    await hybrid.start_static()
    x1, x2, x3 = [await hybrid.join_aws() for _ in range(3)]
    y1 = await hybrid.join_static("y1")
    y2, y3 = [await hybrid.join_static(name, annotated=True) for name in ("y2", "y3")]
    mine = await hybrid.join("mine")
    colo = await hybrid.join("colo", "colo://1")
    await hybrid.initialised(x1, x2, x3, y1, y2, y3)

    # CCM Y must label nodes with cloud-specific metadata.
    node = await hybrid.get(y2)
    assert node["spec"]["providerID"] == "on-prem://y2"
    assert node["metadata"]["labels"][LABEL_PLATFORM] == "on-prem"
    assert node["metadata"]["labels"][LABEL_ZONE] == "rack1"
    assert (await hybrid.get(x1))["metadata"]["labels"][LABEL_PLATFORM] == "aws"

    # Machines of both are shut down, and come back.
    hybrid.aws.stop(hybrid.instances[x1])
    hybrid.machines[y1]["shutdown"] = True
    hybrid.write_inventory()
    for name in (x1, y1, mine, colo):
        await set_ready(hybrid.api, name, "Unknown")
    for name in (x1, y1):
        await hybrid.until(name, lambda node: SHUTDOWN in keys_of_taints(node))
    await set_ready(hybrid.api, y1, "True")
    await hybrid.until(y1, lambda node: SHUTDOWN not in keys_of_taints(node))

    # CCM Y must delete node resources when a Y node is removed; CCM X must ignore nodes from Y, and the other way.
    del hybrid.machines[y3]
    hybrid.write_inventory()
    hybrid.aws.terminate(hybrid.instances[x3])
    for name in (x3, y3):
        await set_ready(hybrid.api, name, "Unknown")
    for name in (x3, y3):
        await hybrid.until_gone(name)

    await hybrid.passes()
    left = (await hybrid.api.get(NODES)).json["items"]
    assert {node["metadata"]["name"] for node in left} == {x1, x2, y1, y2, mine, colo}
    # y1 named no platform while it waited: cloud X could be asked whether it knows the name. y2 did.
    hybrid.judge(asked_by_name={y1})


async def test_a_wrong_flag_reaches_no_foreign_node_and_the_judges_see_it(hybrid: Hybrid) -> None:
    """Beyond the proposal: a manager that takes every node for its own is stopped by the API server."""
    foreign = await hybrid.join("foreign", "gce://project/zone/foreign")
    taint = {"key": SHUTDOWN, "effect": "NoSchedule"}
    before = (await hybrid.api.patch(f"{NODES}/{foreign}", {"spec": {"taints": [taint]}})).expect(200)
    await hybrid.start_static(
        "--cloud-provider-platforms=", "--controllers=cloud-node-lifecycle", lease=True, foreign=foreign
    )
    user = hybrid.managers["static"].user
    await hybrid.until_written(lambda write: write.user == user)
    tried = [write for write in hybrid.writes() if write.user == user]
    assert {(write.node, write.verb, write.code) for write in tried} == {(foreign, "patch", 403)}
    assert await hybrid.get(foreign) == before
    with pytest.raises(AssertionError, match=r"static wrote to .'foreign'"):
        hybrid.judge()


def targets(hybrid: Hybrid) -> set[str]:
    """The instances behind all load balancers."""
    groups = hybrid.aws.elb.describe_target_groups()["TargetGroups"]
    return {
        health["Target"]["Id"]
        for group in groups
        for health in hybrid.aws.elb.describe_target_health(TargetGroupArn=group["TargetGroupArn"])[
            "TargetHealthDescriptions"
        ]
    }


def destinations(hybrid: Hybrid, table: str) -> set[str]:
    """The ranges that a route table leads somewhere."""
    [found] = hybrid.aws.ec2.describe_route_tables(RouteTableIds=[table])["RouteTables"]
    return {route["DestinationCidrBlock"] for route in found["Routes"]}
