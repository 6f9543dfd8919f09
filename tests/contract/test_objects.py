"""The plain life of an object: create, read, replace, delete, and what each refuses."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kube_fairlead_lab.testing.manifests import config_map, failure, secret, success
from kube_fairlead_lab.testing.rawhttp import RawApi

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@pytest.fixture
def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


async def test_create_fills_in_metadata(api: RawApi, path: str, namespace: str) -> None:
    made = (await api.post(path, {"metadata": {"name": "a"}, "data": {"k": "v"}})).expect(201)
    metadata = made["metadata"]
    assert (made["apiVersion"], made["kind"], made["data"]) == ("v1", "ConfigMap", {"k": "v"})
    assert (metadata["name"], metadata["namespace"]) == ("a", namespace)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert metadata["resourceVersion"].isdigit()
    assert "generation" not in metadata
    assert "selfLink" not in metadata


async def test_what_a_client_says_about_system_metadata_is_replaced(api: RawApi, path: str) -> None:
    said = config_map(
        "a", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", deletionTimestamp="2001-01-01T00:00:00Z"
    )
    metadata = (await api.post(path, said)).expect(201)["metadata"]
    assert metadata["uid"] != "mine"
    assert not metadata["creationTimestamp"].startswith("2001")
    assert "deletionTimestamp" not in metadata


async def test_read_back_is_what_create_answered(api: RawApi, path: str) -> None:
    made = (await api.post(path, config_map("a", {"k": "v"}, labels={"x": "y"}))).expect(201)
    assert (await api.get(f"{path}/a")).expect(200) == made


async def test_list_has_items_in_name_order_and_a_version(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    for name in ("b", "c", "a"):
        (await api.post(path, secret(name))).expect(201)
    listed = (await api.get(path)).expect(200)
    assert (listed["kind"], listed["apiVersion"]) == ("SecretList", "v1")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b", "c"]
    assert all("kind" not in item and "apiVersion" not in item for item in listed["items"])
    newest = max(int(item["metadata"]["resourceVersion"]) for item in listed["items"])
    assert int(listed["metadata"]["resourceVersion"]) >= newest


async def test_an_empty_list_has_an_empty_array(api: RawApi, namespace: str) -> None:
    assert (await api.get(f"/api/v1/namespaces/{namespace}/secrets")).expect(200)["items"] == []


async def test_generate_name(api: RawApi, path: str) -> None:
    made = [(await api.post(path, {"metadata": {"generateName": "gen-"}})).expect(201) for _ in range(3)]
    names = {item["metadata"]["name"] for item in made}
    assert len(names) == 3
    assert all(re.fullmatch(r"gen-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)
    assert all(item["metadata"]["generateName"] == "gen-" for item in made)


async def test_a_name_beside_a_generated_one(api: RawApi, path: str) -> None:
    body = {"metadata": {"name": "mine", "generateName": "gen-"}}
    assert (await api.post(path, body)).expect(201)["metadata"]["name"] == "mine"
    status = (await api.post(path, body)).expect(409)
    assert status["message"].endswith(
        "already exists, the server was not able to generate a unique name for the object"
    )
    assert status["details"]["retryAfterSeconds"] == 1


async def test_a_long_generate_name_is_cut(api: RawApi, path: str) -> None:
    made = (await api.post(path, {"metadata": {"generateName": "g" * 100}})).expect(201)
    assert len(made["metadata"]["name"]) == 63


async def test_replace(api: RawApi, path: str) -> None:
    made = (await api.post(path, config_map("a", {"k": "v"}, labels={"x": "y"}))).expect(201)
    replaced = (await api.put(f"{path}/a", config_map("a", {"k": "w"}))).expect(200)
    assert replaced["data"] == {"k": "w"}
    assert "labels" not in replaced["metadata"]
    assert replaced["metadata"]["uid"] == made["metadata"]["uid"]
    assert replaced["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert int(replaced["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


async def test_a_replacement_that_changes_nothing_writes_nothing(api: RawApi, path: str) -> None:
    made = (await api.post(path, config_map("a", {"k": "v"}))).expect(201)
    again = (await api.put(f"{path}/a", config_map("a", {"k": "v"}))).expect(200)
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_delete_answers_status_with_the_uid(api: RawApi, path: str) -> None:
    uid = (await api.post(path, config_map("a"))).expect(201)["metadata"]["uid"]
    assert (await api.delete(f"{path}/a")).expect(200) == success({"name": "a", "kind": "configmaps", "uid": uid})
    (await api.get(f"{path}/a")).expect(404)


async def test_not_found(api: RawApi, path: str) -> None:
    missing = failure(404, "NotFound", 'configmaps "a" not found', {"name": "a", "kind": "configmaps"})
    assert (await api.get(f"{path}/a")).expect(404) == missing
    assert (await api.put(f"{path}/a", config_map("a"))).expect(404) == missing
    assert (await api.patch(f"{path}/a", {})).expect(404) == missing
    assert (await api.delete(f"{path}/a")).expect(404) == missing


async def test_already_exists(api: RawApi, path: str) -> None:
    (await api.post(path, config_map("a"))).expect(201)
    assert (await api.post(path, config_map("a"))).expect(409) == failure(
        409, "AlreadyExists", 'configmaps "a" already exists', {"name": "a", "kind": "configmaps"}
    )


async def test_create_in_a_namespace_that_is_not_there(api: RawApi) -> None:
    answer = await api.post("/api/v1/namespaces/not-there/configmaps", config_map("a"))
    assert answer.expect(404) == failure(
        404, "NotFound", 'namespaces "not-there" not found', {"name": "not-there", "kind": "namespaces"}
    )


async def test_list_in_a_namespace_that_is_not_there_is_empty(api: RawApi) -> None:
    assert (await api.get("/api/v1/namespaces/not-there/configmaps")).expect(200)["items"] == []


@pytest.mark.parametrize(
    ("body", "code", "reason", "message"),
    [
        (
            {"metadata": {"name": "a", "namespace": "other"}},
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            {"metadata": {}},
            422,
            "Invalid",
            'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
        ),
        (
            {"metadata": {"name": "A_b"}},
            422,
            "Invalid",
            f'ConfigMap "A_b" is invalid: metadata.name: Invalid value: "A_b": {SUBDOMAIN}',
        ),
        (
            {"metadata": {"name": "a"}, "data": {"a/b": "c"}},
            422,
            "Invalid",
            (
                'ConfigMap "a" is invalid: data[a/b]: Invalid value: "a/b": a valid config key must consist of '
                "alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used "
                "for validation is '[-._a-zA-Z0-9]+')"
            ),
        ),
        (
            {"metadata": {"name": "a", "annotations": {"/x": "y"}}},
            422,
            "Invalid",
            'ConfigMap "a" is invalid: metadata.annotations: Invalid value: "/x": prefix part must be non-empty',
        ),
    ],
)
async def test_create_refuses(
    api: RawApi, path: str, body: dict[str, Any], code: int, reason: str, message: str
) -> None:
    status = (await api.post(path, body)).expect(code)
    assert (status["reason"], status["message"], status["code"]) == (reason, message, code)


async def test_every_field_error_is_a_cause(api: RawApi, path: str) -> None:
    body = config_map("a", labels={"a b": "c"}, annotations={"/x": "y"})
    status = (await api.post(path, body)).expect(422)
    assert status["details"]["name"] == "a"
    assert status["details"]["kind"] == "ConfigMap"
    assert [(cause["reason"], cause["field"]) for cause in status["details"]["causes"]] == [
        ("FieldValueInvalid", "metadata.labels"),
        ("FieldValueInvalid", "metadata.annotations"),
    ]
    listed = ", ".join(f"{cause['field']}: {cause['message']}" for cause in status["details"]["causes"])
    assert status["message"] == f'ConfigMap "a" is invalid: [{listed}]'


async def test_a_new_object_has_no_version_yet(api: RawApi, path: str) -> None:
    """kube-apiserver calls this its own fault (500); it is the client's."""
    status = (await api.post(path, config_map("a", resourceVersion="5"))).expect(400, 500)
    assert status["message"] == "resourceVersion should not be set on objects to be created"


