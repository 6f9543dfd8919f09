"""Pods: defaults, binding, and deletion in grace."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from kube_fairlead_lab.testing.manifests import pod
from kube_fairlead_lab.testing.rawhttp import RawApi


@pytest.fixture
def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def test_defaults(api: RawApi, path: str) -> None:
    made = (await api.post(path, pod("p"))).expect(201)
    spec = made["spec"]
    for key, value in {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "serviceAccountName": "default",
        "serviceAccount": "default",
    }.items():
        assert spec[key] == value, key
    container = spec["containers"][0]
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert container["terminationMessagePolicy"] == "File"
    assert container["resources"] == {}
    assert made["status"]["phase"] == "Pending"
    assert made["status"]["qosClass"] == "BestEffort"
    tolerations = {(entry["key"], entry["effect"], entry["tolerationSeconds"]) for entry in spec["tolerations"]}
    assert tolerations == {
        ("node.kubernetes.io/not-ready", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "NoExecute", 300),
    }


async def test_quality_of_service(api: RawApi, path: str) -> None:
    some = {"requests": {"cpu": "100m"}}
    full = {"limits": {"cpu": "1", "memory": "1Gi"}}
    for name, resources, expected in (("some", some, "Burstable"), ("full", full, "Guaranteed")):
        containers = [{"name": "main", "image": "a:1", "resources": resources}]
        made = (await api.post(path, pod(name, spec={"containers": containers}))).expect(201)
        assert made["status"]["qosClass"] == expected
    made = (await api.get(f"{path}/full")).expect(200)
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


async def test_most_of_the_spec_cannot_change(api: RawApi, path: str) -> None:
    (await api.post(path, pod("p"))).expect(201)
    status = (await api.patch(f"{path}/p", {"spec": {"restartPolicy": "Never"}})).expect(422)
    assert status["message"].startswith(
        'Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than'
    )
    (await api.patch(f"{path}/p", {"metadata": {"labels": {"x": "y"}}})).expect(200)


async def test_an_unscheduled_pod_goes_at_once(api: RawApi, path: str) -> None:
    (await api.post(path, pod("p"))).expect(201)
    gone = (await api.delete(f"{path}/p")).expect(200)
    assert gone["kind"] == "Pod"
    assert gone["metadata"]["deletionGracePeriodSeconds"] == 0
    (await api.get(f"{path}/p")).expect(404)


async def test_a_bound_pod_gets_its_grace(api: RawApi, path: str) -> None:
    made = (await api.post(path, pod("p", node_name="n", spec={"terminationGracePeriodSeconds": 60}))).expect(201)
    marked = (await api.delete(f"{path}/p")).expect(200)
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 60
    grace = moment(marked["metadata"]["deletionTimestamp"]) - moment(made["metadata"]["creationTimestamp"])
    assert timedelta(seconds=60) <= grace <= timedelta(seconds=90)
    assert marked["metadata"]["generation"] == made["metadata"]["generation"] + 1
    (await api.delete(f"{path}/p", gracePeriodSeconds=0)).expect(200)
    (await api.get(f"{path}/p")).expect(404)


async def test_a_grace_can_be_shortened_and_never_lengthened(api: RawApi, path: str) -> None:
    (await api.post(path, pod("p", node_name="n"))).expect(201)
    first = (await api.delete(f"{path}/p", {"gracePeriodSeconds": 50})).expect(200)
    longer = (await api.delete(f"{path}/p", {"gracePeriodSeconds": 100})).expect(200)
    assert longer["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    shorter = (await api.delete(f"{path}/p", {"gracePeriodSeconds": 20})).expect(200)
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 20
    moved = moment(first["metadata"]["deletionTimestamp"]) - moment(shorter["metadata"]["deletionTimestamp"])
    assert moved == timedelta(seconds=30)
    plain = (await api.delete(f"{path}/p")).expect(200)
    assert plain["metadata"]["deletionGracePeriodSeconds"] == 20
    (await api.delete(f"{path}/p", {"gracePeriodSeconds": 0})).expect(200)
    (await api.get(f"{path}/p")).expect(404)


async def test_a_negative_grace_is_one_second(api: RawApi, path: str) -> None:
    (await api.post(path, pod("p", node_name="n"))).expect(201)
    marked = (await api.delete(f"{path}/p", {"gracePeriodSeconds": -1})).expect(200)
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 1
    (await api.delete(f"{path}/p", gracePeriodSeconds=0)).expect(200)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_finished_pod_goes_at_once(api: RawApi, path: str, phase: str) -> None:
    (await api.post(path, pod("p", node_name="n"))).expect(201)
    (await api.patch(f"{path}/p/status", {"status": {"phase": phase}})).expect(200)
    (await api.delete(f"{path}/p")).expect(200)
    (await api.get(f"{path}/p")).expect(404)


async def test_binding(api: RawApi, path: str) -> None:
    (await api.post(path, pod("p"))).expect(201)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    }
    unnamed = (await api.post(f"{path}/p/binding", {**binding, "metadata": {}})).expect(400)
    assert unnamed["message"] == "name in URL does not match name in Binding object"
    status = (await api.post(f"{path}/p/binding", binding)).expect(201)
    assert status == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    bound = (await api.get(f"{path}/p")).expect(200)
    assert bound["spec"]["nodeName"] == "n"
    scheduled = next(entry for entry in bound["status"]["conditions"] if entry["type"] == "PodScheduled")
    assert scheduled["status"] == "True"
    again = (await api.post(f"{path}/p/binding", binding)).expect(409)
    assert again["message"] == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"'
    )
    (await api.delete(f"{path}/p", gracePeriodSeconds=0)).expect(200)


async def test_status_is_for_the_status_subresource(api: RawApi, path: str) -> None:
    (await api.post(path, pod("p"))).expect(201)
    unchanged = (await api.patch(f"{path}/p", {"status": {"phase": "Running"}})).expect(200)
    assert unchanged["status"]["phase"] == "Pending"
    changed = (await api.patch(f"{path}/p/status", {"status": {"phase": "Running", "podIP": "10.1.2.3"}})).expect(200)
    assert (changed["status"]["phase"], changed["status"]["podIPs"]) == ("Running", [{"ip": "10.1.2.3"}])


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"image": "a"}]}, "spec.containers[0].name"),
        ({"containers": [{"name": "a"}]}, "spec.containers[0].image"),
        ({"containers": [{"name": "A", "image": "a"}]}, "spec.containers[0].name"),
        ({"containers": [{"name": "a", "image": "a"}, {"name": "a", "image": "a"}]}, "spec.containers[1].name"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        ({"terminationGracePeriodSeconds": -1}, None),
    ],
)
async def test_validation(api: RawApi, path: str, spec: dict[str, object], field: str | None) -> None:
    answer = await api.post(path, pod("p", spec=spec))
    if field is None:
        assert answer.expect(201)["spec"]["terminationGracePeriodSeconds"] == 1
        return
    assert field in {cause["field"] for cause in answer.expect(422)["details"]["causes"]}


async def test_priority_class(api: RawApi, path: str, namespace: str) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    name = f"high-{namespace}"
    (await api.post(classes, {"metadata": {"name": name}, "value": 1000})).expect(201)
    made = (await api.post(path, pod("p", spec={"priorityClassName": name}))).expect(201)
    assert made["spec"]["priority"] == 1000
    critical = (await api.post(path, pod("c", spec={"priorityClassName": "system-node-critical"}))).expect(201)
    assert critical["spec"]["priority"] == 2000001000
    status = (await api.post(path, pod("q", spec={"priorityClassName": "none"}))).expect(403)
    assert status["message"] == 'pods "q" is forbidden: no PriorityClass with name none was found'
    (await api.delete(f"{classes}/{name}")).expect(200)
