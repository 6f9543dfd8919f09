"""Status and scale, and how generation counts."""

from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_lab.testing.manifests import config_map, pod
from kube_fairlead_lab.testing.rawhttp import JSON_PATCH, STRATEGIC_PATCH, RawApi


def deployment(name: str, replicas: int) -> dict[str, Any]:
    containers = [{"name": "main", "image": "a:1"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}},
        },
    }


@pytest.fixture
async def path(api: RawApi, namespace: str) -> str:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    (await api.post(path, deployment("d", 2))).expect(201)
    return f"{path}/d"


async def test_generation_counts_changes_of_the_spec_only(api: RawApi, path: str) -> None:
    assert (await api.get(path)).expect(200)["metadata"]["generation"] == 1
    labelled = (await api.patch(path, {"metadata": {"labels": {"x": "y"}}})).expect(200)
    assert labelled["metadata"]["generation"] == 1
    scaled = (await api.patch(path, {"spec": {"replicas": 3}})).expect(200)
    assert scaled["metadata"]["generation"] == 2
    same = (await api.patch(path, {"spec": {"replicas": 3}})).expect(200)
    assert same["metadata"]["generation"] == 2
    reported = (await api.patch(f"{path}/status", {"status": {"replicas": 3}})).expect(200)
    assert reported["metadata"]["generation"] == 2
    forced = (await api.patch(path, {"metadata": {"generation": 99}})).expect(200)
    assert forced["metadata"]["generation"] == 2


async def test_status_on_the_main_resource_is_ignored(api: RawApi, path: str) -> None:
    patched = (await api.patch(path, {"status": {"replicas": 9}})).expect(200)
    assert "replicas" not in patched["status"]
    collection = path.rpartition("/")[0]
    made = (await api.post(collection, {**deployment("e", 1), "status": {"replicas": 9}})).expect(201)
    assert "replicas" not in made["status"]


async def test_everything_but_status_is_ignored_on_the_status_subresource(api: RawApi, path: str) -> None:
    body = {"spec": {"replicas": 9}, "metadata": {"labels": {"x": "y"}}, "status": {"replicas": 1}}
    patched = (await api.patch(f"{path}/status", body)).expect(200)
    assert patched["status"]["replicas"] == 1
    assert patched["spec"]["replicas"] == 2
    assert "labels" not in patched["metadata"]


async def test_put_status(api: RawApi, path: str) -> None:
    current = (await api.get(f"{path}/status")).expect(200)
    current["status"]["replicas"] = 2
    current["spec"]["replicas"] = 7
    stored = (await api.put(f"{path}/status", current)).expect(200)
    assert (stored["status"]["replicas"], stored["spec"]["replicas"]) == (2, 2)


async def test_read_scale(api: RawApi, path: str, namespace: str) -> None:
    parent = (await api.get(path)).expect(200)
    scale = (await api.get(f"{path}/scale")).expect(200)
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "app=d"}
    for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp"):
        assert scale["metadata"][key] == parent["metadata"][key]


async def test_write_scale(api: RawApi, path: str) -> None:
    scale = (await api.get(f"{path}/scale")).expect(200)
    scale["spec"]["replicas"] = 5
    assert (await api.put(f"{path}/scale", scale)).expect(200)["spec"]["replicas"] == 5
    assert (await api.get(path)).expect(200)["spec"]["replicas"] == 5
    assert (await api.put(f"{path}/scale", scale)).expect(409)["reason"] == "Conflict"
    patched = (await api.patch(f"{path}/scale", {"spec": {"replicas": 0}})).expect(200)
    assert patched["spec"] == {}  # zero is left out
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 4}]
    assert (await api.patch(f"{path}/scale", operations, JSON_PATCH)).expect(200)["spec"]["replicas"] == 4
    parent = (await api.get(path)).expect(200)
    assert parent["spec"]["replicas"] == 4
    assert parent["metadata"]["generation"] == 4


async def test_a_negative_scale(api: RawApi, path: str) -> None:
    status = (await api.patch(f"{path}/scale", {"spec": {"replicas": -1}})).expect(422)
    assert status["message"] == (
        'Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
    )


async def test_subresources_of_what_is_missing(api: RawApi, path: str) -> None:
    gone = path.removesuffix("/d") + "/none"
    for subresource in ("status", "scale"):
        status = (await api.get(f"{gone}/{subresource}")).expect(404)
        assert status["message"] == 'deployments.apps "none" not found'
        assert status["details"] == {"name": "none", "group": "apps", "kind": "deployments"}


