"""Evictions, bindings, tokens and scale through the client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.client import subresources
from kube_fairlead.client.client import Client
from kube_fairlead.client.watch import Change
from kube_fairlead_lab.testing.manifests import node, pod

PODS = GroupVersionResource("", "v1", "pods")
NODES = GroupVersionResource("", "v1", "nodes")
BUDGETS = GroupVersionResource("policy", "v1", "poddisruptionbudgets")
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")


async def test_an_eviction_deletes_by_uid(admin: Client, namespace: str) -> None:
    pods = admin.of(PODS)
    made = await pods.create(pod("p"), namespace=namespace)
    with pytest.raises(api_errors.Conflict):
        await subresources.evict(admin, "p", namespace=namespace, uid="another")
    await subresources.evict(admin, "p", namespace=namespace, uid=made["metadata"]["uid"], dry_run=True)
    await subresources.evict(admin, "p", namespace=namespace, uid=made["metadata"]["uid"])
    with pytest.raises(api_errors.NotFound):
        await pods.get("p", namespace=namespace)


async def test_a_budget_blocks_an_eviction_and_is_named(
    admin: Client, namespace: str, unique_name: Callable[[str], str]
) -> None:
    budgets = admin.of(BUDGETS)
    made = await admin.of(PODS).create(pod("p", unique_name("nowhere"), labels={"app": "a"}), namespace=namespace)
    await admin.of(PODS).update_status({**made, "status": {"phase": "Running"}})
    budget: dict[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }
    version = (await budgets.create(budget, namespace=namespace))["metadata"]["resourceVersion"]
    async with budgets.watch(namespace=namespace, resource_version=version) as events:
        async for event in events:
            if isinstance(event, Change) and event.object.get("status", {}).get("observedGeneration") == 1:
                break
    with pytest.raises(api_errors.TooManyRequests) as caught:
        await subresources.evict(admin, "p", namespace=namespace)
    assert caught.value.has_cause("DisruptionBudget")
    assert "The disruption budget b needs 1 healthy pods and has 0 currently" in caught.value.causes[0]["message"]


async def test_binding_a_pod_to_a_node(admin: Client, namespace: str, unique_name: Callable[[str], str]) -> None:
    name = unique_name("node")
    await admin.of(NODES).create(node(name))
    try:
        made = await admin.of(PODS).create(pod("p"), namespace=namespace)
        await subresources.bind(admin, "p", namespace=namespace, node=name, uid=made["metadata"]["uid"])
        bound = await admin.of(PODS).get("p", namespace=namespace)
        assert bound["spec"]["nodeName"] == name
        with pytest.raises(api_errors.Conflict, match="already assigned to node"):
            await subresources.bind(admin, "p", namespace=namespace, node=name)
        await admin.of(PODS).delete("p", namespace=namespace, grace_period_seconds=0)
    finally:
        await admin.of(NODES).delete(name)


async def test_scale(admin: Client, namespace: str) -> None:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod("x")["spec"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template},
    }
    await admin.of(DEPLOYMENTS).create(deployment, namespace=namespace)
    scale = await subresources.get_scale(admin, DEPLOYMENTS, "d", namespace=namespace)
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 2)
    changed = await subresources.set_scale(admin, DEPLOYMENTS, "d", 5, namespace=namespace)
    assert changed["spec"]["replicas"] == 5
    assert (await admin.of(DEPLOYMENTS).get("d", namespace=namespace))["spec"]["replicas"] == 5
