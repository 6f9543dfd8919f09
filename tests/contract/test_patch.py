"""JSON patch, merge patch and strategic merge patch."""

from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_lab.testing.manifests import config_map, pod
from kube_fairlead_lab.testing.rawhttp import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, RawApi


@pytest.fixture
async def path(api: RawApi, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    made = config_map("a", {"k1": "v1", "k2": "v2"}, labels={"x": "1", "y": "2"})
    (await api.post(path, made)).expect(201)
    return f"{path}/a"


async def test_merge_patch_sets_and_removes(api: RawApi, path: str) -> None:
    patched = (await api.patch(path, {"data": {"k1": None, "k3": "v3"}, "metadata": {"labels": None}})).expect(200)
    assert patched["data"] == {"k2": "v2", "k3": "v3"}
    assert "labels" not in patched["metadata"]


async def test_merge_patch_replaces_whole_lists(api: RawApi, path: str) -> None:
    finalizers = ["example.com/a", "example.com/b"]
    (await api.patch(path, {"metadata": {"finalizers": finalizers}})).expect(200)
    patched = (await api.patch(path, {"metadata": {"finalizers": ["example.com/c"]}})).expect(200)
    assert patched["metadata"]["finalizers"] == ["example.com/c"]
    (await api.patch(path, {"metadata": {"finalizers": None}})).expect(200)


@pytest.mark.parametrize(
    ("operations", "data"),
    [
        ([{"op": "add", "path": "/data/k3", "value": "v3"}], {"k1": "v1", "k2": "v2", "k3": "v3"}),
        ([{"op": "replace", "path": "/data/k1", "value": "w"}], {"k1": "w", "k2": "v2"}),
        ([{"op": "remove", "path": "/data/k1"}], {"k2": "v2"}),
        ([{"op": "move", "from": "/data/k1", "path": "/data/k9"}], {"k2": "v2", "k9": "v1"}),
        ([{"op": "copy", "from": "/data/k1", "path": "/data/k9"}], {"k1": "v1", "k2": "v2", "k9": "v1"}),
        (
            [{"op": "test", "path": "/data/k1", "value": "v1"}, {"op": "remove", "path": "/data/k2"}],
            {"k1": "v1"},
        ),
        ([{"op": "replace", "path": "/data", "value": {"only": "this"}}], {"only": "this"}),
        ([], {"k1": "v1", "k2": "v2"}),
        # RFC 6902 calls this an error; Kubernetes lets a replacement add.
        ([{"op": "replace", "path": "/data/k3", "value": "v3"}], {"k1": "v1", "k2": "v2", "k3": "v3"}),
    ],
)
async def test_json_patch(api: RawApi, path: str, operations: list[Any], data: dict[str, str]) -> None:
    assert (await api.patch(path, operations, JSON_PATCH)).expect(200)["data"] == data


async def test_json_patch_escapes(api: RawApi, path: str) -> None:
    operations = [{"op": "add", "path": "/metadata/annotations", "value": {"example.com/a.b": "1"}}]
    (await api.patch(path, operations, JSON_PATCH)).expect(200)
    operations = [{"op": "replace", "path": "/metadata/annotations/example.com~1a.b", "value": "2"}]
    patched = (await api.patch(path, operations, JSON_PATCH)).expect(200)
    assert patched["metadata"]["annotations"] == {"example.com/a.b": "2"}


@pytest.mark.parametrize(
    ("body", "content_type", "code", "reason"),
    [
        ([{"op": "remove", "path": "/data/none"}], JSON_PATCH, 422, "Invalid"),
        ([{"op": "add", "path": "/no/such/parent", "value": "x"}], JSON_PATCH, 422, "Invalid"),
        ({"not": "a list"}, JSON_PATCH, 400, "BadRequest"),
        (b"[", JSON_PATCH, 400, "BadRequest"),
        (b"{", MERGE_PATCH, 400, "BadRequest"),
        (b"[]", MERGE_PATCH, 400, "BadRequest"),
        (b"{", STRATEGIC_PATCH, 400, "BadRequest"),
        ({"data": {"k": 5}}, MERGE_PATCH, 422, "Invalid"),
        ({"data": ["x"]}, MERGE_PATCH, 422, "Invalid"),
    ],
)
async def test_bad_patches(api: RawApi, path: str, body: Any, content_type: str, code: int, reason: str) -> None:
    status = (await api.patch(path, body, content_type)).expect(code)
    assert status["reason"] == reason


async def test_an_unknown_patch_type(api: RawApi, path: str) -> None:
    status = (await api.patch(path, {}, "application/json")).expect(415)
    assert status["reason"] == "UnsupportedMediaType"


async def test_identity_cannot_be_patched(api: RawApi, path: str) -> None:
    renamed = (await api.patch(path, {"metadata": {"name": "b"}})).expect(400)
    assert renamed["message"] == "the name of the object (b) does not match the name on the URL (a)"
    moved = (await api.patch(path, {"metadata": {"namespace": "other"}})).expect(400)
    assert moved["message"] == ("the namespace of the provided object does not match the namespace sent on the request")


async def test_creation_time_and_uid(api: RawApi, path: str) -> None:
    before = (await api.get(path)).expect(200)
    patched = (await api.patch(path, {"metadata": {"creationTimestamp": None}})).expect(200)
    assert patched["metadata"]["creationTimestamp"] == before["metadata"]["creationTimestamp"]
    other = (await api.patch(path, {"metadata": {"uid": "other"}})).expect(422)
    assert other["message"] == 'ConfigMap "a" is invalid: metadata.uid: Invalid value: "other": field is immutable'


async def test_strategic_merge_by_key(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    containers = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]
    (await api.post(path, pod("p", spec={"containers": containers}))).expect(201)
    body = {"spec": {"containers": [{"name": "b", "image": "b:2"}]}}
    patched = (await api.patch(f"{path}/p", body, STRATEGIC_PATCH)).expect(200)
    images = {container["name"]: container["image"] for container in patched["spec"]["containers"]}
    assert images == {"a": "a:1", "b": "b:2"}


async def test_strategic_merge_directives(api: RawApi, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {
            "containers": [
                {"name": "a", "image": "a:1", "env": [{"name": "E1", "value": "1"}, {"name": "E2", "value": "2"}]},
                {"name": "b", "image": "b:1"},
            ],
            "tolerations": [{"key": "old", "operator": "Exists"}],
        },
    }
    deployment = {
        "metadata": {"name": "d"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": template},
    }
    (await api.post(path, deployment)).expect(201)
    body = {
        "spec": {
            "strategy": {"$retainKeys": ["type"], "type": "Recreate"},
            "template": {
                "spec": {
                    "containers": [
                        {"name": "b", "$patch": "delete"},
                        {"name": "c", "image": "c:1"},
                        {"name": "a", "env": [{"$patch": "replace"}, {"name": "E3", "value": "3"}]},
                    ],
                    "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
                    "tolerations": [{"key": "new", "operator": "Exists"}],
                }
            },
        }
    }
    patched = (await api.patch(f"{path}/d", body, STRATEGIC_PATCH)).expect(200)
    spec = patched["spec"]["template"]["spec"]
    assert [container["name"] for container in spec["containers"]] == ["c", "a"]
    assert spec["containers"][1]["env"] == [{"name": "E3", "value": "3"}]
    assert spec["tolerations"] == [{"key": "new", "operator": "Exists"}]  # a list without a merge key
    assert patched["spec"]["strategy"] == {"type": "Recreate"}


async def test_strategic_merge_of_primitive_lists(api: RawApi, path: str) -> None:
    (await api.patch(path, {"metadata": {"finalizers": ["example.com/a"]}})).expect(200)
    added = {"metadata": {"finalizers": ["example.com/b"]}}
    patched = (await api.patch(path, added, STRATEGIC_PATCH)).expect(200)
    assert sorted(patched["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]
    removed = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a", "example.com/b"]}}
    patched = (await api.patch(path, removed, STRATEGIC_PATCH)).expect(200)
    assert "finalizers" not in patched["metadata"]


async def test_strategic_patch_replaces_a_map_on_demand(api: RawApi, path: str) -> None:
    body = {"data": {"$patch": "replace", "only": "this"}}
    assert (await api.patch(path, body, STRATEGIC_PATCH)).expect(200)["data"] == {"only": "this"}


async def test_a_patch_that_makes_it_invalid(api: RawApi, path: str) -> None:
    status = (await api.patch(path, {"metadata": {"labels": {"x": "not valid!"}}})).expect(422)
    assert status["reason"] == "Invalid"
    assert status["details"]["causes"][0]["field"] == "metadata.labels"


async def test_no_patch_changes_what_an_object_is(api: RawApi, path: str) -> None:
    assert (await api.patch(path, {"apiVersion": "apps/v1"})).expect(422)["reason"] == "Invalid"
    for body in ({"kind": "Secret"}, {"apiVersion": "apps/v1"}):
        same = (await api.patch(path, body, STRATEGIC_PATCH)).expect(200)
        assert (same["kind"], same["apiVersion"]) == ("ConfigMap", "v1")
