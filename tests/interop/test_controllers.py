"""The real kube-controller-manager and kube-scheduler, with nothing but the embedded server to talk to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kube_fairlead_lab.testing import (
    ControlPlane,
    EmbeddedControlPlane,
    EmbeddedOptions,
    KubeControlPlane,
    KubeOptions,
    require_real,
)
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.interop.conftest import Kubectl

pytestmark = [pytest.mark.kube, pytest.mark.xdist_group("controllers")]

# Nobody sends heartbeats here.
PATIENT = ["--node-monitor-grace-period=600s"]


@pytest.fixture(scope="module", params=["embedded", "kube"])
def control_plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    missing = KubeBinaries.find().missing("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    require_real("real Kubernetes", present=not missing, remedy="run: make kube")
    folder = tmp_path_factory.mktemp(f"controllers-{request.param}")
    plane: ControlPlane
    if request.param == "embedded":
        # Its own controllers are off: whatever happens here, the real ones did it.
        options = EmbeddedOptions(
            flags=["--controllers=none"],
            kube_controllers=["*"],
            kube_controller_manager_flags=PATIENT,
            kube_scheduler=True,
        )
        plane = EmbeddedControlPlane(folder, options)
    else:
        kube = KubeOptions(controllers=["*"], controller_manager_flags=PATIENT, scheduler=True)
        plane = KubeControlPlane(folder, kube)
    yield from watch_over(request.config, plane)


def workload(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "a:1", "resources": {"requests": {"cpu": "100m"}}}]
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}}
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    }


async def reached(api: RawApi, path: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The object at a path, once it is as wanted."""
    collection, _, name = path.rpartition("/")
    async with api.watch(collection, fieldSelector=f"metadata.name={name}") as watch:
        event = await watch.until(lambda event: event["type"] != "DELETED" and wanted(event["object"]))
    found: dict[str, Any] = event["object"]
    return found


async def gone(api: RawApi, collection: str) -> None:
    """Nothing is left in a collection."""
    await api.poll(collection, lambda answer: answer.json["items"] == [])


async def test_a_deployment_becomes_scheduled_pods(
    api: RawApi, namespace: str, make_node: Any, pod_keeper: None
) -> None:
    nodes = {await make_node(), await make_node()}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    pods = f"/api/v1/namespaces/{namespace}/pods"
    (await api.post(path, workload("d", replicas=4))).expect(201)
    await reached(api, f"{path}/d", lambda made: made["status"].get("availableReplicas") == 4)
    placed = (await api.get(pods)).expect(200)["items"]
    assert {pod["spec"]["nodeName"] for pod in placed} <= nodes
    (await api.patch(f"{path}/d", {"spec": {"replicas": 1}})).expect(200)
    await reached(api, f"{path}/d", lambda made: made["status"].get("replicas") == 1)
    (await api.delete(f"{path}/d")).expect(200)
    await gone(api, f"/apis/apps/v1/namespaces/{namespace}/replicasets")
    await gone(api, pods)


async def test_a_rollout(api: RawApi, namespace: str, make_node: Any, pod_keeper: None, kubectl: Kubectl) -> None:
    await make_node()
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    (await api.post(path, workload("d", replicas=3))).expect(201)
    await kubectl("rollout", "status", "deployment/d", "--timeout=50s")
    await kubectl("set", "image", "deployment/d", "main=a:2")
    said = await kubectl("rollout", "status", "deployment/d", "--timeout=50s")
    assert "successfully rolled out" in said.out
    assert "REVISION" in (await kubectl("rollout", "history", "deployment/d")).out
    assert "rolled back" in (await kubectl("rollout", "undo", "deployment/d")).out
    await kubectl("rollout", "status", "deployment/d", "--timeout=50s")
    made = (await api.get(f"{path}/d")).expect(200)
    assert made["spec"]["template"]["spec"]["containers"][0]["image"] == "a:1"


