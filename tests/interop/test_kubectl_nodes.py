"""kubectl cordon, drain, uncordon and taint."""

from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_lab.testing.manifests import pod
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.interop.conftest import Kubectl

pytestmark = pytest.mark.kube


@pytest.fixture
def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


async def test_cordon(kubectl: Kubectl, make_node: Any) -> None:
    name = await make_node()
    assert (await kubectl("cordon", name)).out == f"node/{name} cordoned\n"
    assert (await kubectl("cordon", name)).out == f"node/{name} already cordoned\n"
    assert (await kubectl("get", "node", name)).lines[1].split()[1] == "Ready,SchedulingDisabled"
    assert (await kubectl("uncordon", name)).out == f"node/{name} uncordoned\n"
    assert (await kubectl("get", "node", name)).lines[1].split()[1] == "Ready"


async def test_taint(kubectl: Kubectl, make_node: Any) -> None:
    name = await make_node()
    assert (await kubectl("taint", "node", name, "dedicated=gpu:NoSchedule")).out == f"node/{name} tainted\n"
    said = await kubectl("get", "node", name, "-o", "jsonpath={.spec.taints}")
    assert said.json == [{"effect": "NoSchedule", "key": "dedicated", "value": "gpu"}]
    await kubectl("taint", "node", name, "dedicated-")


async def test_describe(kubectl: Kubectl, make_node: Any) -> None:
    name = await make_node(labels={"node-role.kubernetes.io/worker": ""})
    said = await kubectl("describe", "node", name)
    assert "Roles:              worker" in said.lines
    assert "Unschedulable:      false" in said.lines


async def test_drain_refuses(kubectl: Kubectl, api: RawApi, pods: str, make_node: Any) -> None:
    name = await make_node()
    (await api.post(pods, pod("bare", node_name=name))).expect(201)
    said = await kubectl("drain", name, code=1)
    assert "cannot delete Pods that declare no controller (use --force to override)" in said.err
    (await api.delete(f"{pods}/bare", gracePeriodSeconds=0)).expect(200)


async def test_drain(kubectl: Kubectl, api: RawApi, pods: str, make_node: Any, pod_keeper: None) -> None:
    name = await make_node()
    for number in range(3):
        (await api.post(pods, pod(f"p{number}", node_name=name))).expect(201)
    said = await kubectl("drain", name, "--force", "--timeout=50s")
    assert said.lines[-1] == f"node/{name} drained"
    left = (await api.get(pods, fieldSelector=f"spec.nodeName={name}")).expect(200)["items"]
    assert left == []
    assert (await api.get(f"/api/v1/nodes/{name}")).expect(200)["spec"]["unschedulable"] is True


async def test_drain_waits_for_a_budget(
    kubectl: Kubectl, api: RawApi, pods: str, namespace: str, make_node: Any, pod_keeper: None
) -> None:
    name = await make_node()
    (await api.post(pods, pod("p", node_name=name, labels={"app": "x"}))).expect(201)
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}}
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    async with api.watch(budgets) as watch:
        (await api.post(budgets, budget)).expect(201)
        await watch.until(lambda event: event["object"].get("status", {}).get("currentHealthy") == 1)
    said = await kubectl("drain", name, "--force", "--timeout=2s", code=1)
    assert "Cannot evict pod as it would violate the pod's disruption budget." in said.err
    (await api.get(f"{pods}/p")).expect(200)
    await kubectl("drain", name, "--force", "--disable-eviction", "--timeout=50s")
    (await api.get(f"{pods}/p")).expect(404)


async def test_drain_dry(kubectl: Kubectl, api: RawApi, pods: str, make_node: Any) -> None:
    name = await make_node()
    (await api.post(pods, pod("p", node_name=name))).expect(201)
    said = await kubectl("drain", name, "--force", "--dry-run=server")
    assert "evicting pod" in said.out or "evicting pod" in said.err
    assert "deletionTimestamp" not in (await api.get(f"{pods}/p")).expect(200)["metadata"]
    (await api.delete(f"{pods}/p", gracePeriodSeconds=0)).expect(200)
