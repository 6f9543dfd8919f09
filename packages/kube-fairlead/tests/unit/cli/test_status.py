"""`fairlead status` against the embedded API server."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import yaml

from kube_fairlead.api import wire
from kube_fairlead.api.coordination_v1 import Lease, LeaseSpec
from kube_fairlead.api.core_v1 import Namespace, Node
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleTransition
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import NAMESPACE_NODE_LEASE
from kube_fairlead.base.environment import Environment
from kube_fairlead.cli.main import main
from kube_fairlead.client import Client, patches
from kube_fairlead_lab.testing import EmbeddedControlPlane

NO_ENVIRONMENT = Environment({})


def arrange(plane: EmbeddedControlPlane, steps: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with plane.client() as client:
            await steps(client)

    asyncio.run(run())


def event(name: str, node: str) -> LifecycleEvent:
    spec = {"transitionName": "reboot", "bindingNode": node}
    return wire.from_dict(
        LifecycleEvent,
        {"apiVersion": "lifecycle.k8s.io/v1alpha1", "kind": "LifecycleEvent", "metadata": {"name": name}, "spec": spec},
    )


def node(name: str, **spec: Any) -> Node:
    return wire.from_dict(Node, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec})


async def a_busy_cluster(client: Client) -> None:
    nodes, events = client.of(Node), client.of(LifecycleEvent)
    await nodes.create(node("idle", providerID="aws:///zone/i-1", unschedulable=True))
    await nodes.create(node("busy", providerID="hcloud://7"))
    spec = {"start": "Rebooting", "end": "Rebooted", "driver": "example.com/reboot", "allNodes": True, "sla": "1h"}
    transition = {"apiVersion": "lifecycle.k8s.io/v1alpha1", "kind": "LifecycleTransition"}
    await client.of(LifecycleTransition).create(
        wire.from_dict(LifecycleTransition, {**transition, "metadata": {"name": "reboot"}, "spec": spec})
    )
    for name in ("first", "second"):
        await events.create(event(name, "busy"))
    await events.create(event("lost", "gone"))
    claim = {
        "claimStatus": "Claimed",
        "driver": "example.com/reboot",
        "claimedBy": "node/busy",
        "transition": {"start": "Rebooting", "end": "Rebooted"},
        "claimTime": "2026-01-01T00:00:00Z",
        "sla": "2999-01-01T00:00:00Z",
        "progress": {"done": 3, "total": 9, "unit": "pods"},
        "message": "budget shop/web allows no disruption",
    }
    await events.patch("first", patches.MergePatch({"status": claim}), subresource="status")
    condition = {
        "type": "LifecycleTransition",
        "status": "True",
        "reason": "Rebooting",
        "message": "Lifecycle Transition 'reboot'",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"status": {"conditions": [condition]}}
    await nodes.patch("busy", patches.StrategicMergePatch(status), subresource="status")


def test_a_cluster_without_nodes(fairlead_apiserver: EmbeddedControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    flag = f"--kubeconfig={fairlead_apiserver.kubeconfig}"
    assert main(["status", flag], environment=NO_ENVIRONMENT) == 0
    assert capsys.readouterr().out == "There are no nodes.\n"
    assert main(["status", flag, "-o", "json"], environment=NO_ENVIRONMENT) == 0
    assert json.loads(capsys.readouterr().out)["nodes"] == []
    assert main(["status", flag, "nowhere"], environment=NO_ENVIRONMENT) == 1
    assert capsys.readouterr().err == 'Error from server (NotFound): nodes "nowhere" not found\n'
    # A group that nobody has installed is no failure: nodes are still worth seeing.
    assert main(["status", flag, "--lifecycle-api-group=lifecycle.fairlead.dev"], environment=NO_ENVIRONMENT) == 0
    # And where another group has the kinds, no second set of them is to be installed.
    said = capsys.readouterr().err
    assert "serves LifecycleEvents in lifecycle.k8s.io, not in lifecycle.fairlead.dev" in said
    assert "install" not in said


def test_a_busy_cluster(fairlead_apiserver: EmbeddedControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    arrange(fairlead_apiserver, a_busy_cluster)
    flag = f"--kubeconfig={fairlead_apiserver.kubeconfig}"
    assert main(["status", flag, "--cloud-provider-platforms=aws"], environment=NO_ENVIRONMENT) == 0
    head, busy, gone, idle = [line.split("   ") for line in capsys.readouterr().out.splitlines()]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in (head, busy, gone, idle)]
    assert cells[0][:7] == ["NODE", "STATE", "EVENT", "DRIVER", "HELD BY", "FOR", "LEFT"]
    assert cells[0][7:] == ["CORDONED BY", "PLATFORM", "OWNERSHIP", "DETAIL"]
    assert cells[1][:5] == ["busy", "Rebooting", "first (Claimed)", "example.com/reboot", "node/busy"]
    assert cells[1][-1] == (
        "3/9 pods; budget shop/web allows no disruption; the node's Lease has no holder; 1 more waiting"
    )
    assert cells[1][-3:-1] == ["hcloud", "Foreign"]
    assert cells[2][:3] == ["gone", "(no such node)", "lost (Pending)"]
    assert cells[2][-1] == "there is no node gone"
    assert cells[3] == ["idle", "-", "-", "-", "-", "-", "-", "another user", "aws", "Owned", "-"]

    assert main(["status", flag, "-o", "yaml", "busy"], environment=NO_ENVIRONMENT) == 0
    [told] = yaml.safe_load(capsys.readouterr().out)["nodes"]
    assert told["state"] == "Rebooting"
    assert told["current"]["name"] == "first"
    assert told["current"]["leftSeconds"] > 1000
    assert told["current"]["claimedBy"] == "node/busy"
    assert [one["waitsFor"] for one in told["waiting"]] == ["event first is carried out on the node first"]
    assert told["platform"] == {"name": "hcloud", "saidBy": "providerID", "ownership": ""}


def test_a_page_about_one_node(fairlead_apiserver: EmbeddedControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    arrange(fairlead_apiserver, a_busy_cluster)
    assert main(["status", "busy", f"--kubeconfig={fairlead_apiserver.kubeconfig}"], environment=NO_ENVIRONMENT) == 0
    page = capsys.readouterr().out
    for line in (
        "Node:       busy",
        "Cordoned:   no",
        "Platform:   hcloud (by its providerID)",
        "Claimant:   none, the node's Lease has no holder",
        "Current:    first",
        "  Transition: reboot (Rebooting -> Rebooted)",
        "  Claimed by: node/busy",
        "  Progress:   3/9 pods",
        "  Message:    budget shop/web allows no disruption",
        "Waiting:    second",
    ):
        assert line in page.splitlines()


def test_platforms_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--cloud-provider-platforms=AWS"], environment=NO_ENVIRONMENT) == 2
    assert "'AWS' is not a platform" in capsys.readouterr().err


async def an_agent_in_vain(client: Client) -> None:
    await client.of(Namespace).create(Namespace(metadata=ObjectMeta(name=NAMESPACE_NODE_LEASE)))
    now = client.clock.now()
    for name, renewed in (("mistyped", now), ("forgotten", now - dt.timedelta(hours=1))):
        spec = LeaseSpec(holder_identity=f"{name}_1", lease_duration_seconds=60, renew_time=renewed)
        await client.of(Lease).create(Lease(metadata=ObjectMeta(name=name, namespace=NAMESPACE_NODE_LEASE), spec=spec))


def test_an_agent_that_waits_for_a_node_that_does_not_exist(
    fairlead_apiserver: EmbeddedControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    arrange(fairlead_apiserver, an_agent_in_vain)
    assert main(["status", f"--kubeconfig={fairlead_apiserver.kubeconfig}"], environment=NO_ENVIRONMENT) == 0
    said = capsys.readouterr().err
    assert "mistyped_1 holds the Lease of mistyped, which is no node; check the agent's --node-name" in said
    assert "forgotten" not in said