async def test_a_drained_nodes_pods_are_replaced_elsewhere(
    api: RawApi, namespace: str, make_node: Any, pod_keeper: None, kubectl: Kubectl
) -> None:
    first, second = await make_node(), await make_node()
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    pods = f"/api/v1/namespaces/{namespace}/pods"
    (await api.post(path, workload("d", replicas=4))).expect(201)
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "d"}}}}
    (await api.post(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets", budget)).expect(201)
    await reached(api, f"{path}/d", lambda made: made["status"].get("availableReplicas") == 4)
    await kubectl("drain", first, "--timeout=55s")
    await reached(
        api,
        f"{path}/d",
        lambda made: made["status"].get("availableReplicas") == 4 and made["status"].get("replicas") == 4,
    )
    placed = (await api.get(pods)).expect(200)["items"]
    assert {pod["spec"]["nodeName"] for pod in placed if "deletionTimestamp" not in pod["metadata"]} == {second}


async def test_a_job_completes(api: RawApi, namespace: str, make_node: Any, pod_keeper: None) -> None:
    await make_node()
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a:1"}]}}
    (await api.post(path, {"metadata": {"name": "j"}, "spec": {"completions": 2, "template": template}})).expect(201)

    def complete(made: dict[str, Any]) -> bool:
        return any(
            entry["type"] == "Complete" and entry["status"] == "True"
            for entry in made.get("status", {}).get("conditions", [])
        )

    done = await reached(api, f"{path}/j", complete)
    assert done["status"]["succeeded"] == 2
    assert done["status"]["completionTime"]


async def test_a_daemon_set_is_on_every_node(api: RawApi, namespace: str, make_node: Any, pod_keeper: None) -> None:
    name = await make_node(labels={"only": namespace})
    path = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
    body = workload("ds")
    body["spec"]["template"]["spec"]["nodeSelector"] = {"only": namespace}
    (await api.post(path, body)).expect(201)
    await reached(api, f"{path}/ds", lambda made: made["status"].get("numberAvailable") == 1)
    (pod,) = (await api.get(f"/api/v1/namespaces/{namespace}/pods")).expect(200)["items"]
    assert pod["spec"]["nodeName"] == name


async def test_a_stateful_set_in_order(api: RawApi, namespace: str, make_node: Any, pod_keeper: None) -> None:
    await make_node()
    path = f"/apis/apps/v1/namespaces/{namespace}/statefulsets"
    (await api.post(path, workload("s", replicas=2, serviceName="s"))).expect(201)
    await reached(api, f"{path}/s", lambda made: made["status"].get("readyReplicas") == 2)
    names = [pod["metadata"]["name"] for pod in (await api.get(f"/api/v1/namespaces/{namespace}/pods")).json["items"]]
    assert names == ["s-0", "s-1"]


async def test_a_service_gets_its_endpoints(api: RawApi, namespace: str, make_node: Any, pod_keeper: None) -> None:
    await make_node()
    (await api.post(f"/apis/apps/v1/namespaces/{namespace}/replicasets", workload("r", replicas=1))).expect(201)
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "r"}, "ports": [{"port": 80}]}}
    (await api.post(f"/api/v1/namespaces/{namespace}/services", service)).expect(201)
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"

    def ready(event: dict[str, Any]) -> bool:
        return any(entry["conditions"].get("ready") for entry in event["object"].get("endpoints") or [])

    async with api.watch(slices, labelSelector="kubernetes.io/service-name=web") as watch:
        event = await watch.until(ready)
    assert event["object"]["endpoints"][0]["addresses"] == ["10.99.0.1"]


async def test_owners_take_their_own_with_them(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    owner = (await api.post(path, {"metadata": {"name": "owner"}})).expect(201)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    child = {"metadata": {"name": "child", "ownerReferences": [reference]}}
    made = (await api.post(path, child)).expect(201)
    async with api.watch(path, resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        (await api.delete(f"{path}/owner")).expect(200)
        await watch.until(lambda event: (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "child"))


async def test_a_namespace_is_emptied(api: RawApi, unique_name: Callable[[str], str]) -> None:
    name = unique_name("space")
    made = (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).expect(201)
    (await api.post(f"/api/v1/namespaces/{name}/configmaps", {"metadata": {"name": "a"}})).expect(201)
    version = made["metadata"]["resourceVersion"]
    async with api.watch("/api/v1/namespaces", fieldSelector=f"metadata.name={name}", resourceVersion=version) as watch:
        (await api.delete(f"/api/v1/namespaces/{name}")).expect(200)
        await watch.until(lambda event: event["type"] == "DELETED")


async def test_an_event_tells_of_scheduling(api: RawApi, namespace: str, make_node: Any) -> None:
    await make_node()
    events = f"/api/v1/namespaces/{namespace}/events"
    containers = [{"name": "main", "image": "a:1"}]
    body = {"metadata": {"name": "p"}, "spec": {"containers": containers}}
    async with api.watch(events) as watch:
        (await api.post(f"/api/v1/namespaces/{namespace}/pods", body)).expect(201)
        event = await watch.until(lambda event: event["object"]["reason"] == "Scheduled")
    assert event["object"]["involvedObject"]["name"] == "p"
    assert event["object"]["reportingComponent"] == "default-scheduler"
    (await api.delete(f"/api/v1/namespaces/{namespace}/pods/p", gracePeriodSeconds=0)).expect(200)
