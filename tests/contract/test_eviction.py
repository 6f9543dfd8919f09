"""Eviction and PodDisruptionBudgets: which code means what."""

from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_lab.testing.control_plane import ControlPlane
from kube_fairlead_lab.testing.manifests import failure, pod
from kube_fairlead_lab.testing.rawhttp import RawApi


@pytest.fixture
def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


@pytest.fixture
def budgets(namespace: str) -> str:
    return f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"


def eviction(name: str, **options: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    if options:
        made["deleteOptions"] = options
    return made


def budget(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "x"}}, **spec}}


async def running(api: RawApi, path: str, name: str) -> None:
    (await api.post(path, pod(name, node_name="n", labels={"app": "x"}))).expect(201)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    (await api.patch(f"{path}/{name}/status", {"status": status})).expect(200)


async def counted(api: RawApi, budgets: str, **status: int) -> dict[str, Any]:
    """Wait until the disruption controller has come to these numbers."""
    async with api.watch(budgets) as watch:
        event = await watch.until(
            lambda event: all(event["object"].get("status", {}).get(key) == value for key, value in status.items())
        )
    made: dict[str, Any] = event["object"]
    return made


async def test_without_a_budget(api: RawApi, path: str) -> None:
    await running(api, path, "p")
    status = (await api.post(f"{path}/p/eviction", eviction("p"))).expect(201)
    assert status == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    marked = (await api.get(f"{path}/p")).expect(200)
    assert marked["metadata"]["deletionTimestamp"]
    disrupted = next(entry for entry in marked["status"]["conditions"] if entry["type"] == "DisruptionTarget")
    assert (disrupted["status"], disrupted["reason"], disrupted["message"]) == (
        "True",
        "EvictionByEvictionAPI",
        "Eviction API: evicting",
    )
    (await api.delete(f"{path}/p", gracePeriodSeconds=0)).expect(200)


async def test_of_what_is_not_there(api: RawApi, path: str) -> None:
    status = (await api.post(f"{path}/p/eviction", eviction("p"))).expect(404)
    assert status["message"] == 'pods "p" not found'


async def test_names_must_agree(api: RawApi, path: str) -> None:
    await running(api, path, "p")
    for other in ("q", ""):
        status = (await api.post(f"{path}/p/eviction", eviction(other))).expect(400)
        assert status["message"] == "name in URL does not match name in Eviction object"
    (await api.delete(f"{path}/p", gracePeriodSeconds=0)).expect(200)


async def test_by_uid(api: RawApi, path: str) -> None:
    await running(api, path, "p")
    status = (await api.post(f"{path}/p/eviction", eviction("p", preconditions={"uid": "other"}))).expect(409)
    assert status["reason"] == "Conflict"
    (await api.delete(f"{path}/p", gracePeriodSeconds=0)).expect(200)


async def test_with_a_grace(api: RawApi, path: str) -> None:
    await running(api, path, "p")
    (await api.post(f"{path}/p/eviction", eviction("p", gracePeriodSeconds=7))).expect(201)
    marked = (await api.get(f"{path}/p")).expect(200)
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 7
    (await api.delete(f"{path}/p", gracePeriodSeconds=0)).expect(200)


async def test_dry(api: RawApi, path: str) -> None:
    await running(api, path, "p")
    (await api.post(f"{path}/p/eviction", eviction("p", dryRun=["All"]))).expect(201)
    assert "deletionTimestamp" not in (await api.get(f"{path}/p")).expect(200)["metadata"]
    (await api.delete(f"{path}/p", gracePeriodSeconds=0)).expect(200)


async def test_the_old_version_is_understood(api: RawApi, path: str) -> None:
    await running(api, path, "p")
    status = (await api.post(f"{path}/p/eviction", {**eviction("p"), "apiVersion": "policy/v1beta1"})).expect(201)
    assert status["status"] == "Success"
    (await api.delete(f"{path}/p", gracePeriodSeconds=0)).expect(200)