async def test_the_name_in_the_body_must_be_the_one_in_the_path(api: RawApi, path: str) -> None:
    (await api.post(path, config_map("a"))).expect(201)
    other = (await api.put(f"{path}/a", config_map("b"))).expect(400)
    assert other["message"] == "the name of the object (b) does not match the name on the URL (a)"
    none = (await api.put(f"{path}/a", {"metadata": {}})).expect(400)
    assert none["message"] == "the name of the object (a based on URL) was undeterminable: name must be provided"


async def test_another_kind_is_refused(api: RawApi, path: str) -> None:
    wrong_kind = (await api.post(path, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})).expect(400)
    assert wrong_kind["message"].startswith('Secret in version "v1" cannot be handled as a ConfigMap')
    wrong_version = (await api.post(path, {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}})).expect(
        400
    )
    assert wrong_version["message"].startswith('ConfigMap in version "v2" cannot be handled as a ConfigMap')


async def test_immutable_config_map(api: RawApi, path: str) -> None:
    (await api.post(path, {**config_map("a", {"k": "v"}), "immutable": True})).expect(201)
    status = (await api.put(f"{path}/a", {**config_map("a", {"k": "w"}), "immutable": True})).expect(422)
    assert status["message"] == 'ConfigMap "a" is invalid: data: Forbidden: field is immutable when `immutable` is set'
