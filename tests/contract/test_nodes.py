"""Nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from kube_fairlead_lab.testing.manifests import node
from kube_fairlead_lab.testing.rawhttp import STRATEGIC_PATCH, RawApi


@pytest.fixture
async def path(api: RawApi, unique_name: Callable[[str], str]) -> AsyncIterator[str]:
    name = unique_name("node")
    (await api.post("/api/v1/nodes", node(name))).expect(201)
    yield f"/api/v1/nodes/{name}"
    (await api.delete(f"/api/v1/nodes/{name}")).expect(200, 404)


async def test_a_new_node_is_not_ready(api: RawApi, path: str) -> None:
    made = (await api.get(path)).expect(200)
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    assert made["status"]["nodeInfo"]["kubeletVersion"] == ""
    assert made["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}


async def test_cordon(api: RawApi, path: str) -> None:
    cordoned = (await api.patch(path, {"spec": {"unschedulable": True}}, STRATEGIC_PATCH)).expect(200)
    assert cordoned["spec"]["unschedulable"] is True
    freed = (await api.patch(path, {"spec": {"unschedulable": None}}, STRATEGIC_PATCH)).expect(200)
    assert "unschedulable" not in freed["spec"]


async def test_conditions_through_status(api: RawApi, path: str) -> None:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    other = {"type": "DiskPressure", "status": "False"}
    for condition in (ready, other):
        made = (await api.patch(f"{path}/status", {"status": {"conditions": [condition]}}, STRATEGIC_PATCH)).expect(200)
    assert {entry["type"] for entry in made["status"]["conditions"]} == {"Ready", "DiskPressure"}
    gone = {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}
    made = (await api.patch(f"{path}/status", gone, STRATEGIC_PATCH)).expect(200)
    assert [entry["type"] for entry in made["status"]["conditions"]] == ["DiskPressure"]


async def test_provider_id_is_set_once(api: RawApi, path: str) -> None:
    (await api.patch(path, {"spec": {"providerID": "a://1"}})).expect(200)
    status = (await api.patch(path, {"spec": {"providerID": "b://2"}})).expect(422)
    assert status["details"]["causes"][0] == {
        "reason": "FieldValueForbidden",
        "message": 'Forbidden: node updates may not change providerID except from "" to valid',
        "field": "spec.providerID",
    }


async def test_pod_cidr_is_set_once(api: RawApi, path: str) -> None:
    made = (await api.patch(path, {"spec": {"podCIDR": "10.1.0.0/24"}})).expect(200)
    assert made["spec"]["podCIDRs"] == ["10.1.0.0/24"]
    other = {"spec": {"podCIDR": "10.2.0.0/24", "podCIDRs": ["10.2.0.0/24"]}}
    status = (await api.patch(path, other)).expect(422)
    assert status["details"]["causes"][0]["field"] == "spec.podCIDRs"


async def test_taints_are_checked(api: RawApi, path: str) -> None:
    taints = {"spec": {"taints": [{"key": "a", "effect": "Whatever"}]}}
    status = (await api.patch(path, taints)).expect(422)
    assert status["details"]["causes"][0] == {
        "reason": "FieldValueNotSupported",
        "message": 'Unsupported value: "Whatever": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
        "field": "metadata.taints[0].effect",
    }


async def test_no_grace_for_nodes(api: RawApi, path: str) -> None:
    (await api.delete(path, gracePeriodSeconds=30)).expect(200)
    (await api.get(path)).expect(404)