async def test_a_budget_is_kept(api: RawApi, path: str, budgets: str) -> None:
    for name in ("p", "q"):
        await running(api, path, name)
    (await api.post(budgets, budget(minAvailable=1))).expect(201)
    made = await counted(api, budgets, expectedPods=2, currentHealthy=2, desiredHealthy=1, disruptionsAllowed=1)
    allowed = next(entry for entry in made["status"]["conditions"] if entry["type"] == "DisruptionAllowed")
    assert (allowed["status"], allowed["reason"]) == ("True", "SufficientPods")
    (await api.post(f"{path}/p/eviction", eviction("p"))).expect(201)
    spent = (await api.get(f"{budgets}/b")).expect(200)
    assert spent["status"]["disruptionsAllowed"] == 0
    answer = await api.post(f"{path}/q/eviction", eviction("q"))
    status = answer.expect(429)
    assert status["reason"] == "TooManyRequests"
    assert status["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert [cause["reason"] for cause in status["details"]["causes"]] == ["DisruptionBudget"]
    for name in ("p", "q"):
        (await api.delete(f"{path}/{name}", gracePeriodSeconds=0)).expect(200)


async def test_the_budget_says_how_many_it_needs(api: RawApi, path: str, budgets: str) -> None:
    await running(api, path, "p")
    (await api.post(budgets, budget(minAvailable=1))).expect(201)
    await counted(api, budgets, expectedPods=1, currentHealthy=1, disruptionsAllowed=0)
    status = (await api.post(f"{path}/p/eviction", eviction("p"))).expect(429)
    assert status == failure(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        {
            "causes": [
                {
                    "reason": "DisruptionBudget",
                    "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
                }
            ]
        },
    )
    (await api.delete(f"{path}/p", gracePeriodSeconds=0)).expect(200)


async def test_a_pod_that_never_ran_may_always_go(api: RawApi, path: str, budgets: str) -> None:
    await running(api, path, "p")
    (await api.post(path, pod("pending", labels={"app": "x"}))).expect(201)
    (await api.post(budgets, budget(maxUnavailable=0))).expect(201)
    (await api.post(f"{path}/pending/eviction", eviction("pending"))).expect(201)
    (await api.get(f"{path}/pending")).expect(404)
    (await api.delete(f"{path}/p", gracePeriodSeconds=0)).expect(200)


async def test_a_finished_pod_may_always_go(api: RawApi, path: str, budgets: str) -> None:
    await running(api, path, "p")
    (await api.post(budgets, budget(minAvailable=1))).expect(201)
    (await api.patch(f"{path}/p/status", {"status": {"phase": "Succeeded"}})).expect(200)
    (await api.post(f"{path}/p/eviction", eviction("p"))).expect(201)
    (await api.get(f"{path}/p")).expect(404)


async def test_two_budgets_over_one_pod(api: RawApi, path: str, budgets: str) -> None:
    await running(api, path, "p")
    for name in ("b1", "b2"):
        (await api.post(budgets, {**budget(minAvailable=0), "metadata": {"name": name}})).expect(201)
    status = (await api.post(f"{path}/p/eviction", eviction("p"))).expect(500)
    assert (
        status["message"]
        == "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )
    (await api.delete(f"{path}/p", gracePeriodSeconds=0)).expect(200)


async def test_an_unhealthy_pod_under_each_policy(api: RawApi, path: str, budgets: str) -> None:
    await running(api, path, "healthy")
    await running(api, path, "sick")
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    (await api.patch(f"{path}/sick/status", unready)).expect(200)
    (await api.post(budgets, budget(minAvailable=2))).expect(201)
    await counted(api, budgets, expectedPods=2, currentHealthy=1, disruptionsAllowed=0)
    (await api.post(f"{path}/sick/eviction", eviction("sick"))).expect(429)
    (await api.patch(f"{budgets}/b", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}})).expect(200)
    (await api.post(f"{path}/sick/eviction", eviction("sick"))).expect(201)
    for name in ("healthy", "sick"):
        (await api.delete(f"{path}/{name}", gracePeriodSeconds=0)).expect(200)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minAvailable": 1, "maxUnavailable": 1}, "spec"),
        ({"minAvailable": -1}, "spec.minAvailable"),
        ({"minAvailable": "150%"}, "spec.minAvailable"),
        ({"maxUnavailable": "many"}, "spec.maxUnavailable"),
        ({"unhealthyPodEvictionPolicy": "Perhaps"}, "spec.unhealthyPodEvictionPolicy"),
    ],
)
async def test_budgets_that_are_refused(api: RawApi, budgets: str, spec: dict[str, Any], field: str) -> None:
    status = (await api.post(budgets, budget(**spec))).expect(422)
    assert field in {cause["field"] for cause in status["details"]["causes"]}


@pytest.mark.parametrize("preconditions", [{"uid": "other"}, {"resourceVersion": "1"}])
async def test_what_is_refused_is_not_charged(
    api: RawApi, path: str, budgets: str, preconditions: dict[str, str], control_plane: ControlPlane
) -> None:
    for name in ("p", "q"):
        await running(api, path, name)
    (await api.post(budgets, budget(minAvailable=1))).expect(201)
    await counted(api, budgets, expectedPods=2, currentHealthy=2, disruptionsAllowed=1)
    refused = (await api.post(f"{path}/p/eviction", eviction("p", preconditions=preconditions))).expect(409)
    assert refused["details"] == {"name": "p", "kind": "Pod"}
    assert "in the precondition" in refused["message"]
    # docs/differences.md: kube-apiserver charges the budget first, and its controller forgives that after two minutes.
    charged = "p" in (await api.get(f"{budgets}/b")).expect(200)["status"].get("disruptedPods", {})
    assert charged is (control_plane.kind == "kube")
    for name in ("p", "q"):
        (await api.delete(f"{path}/{name}", gracePeriodSeconds=0)).expect(200)