async def test_a_subresource_that_is_not_there(api: RawApi, path: str) -> None:
    status = (await api.get(f"{path}/colour")).expect(404)
    assert status["message"] == "the server could not find the requested resource"


async def test_conditions_merge_by_type(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    (await api.post(path, pod("p"))).expect(201)
    for kind in ("Ready", "ContainersReady"):
        body = {"status": {"conditions": [{"type": kind, "status": "False"}]}}
        made = (await api.patch(f"{path}/p/status", body, STRATEGIC_PATCH)).expect(200)
    assert {condition["type"] for condition in made["status"]["conditions"]} == {"Ready", "ContainersReady"}


async def test_applying_a_scale_conflicts_with_who_scaled_last(api: RawApi, path: str) -> None:
    def scale(replicas: int) -> dict[str, Any]:
        return {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": "d"},
            "spec": {"replicas": replicas},
        }

    (await api.patch(f"{path}/scale", {"spec": {"replicas": 3}}, fieldManager="scaler")).expect(200)
    status = (await api.apply(f"{path}/scale", scale(4), "me")).expect(409)
    assert status["message"] == (
        'Apply failed with 1 conflict: conflict with "scaler" with subresource "scale" using autoscaling/v1: '
        ".spec.replicas"
    )
    forced = (await api.apply(f"{path}/scale", scale(4), "me", force="true")).expect(200)
    assert (forced["kind"], forced["spec"]) == ("Scale", {"replicas": 4})
    entries = (await api.get(path)).expect(200)["metadata"]["managedFields"]
    assert [(entry["manager"], entry["operation"]) for entry in entries if entry.get("subresource") == "scale"] == [
        ("me", "Apply")
    ]
    (await api.apply(f"{path}/scale", scale(5), "me")).expect(200)


async def test_a_pods_status_says_nothing_of_its_owners(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    made = (await api.post(f"/api/v1/namespaces/{namespace}/configmaps", config_map("a"))).expect(201)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": made["metadata"]["uid"]}
    (await api.post(path, pod("p", ownerReferences=[owner]))).expect(201)
    for owners in ([], [{**owner, "name": "b"}]):
        body = {"metadata": {"ownerReferences": owners, "labels": {"a": "b"}}, "status": {"phase": "Running"}}
        after = (await api.patch(f"{path}/p/status", body)).expect(200)
        assert after["metadata"]["ownerReferences"] == [owner]
        assert (after["metadata"]["labels"], after["status"]["phase"]) == ({"a": "b"}, "Running")


@pytest.mark.parametrize("subresource", ["ephemeralcontainers", "resize"])
async def test_a_pod_stays_the_same_through_its_subresources(api: RawApi, namespace: str, subresource: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    (await api.post(path, pod("p", "n1"))).expect(201)
    before = (await api.get(f"{path}/p")).expect(200)
    container = {**before["spec"]["containers"][0], "image": "evil:1"}
    spec = {"nodeName": "n2", "hostNetwork": True, "containers": [container]}
    body = {"metadata": {"labels": {"a": "b"}}, "spec": spec, "status": {"phase": "Failed"}}
    (await api.patch(f"{path}/p/{subresource}", body)).expect(200)
    after = (await api.get(f"{path}/p")).expect(200)
    assert (after["spec"], after["status"]) == (before["spec"], before["status"])
    assert "labels" not in after["metadata"]


async def test_containers_to_debug_with_stay(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    (await api.post(path, pod("p", "n1"))).expect(201)
    added = {"name": "debug", "image": "a:1", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}
    body = {"spec": {"ephemeralContainers": [added]}}
    made = (await api.patch(f"{path}/p/ephemeralcontainers", body)).expect(200)
    assert [one["name"] for one in made["spec"]["ephemeralContainers"]] == ["debug"]
    status = (await api.patch(f"{path}/p/ephemeralcontainers", {"spec": {"ephemeralContainers": []}})).expect(422)
    assert 'existing ephemeral containers "debug" may not be removed' in status["message"]
    changed = [{**made["spec"]["ephemeralContainers"][0], "image": "b:1"}]
    status = (await api.patch(f"{path}/p/ephemeralcontainers", {"spec": {"ephemeralContainers": changed}})).expect(422)
    assert 'existing ephemeral containers "debug" may not be changed' in status["message"]
