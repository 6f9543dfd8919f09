"""Server-side apply: who owns which field, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kube_fairlead_lab.testing.manifests import config_map, custom_resource_definition
from kube_fairlead_lab.testing.rawhttp import APPLY_PATCH, RawApi


@pytest.fixture
def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/a"


def managers(made: dict[str, Any]) -> dict[tuple[str, str], Any]:
    return {(entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in made["metadata"]["managedFields"]}


async def test_apply_creates(api: RawApi, path: str) -> None:
    made = (await api.apply(path, config_map("a", {"k": "v"}, labels={"x": "y"}), "alice")).expect(201)
    assert managers(made) == {
        ("alice", "Apply"): {"f:data": {"f:k": {}}, "f:metadata": {"f:labels": {"f:x": {}}}},
    }
    entry = made["metadata"]["managedFields"][0]
    assert (entry["apiVersion"], entry["fieldsType"]) == ("v1", "FieldsV1")
    assert entry["time"] == made["metadata"]["creationTimestamp"]


async def test_applying_the_same_again_writes_nothing(api: RawApi, path: str) -> None:
    made = (await api.apply(path, config_map("a", {"k": "v"}), "alice")).expect(201)
    assert (await api.apply(path, config_map("a", {"k": "v"}), "alice")).expect(200) == made


async def test_a_field_left_out_is_removed_when_nobody_else_owns_it(api: RawApi, path: str) -> None:
    (await api.apply(path, config_map("a", {"mine": "1", "shared": "2"}), "alice")).expect(201)
    (await api.apply(path, config_map("a", {"shared": "2", "theirs": "3"}), "bob")).expect(200)
    made = (await api.apply(path, config_map("a"), "alice")).expect(200)
    assert made["data"] == {"shared": "2", "theirs": "3"}
    assert managers(made) == {("bob", "Apply"): {"f:data": {"f:shared": {}, "f:theirs": {}}}}


async def test_conflict_and_force(api: RawApi, path: str) -> None:
    (await api.apply(path, config_map("a", {"k": "alice", "l": "alice"}), "alice")).expect(201)
    status = (await api.apply(path, config_map("a", {"k": "bob"}), "bob")).expect(409)
    assert status["reason"] == "Conflict"
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "alice": .data.k'
    assert status["details"] == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "alice"', "field": ".data.k"}]
    }
    forced = (await api.apply(path, config_map("a", {"k": "bob"}), "bob", force="true")).expect(200)
    assert forced["data"] == {"k": "bob", "l": "alice"}
    assert managers(forced) == {
        ("alice", "Apply"): {"f:data": {"f:l": {}}},
        ("bob", "Apply"): {"f:data": {"f:k": {}}},
    }


async def test_several_conflicts_are_counted(api: RawApi, path: str) -> None:
    (await api.apply(path, config_map("a", {"k": "1", "l": "1"}), "alice")).expect(201)
    status = (await api.apply(path, config_map("a", {"k": "2", "l": "2"}), "bob")).expect(409)
    assert status["message"] == ('Apply failed with 2 conflicts: conflicts with "alice":\n- .data.k\n- .data.l')
    assert [cause["field"] for cause in status["details"]["causes"]] == [".data.k", ".data.l"]


async def test_conflict_with_an_update(api: RawApi, path: str) -> None:
    collection = path.rpartition("/")[0]
    (await api.post(collection, config_map("a", {"k": "1"}), fieldManager="updater")).expect(201)
    status = (await api.apply(path, config_map("a", {"k": "2"}), "alice")).expect(409)
    assert status["message"].startswith('Apply failed with 1 conflict: conflict with "updater" using v1')
    assert status["message"].endswith(": .data.k")


async def test_the_same_value_is_shared(api: RawApi, path: str) -> None:
    (await api.apply(path, config_map("a", {"k": "v"}), "alice")).expect(201)
    made = (await api.apply(path, config_map("a", {"k": "v"}), "bob")).expect(200)
    assert managers(made) == {
        ("alice", "Apply"): {"f:data": {"f:k": {}}},
        ("bob", "Apply"): {"f:data": {"f:k": {}}},
    }


async def test_an_update_takes_ownership_of_what_it_changes(api: RawApi, path: str) -> None:
    (await api.apply(path, config_map("a", {"k": "1", "l": "1"}), "alice")).expect(201)
    made = (await api.patch(path, {"data": {"k": "2"}}, fieldManager="updater")).expect(200)
    assert managers(made) == {
        ("alice", "Apply"): {"f:data": {"f:l": {}}},
        ("updater", "Update"): {"f:data": {"f:k": {}}},
    }


async def test_the_manager_of_an_update_is_the_start_of_the_user_agent(api: RawApi, path: str) -> None:
    collection = path.rpartition("/")[0]
    agent = api.with_headers(user_agent="my-tool/v1.2 (linux)")
    made = (await agent.post(collection, config_map("a", {"k": "v"}))).expect(201)
    assert list(managers(made)) == [("my-tool", "Update")]


async def test_maps_made_by_an_update_have_a_dot(api: RawApi, path: str) -> None:
    collection = path.rpartition("/")[0]
    body = config_map("a", {"k": "v"}, labels={"x": "y"})
    made = (await api.post(collection, body, fieldManager="m")).expect(201)
    assert managers(made) == {
        ("m", "Update"): {"f:data": {".": {}, "f:k": {}}, "f:metadata": {"f:labels": {".": {}, "f:x": {}}}}
    }


async def test_lists_merge_by_key(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/services/s"

    def service(*ports: dict[str, Any]) -> dict[str, Any]:
        spec = {"clusterIP": "None", "ports": list(ports)}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}

    http, dns = {"name": "http", "port": 80, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"}
    (await api.apply(path, service(http), "alice")).expect(201)
    made = (await api.apply(path, service(dns), "bob")).expect(200)
    assert [port["name"] for port in made["spec"]["ports"]] == ["http", "dns"]
    owned = managers(made)["bob", "Apply"]["f:spec"]["f:ports"]
    assert owned == {
        'k:{"port":53,"protocol":"UDP"}': {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}},
    }
    left = (await api.apply(path, service(), "alice")).expect(200)
    assert [port["name"] for port in left["spec"]["ports"]] == ["dns"]


async def test_sets_merge_by_value(api: RawApi, path: str) -> None:
    (await api.apply(path, config_map("a", finalizers=["example.com/a"]), "alice")).expect(201)
    made = (await api.apply(path, config_map("a", finalizers=["example.com/b"]), "bob")).expect(200)
    assert made["metadata"]["finalizers"] == ["example.com/a", "example.com/b"]
    assert managers(made)["bob", "Apply"] == {"f:metadata": {"f:finalizers": {'v:"example.com/b"': {}}}}
    (await api.apply(path, config_map("a"), "alice")).expect(200)
    gone = (await api.apply(path, config_map("a"), "bob")).expect(200)
    assert "finalizers" not in gone["metadata"]


async def test_status_is_owned_apart(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/p"
    containers = [{"name": "main", "image": "a:1"}]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
    (await api.apply(path, body, "alice")).expect(201)
    status = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"message": "hello"}}
    made = (await api.apply(f"{path}/status", status, "kubelet")).expect(200)
    assert made["status"]["message"] == "hello"
    entry = next(entry for entry in made["metadata"]["managedFields"] if entry["manager"] == "kubelet")
    assert entry["subresource"] == "status"
    assert entry["fieldsV1"] == {"f:status": {"f:message": {}}}


async def test_a_stale_version_conflicts(api: RawApi, path: str) -> None:
    made = (await api.apply(path, config_map("a", {"k": "1"}), "alice")).expect(201)
    (await api.patch(path, {"data": {"l": "1"}})).expect(200)
    body = config_map("a", {"k": "2"}, resourceVersion=made["metadata"]["resourceVersion"])
    status = (await api.apply(path, body, "alice")).expect(409)
    assert "the object has been modified" in status["message"]


async def test_apply_can_be_yaml(api: RawApi, path: str) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n"
    assert (await api.patch(path, body, APPLY_PATCH, fieldManager="alice")).expect(201)["data"] == {"k": "v"}


@pytest.mark.parametrize(
    ("query", "body", "code", "message"),
    [
        (
            {},
            config_map("a"),
            422,
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
        ),
        (
            {"fieldManager": "m"},
            {"metadata": {"name": "a"}},
            400,
            "invalid object type: /, Kind=",
        ),
        (
            {"fieldManager": "m"},
            config_map("a", managedFields=[{"manager": "x"}]),
            400,
            "metadata.managedFields must be nil",
        ),
        (
            {"fieldManager": "m" * 129},
            config_map("a"),
            422,
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes',
        ),
    ],
)
async def test_apply_refuses(
    api: RawApi, path: str, query: dict[str, str], body: dict[str, Any], code: int, message: str
) -> None:
    status = (await api.patch(path, body, APPLY_PATCH, **query)).expect(code)
    assert status["message"] == message


async def test_force_is_for_apply_only(api: RawApi, path: str) -> None:
    (await api.apply(path, config_map("a"), "m")).expect(201)
    status = (await api.patch(path, {}, force="true")).expect(422)
    assert status["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch'
    )


async def test_unknown_fields_are_refused(api: RawApi, path: str) -> None:
    status = (await api.apply(path, {**config_map("a"), "size": 1}, "m")).expect(500, 400)
    assert ".size: field not declared in schema" in status["message"]


async def test_managed_fields_can_be_reset(api: RawApi, path: str) -> None:
    (await api.apply(path, config_map("a", {"k": "v"}), "alice")).expect(201)
    made = (await api.patch(path, {"metadata": {"managedFields": [{}]}})).expect(200)
    assert "managedFields" not in made["metadata"]


ROLE_BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "spec": {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "main", "image": "a:1"}]},
        },
    },
}
DEFINITION_FIELDS: dict[str, Any] = {
    "f:group": {},
    "f:names": {"f:kind": {}, "f:listKind": {}, "f:plural": {}, "f:singular": {}},
    "f:scope": {},
    "f:versions": {},
}


@pytest.mark.parametrize(
    ("collection", "body", "at", "owned"),
    [
        ("rbac.authorization.k8s.io/v1/{}/rolebindings", ROLE_BINDING, "f:roleRef", {}),
        ("apps/v1/{}/deployments", DEPLOYMENT, "f:spec.f:selector", {}),
    ],
)
async def test_a_new_object_owns_its_required_fields(
    api: RawApi, namespace: str, collection: str, body: dict[str, Any], at: str, owned: dict[str, Any]
) -> None:
    path = "/apis/" + collection.format(f"namespaces/{namespace}")
    made = (await api.post(path, {**body, "metadata": {"name": "a"}}, fieldManager="me")).expect(201)
    fields = managers(made)["me", "Update"]
    for step in at.split("."):
        fields = fields[step]
    assert fields == owned


async def test_nobody_takes_the_versions_of_a_definition_unasked(
    api: RawApi, unique_name: Callable[[str], str]
) -> None:
    manifest = custom_resource_definition("widgets", f"{unique_name('g')}.example.com", kind="Widget")
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = (await api.post(path, manifest, fieldManager="me")).expect(201)
    try:
        assert DEFINITION_FIELDS.items() <= managers(made)["me", "Update"]["f:spec"].items()
        manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "another"
        status = (await api.apply(f"{path}/{manifest['metadata']['name']}", manifest, "you")).expect(409)
        assert [cause["field"] for cause in status["details"]["causes"]] == [".spec.versions"]
    finally:
        (await api.delete(f"{path}/{manifest['metadata']['name']}")).expect(200)
