"""Autoscalers in both of their versions: v1 loses nothing of what only v2 can say."""

from __future__ import annotations

import json
from typing import Any

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.conftest import Refused, inside

Json = dict[str, Any]

V1, V2 = "horizontalpodautoscalers.autoscaling/v1", "horizontalpodautoscalers.autoscaling/v2"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
CARRIED = "autoscaling.alpha.kubernetes.io/"
SERVICE = {"kind": "Service", "name": "s", "apiVersion": "v1"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

# What v2 measures, and how v1 carries it.
MEASURES: list[tuple[Json, Json]] = [
    (
        {"resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "100Mi"}}},
        {"resource": {"name": "memory", "targetAverageValue": "100Mi"}},
    ),
    (
        {
            "pods": {
                "metric": {"name": "q", "selector": {"matchLabels": {"a": "b"}}},
                "target": {"type": "AverageValue", "averageValue": "10"},
            }
        },
        {"pods": {"metricName": "q", "targetAverageValue": "10", "selector": {"matchLabels": {"a": "b"}}}},
    ),
    (
        {"object": {"describedObject": SERVICE, "metric": {"name": "r"}, "target": {"type": "Value", "value": "5"}}},
        {"object": {"target": SERVICE, "metricName": "r", "targetValue": "5"}},
    ),
    (
        {
            "object": {
                "describedObject": SERVICE,
                "metric": {"name": "r"},
                "target": {"type": "AverageValue", "averageValue": "5"},
            }
        },
        {"object": {"target": SERVICE, "metricName": "r", "targetValue": "0", "averageValue": "5"}},
    ),
    (
        {"external": {"metric": {"name": "<e>"}, "target": {"type": "AverageValue", "averageValue": "7"}}},
        {"external": {"metricName": "<e>", "targetAverageValue": "7"}},
    ),
    (
        {"external": {"metric": {"name": "e"}, "target": {"type": "Value", "value": "7"}}},
        {"external": {"metricName": "e", "targetValue": "7"}},
    ),
    (
        {
            "containerResource": {
                "name": "cpu",
                "container": "c",
                "target": {"type": "Utilization", "averageUtilization": 40},
            }
        },
        {"containerResource": {"name": "cpu", "targetAverageUtilization": 40, "container": "c"}},
    ),
]


def typed(measure: Json) -> Json:
    (kind,) = measure
    return {"type": kind[0].upper() + kind[1:], **measure}


def cpu(percent: int) -> Json:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def autoscaler(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, **spec}}


def carried(obj: Json, name: str) -> Any:
    text = obj["metadata"].get("annotations", {}).get(f"{CARRIED}{name}")
    return None if text is None else json.loads(text)


async def test_an_autoscaler_by_processor_time(api: RawApi, namespace: str, refused: Refused) -> None:
    older, newer = inside(namespace, V1), inside(namespace, V2)
    made = (await api.post(older, autoscaler("a"))).expect(201)
    assert made["apiVersion"] == "autoscaling/v1"
    assert made["spec"] == {
        "scaleTargetRef": TARGET,
        "minReplicas": 1,
        "maxReplicas": 3,
        "targetCPUUtilizationPercentage": 80,
    }
    assert made["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    seen = (await api.get(f"{newer}/a")).expect(200)
    assert seen["spec"]["metrics"] == [cpu(80)]
    assert seen["status"] == {"currentMetrics": None, "desiredReplicas": 0}
    (await api.patch(f"{older}/a", {"spec": {"targetCPUUtilizationPercentage": 55}})).expect(200)
    assert (await api.get(f"{newer}/a")).expect(200)["spec"]["metrics"] == [cpu(55)]
    # What is wrong is said in the words of v2.
    assert await refused(V1, {"spec": {"targetCPUUtilizationPercentage": 0, "minReplicas": 5}}, patch="a") == [
        "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`",
        "spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
    ]
    (await api.put(f"{older}/a", made)).expect(409)
    (await api.delete(f"{older}/a")).expect(200)
    (await api.get(f"{newer}/a")).expect(404)


async def test_what_only_the_newer_version_can_say(api: RawApi, namespace: str) -> None:
    older, newer = f"{inside(namespace, V1)}/b", f"{inside(namespace, V2)}/b"
    metrics = [*(typed(measure) for measure, _ in MEASURES), cpu(60)]
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    made = (await api.post(inside(namespace, V2), autoscaler("b", metrics=metrics, behavior=behavior))).expect(201)
    seen = (await api.get(older)).expect(200)
    assert seen["spec"]["targetCPUUtilizationPercentage"] == 60
    assert not {"metrics", "behavior"} & seen["spec"].keys()
    assert carried(seen, "metrics") == [typed(flat) for _, flat in MEASURES]
    assert seen["metadata"]["annotations"][f"{CARRIED}metrics"].startswith(
        '[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"100Mi"}},{"type":"Pods","pods":{"metricName"'
    )
    assert seen["metadata"]["annotations"][f"{CARRIED}behavior"] == (
        '{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max","Policies":'
        '[{"Type":"Pods","Value":4,"PeriodSeconds":15},{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null},'
        '"ScaleDown":{"StabilizationWindowSeconds":60,"SelectPolicy":"Max","Policies":'
        '[{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null}}'
    )
    # Whoever writes through v1 keeps it.
    (await api.patch(older, {"spec": {"maxReplicas": 9}})).expect(200)
    kept = (await api.get(newer)).expect(200)
    assert kept["spec"] == {**made["spec"], "maxReplicas": 9}
    assert "annotations" not in kept["metadata"]
    # And whoever takes it out there takes it out.
    gone = {"metadata": {"annotations": {f"{CARRIED}metrics": None, f"{CARRIED}behavior": None}}}
    (await api.patch(older, gone)).expect(200)
    left = (await api.get(newer)).expect(200)["spec"]
    assert (left["metrics"], left.get("behavior")) == ([cpu(60)], None)
    (await api.delete(newer)).expect(200)


async def test_what_nobody_can_read_says_nothing(api: RawApi, namespace: str, refused: Refused) -> None:
    older, newer = inside(namespace, V1), inside(namespace, V2)
    body = autoscaler("c", targetCPUUtilizationPercentage=50)
    body["metadata"]["annotations"] = {f"{CARRIED}metrics": "[5]", f"{CARRIED}behavior": "{", "own": "x"}
    made = (await api.post(older, body)).expect(201)
    assert made["metadata"]["annotations"] == {"own": "x"}
    assert (await api.get(f"{newer}/c")).expect(200)["spec"]["metrics"] == [cpu(50)]
    # What v1 carries is no business of v2.
    changed = (await api.patch(f"{newer}/c", {"metadata": {"annotations": {f"{CARRIED}metrics": "[]"}}})).expect(200)
    assert changed["metadata"]["annotations"] == {"own": "x"}
    rules = json.dumps({"ScaleUp": {"SelectPolicy": "Min"}})
    assert await refused(V1, {"metadata": {"annotations": {f"{CARRIED}behavior": rules}}}, patch="c") == [
        "spec.behavior.scaleUp.policies: Required value: must specify at least one Policy"
    ]
    (await api.delete(f"{newer}/c")).expect(200)


async def test_what_was_measured(api: RawApi, namespace: str) -> None:
    older, newer = f"{inside(namespace, V1)}/d", f"{inside(namespace, V2)}/d"
    (await api.post(inside(namespace, V2), autoscaler("d", metrics=[cpu(60)]))).expect(201)
    current = [
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 33, "averageValue": "1"}}}
    ]
    condition = {"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R"}
    status = {"currentReplicas": 2, "desiredReplicas": 3, "currentMetrics": current, "conditions": [condition]}
    (await api.patch(f"{newer}/status", {"status": status})).expect(200)
    seen = (await api.get(older)).expect(200)
    assert seen["status"] == {"currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 33}
    used = {"name": "cpu", "currentAverageUtilization": 33, "currentAverageValue": "1"}
    assert carried(seen, "current-metrics") == [{"type": "Resource", "resource": used}]
    assert carried(seen, "conditions") == [condition]
    # A write of the rest leaves it, and a write of the status leaves the rest.
    (
        await api.patch(older, {"metadata": {"annotations": {f"{CARRIED}conditions": None}, "labels": {"a": "b"}}})
    ).expect(200)
    assert (await api.get(newer)).expect(200)["status"] == status
    change = {"metadata": {"annotations": {f"{CARRIED}metrics": "[]"}}, "status": {"currentReplicas": 7}}
    (await api.patch(f"{older}/status", change)).expect(200)
    after = (await api.get(newer)).expect(200)
    assert (after["status"], after["spec"]["metrics"]) == ({**status, "currentReplicas": 7}, [cpu(60)])
    tables = [(await api.with_headers(accept=TABLE).get(path)).expect(200) for path in (older, newer)]
    for table in tables:
        assert table["rows"][0]["cells"][:6] == ["d", "Deployment/d", "cpu: 33%/60%", "1", 3, 7]
    (await api.delete(newer)).expect(200)


def applied(version: str, **spec: Any) -> Json:
    return {"apiVersion": f"autoscaling/{version}", "kind": "HorizontalPodAutoscaler", **autoscaler("s", **spec)}


async def test_owners_in_one_version_are_seen_in_the_other(api: RawApi, namespace: str) -> None:
    older, newer = f"{inside(namespace, V1)}/s", f"{inside(namespace, V2)}/s"
    (await api.apply(older, applied("v1", targetCPUUtilizationPercentage=50), "one")).expect(201)
    status = (await api.apply(newer, applied("v2", metrics=[cpu(60)]), "two")).expect(409)
    assert status["message"] == (
        'Apply failed with 1 conflict: conflict with "one": .spec.targetCPUUtilizationPercentage'
    )
    # Who agrees owns it as well, and what one gives up the other keeps.
    (await api.apply(newer, applied("v2", metrics=[cpu(50)]), "two")).expect(200)
    left = (await api.apply(older, applied("v1"), "one")).expect(200)
    assert left["spec"]["targetCPUUtilizationPercentage"] == 50
    status = (await api.apply(older, applied("v1", targetCPUUtilizationPercentage=60), "one")).expect(409)
    assert [cause["field"] for cause in status["details"]["causes"]] == [".spec.metrics"]
    # A plain write takes it from whoever had it.
    changed = (await api.patch(older, {"spec": {"targetCPUUtilizationPercentage": 44}}, fieldManager="three")).expect(
        200
    )
    owned = {entry["manager"]: set(entry["fieldsV1"]["f:spec"]) for entry in changed["metadata"]["managedFields"]}
    assert owned == {
        "one": {"f:maxReplicas", "f:scaleTargetRef"},
        "two": {"f:maxReplicas", "f:scaleTargetRef"},
        "three": {"f:targetCPUUtilizationPercentage"},
    }
    (await api.delete(newer)).expect(200)


async def test_a_watch_sees_what_came_through_the_other_version(api: RawApi, namespace: str) -> None:
    older, newer = inside(namespace, V1), inside(namespace, V2)
    version = (await api.get(older)).expect(200)["metadata"]["resourceVersion"]
    async with api.watch(older, resourceVersion=version) as watch:
        (await api.post(newer, autoscaler("w", metrics=[cpu(40)]))).expect(201)
        event = await watch.until(lambda event: event["object"]["metadata"]["name"] == "w")
    assert event["object"]["apiVersion"] == "autoscaling/v1"
    assert event["object"]["spec"]["targetCPUUtilizationPercentage"] == 40
    (await api.delete(f"{newer}/w")).expect(200)
