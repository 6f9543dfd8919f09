"""The same objects in other shapes: tables and bare metadata."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml

from kube_fairlead_lab.testing.manifests import pod, secret
from kube_fairlead_lab.testing.rawhttp import RawApi

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# What kubectl really sends.
KUBECTL = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


@pytest.fixture
async def path(api: RawApi, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    for name in ("a", "b"):
        (await api.post(path, secret(name, {"k": "v", "l": "w"}, labels={"x": name}))).expect(201)
    return path


def columns(table: dict[str, Any]) -> list[str]:
    return [column["name"] for column in table["columnDefinitions"]]


@pytest.mark.parametrize("accept", [TABLE, KUBECTL])
async def test_table_of_a_list(api: RawApi, path: str, accept: str) -> None:
    answer = await api.with_headers(accept=accept).get(path)
    table = answer.expect(200)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert answer.headers["Content-Type"] == "application/json"
    assert columns(table) == ["Name", "Type", "Data", "Age"]
    assert table["columnDefinitions"][0]["format"] == "name"
    assert [row["cells"][:3] for row in table["rows"]] == [["a", "Opaque", 2], ["b", "Opaque", 2]]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert table["rows"][0]["object"]["metadata"]["labels"] == {"x": "a"}
    assert table["metadata"]["resourceVersion"].isdigit()


async def test_table_of_one(api: RawApi, path: str) -> None:
    table = (await api.with_headers(accept=TABLE).get(f"{path}/a")).expect(200)
    assert [row["cells"][0] for row in table["rows"]] == ["a"]


@pytest.mark.parametrize(
    ("include", "kind"), [("None", None), ("Object", "Secret"), ("Metadata", "PartialObjectMetadata")]
)
async def test_what_comes_with_each_row(api: RawApi, path: str, include: str, kind: str | None) -> None:
    table = (await api.with_headers(accept=TABLE).get(path, includeObject=include)).expect(200)
    row = table["rows"][0]
    assert (row["object"] or {}).get("kind") == kind


async def test_table_in_a_watch(api: RawApi, path: str) -> None:
    version = (await api.get(path)).expect(200)["metadata"]["resourceVersion"]
    async with api.with_headers(accept=TABLE).watch(path, resourceVersion=version) as watch:
        for name in ("c", "d"):
            (await api.post(path, secret(name))).expect(201)
        first, second = await watch.next(), await watch.next()
    assert first["type"] == "ADDED"
    assert columns(first["object"]) == ["Name", "Type", "Data", "Age"]
    assert second["object"]["columnDefinitions"] is None  # said once
    assert second["object"]["rows"][0]["cells"][0] == "d"
    version = second["object"]["rows"][0]["object"]["metadata"]["resourceVersion"]
    assert second["object"]["metadata"] == {"resourceVersion": version}


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (
            "/api/v1/pods",
            ["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"],
        ),
        (
            "/api/v1/nodes",
            [
                "Name",
                "Status",
                "Roles",
                "Age",
                "Version",
                "Internal-IP",
                "External-IP",
                "OS-Image",
                "Kernel-Version",
                "Container-Runtime",
            ],
        ),
        ("/api/v1/namespaces", ["Name", "Status", "Age"]),
        ("/api/v1/secrets", ["Name", "Type", "Data", "Age"]),
        ("/api/v1/services", ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector"]),
        ("/api/v1/serviceaccounts", ["Name", "Age"]),
        (
            "/api/v1/events",
            ["Last Seen", "Type", "Reason", "Object", "Subobject", "Source", "Message", "First Seen", "Count", "Name"],
        ),
        (
            "/apis/apps/v1/deployments",
            ["Name", "Ready", "Up-to-date", "Available", "Age", "Containers", "Images", "Selector"],
        ),
        (
            "/apis/apps/v1/replicasets",
            ["Name", "Desired", "Current", "Ready", "Age", "Containers", "Images", "Selector"],
        ),
        ("/apis/coordination.k8s.io/v1/leases", ["Name", "Holder", "Age"]),
        (
            "/apis/policy/v1/poddisruptionbudgets",
            ["Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"],
        ),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", ["Name", "Created At"]),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", ["Name", "Created At"]),
    ],
)
async def test_columns(api: RawApi, path: str, resource: str, expected: list[str]) -> None:
    table = (await api.with_headers(accept=TABLE).get(resource, limit=1)).expect(200)
    assert columns(table) == expected


async def test_a_pod_in_a_table(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    (await api.post(path, pod("p", node_name="n"))).expect(201)

    async def cells() -> list[Any]:
        table = (await api.with_headers(accept=TABLE).get(f"{path}/p")).expect(200)
        shown: list[Any] = table["rows"][0]["cells"]
        return shown

    assert (await cells())[:4] == ["p", "0/1", "Pending", "0"]
    assert (await cells())[5:9] == ["<none>", "n", "<none>", "<none>"]
    container = {
        "name": "main",
        "ready": True,
        "restartCount": 2,
        "image": "i",
        "imageID": "",
        "state": {"running": {}},
    }
    (await api.patch(f"{path}/p/status", {"status": {"phase": "Running", "containerStatuses": [container]}})).expect(
        200
    )
    assert (await cells())[:4] == ["p", "1/1", "Running", "2"]
    container = {**container, "ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    (await api.patch(f"{path}/p/status", {"status": {"containerStatuses": [container]}})).expect(200)
    assert (await cells())[1:3] == ["0/1", "CrashLoopBackOff"]
    (await api.delete(f"{path}/p")).expect(200)
    assert (await cells())[2] == "Terminating"
    (await api.delete(f"{path}/p", gracePeriodSeconds=0)).expect(200)


async def test_bare_metadata(api: RawApi, path: str) -> None:
    one = (await api.with_headers(accept=METADATA).get(f"{path}/a")).expect(200)
    assert (one["kind"], one["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert one["metadata"]["name"] == "a"
    assert "data" not in one
    many = (await api.with_headers(accept=METADATA_LIST).get(path)).expect(200)
    assert (many["kind"], many["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert [item["metadata"]["name"] for item in many["items"]] == ["a", "b"]


async def test_bare_metadata_in_a_watch(api: RawApi, path: str) -> None:
    version = (await api.get(path)).expect(200)["metadata"]["resourceVersion"]
    async with api.with_headers(accept=METADATA).watch(path, resourceVersion=version) as watch:
        (await api.patch(f"{path}/a", {"stringData": {"k": "w"}})).expect(200)
        event = await watch.next()
    assert event["object"]["kind"] == "PartialObjectMetadata"
    assert "data" not in event["object"]


async def test_yaml(api: RawApi, path: str) -> None:
    answer = await api.with_headers(accept="application/yaml").get(f"{path}/a")
    assert answer.code == 200
    assert answer.headers["Content-Type"] == "application/yaml"
    assert "kind: Secret" in answer.text
    body = b"apiVersion: v1\nkind: Secret\nmetadata:\n  name: yam\nstringData:\n  k: v1\n"
    made = await api.request("POST", path, body, content_type="application/yaml")
    assert made.expect(201)["data"] == {"k": "djE="}


async def test_pretty(api: RawApi, path: str) -> None:
    assert b"\n  " in (await api.get(f"{path}/a", pretty="true")).raw
    assert b"\n  " not in (await api.get(f"{path}/a", pretty="false")).raw


async def test_an_answer_in_no_known_shape(api: RawApi, path: str) -> None:
    status = (await api.with_headers(accept="text/html").get(f"{path}/a")).expect(406)
    assert status["reason"] == "NotAcceptable"
    assert "application/json" in status["message"]


def names_of(answer: dict[str, Any]) -> list[str]:
    if answer["kind"] == "Table":
        return [row["object"]["metadata"]["name"] for row in answer["rows"]]
    if answer["kind"] == "PartialObjectMetadataList" and answer["items"] is None:
        return []
    return [item["metadata"]["name"] for item in answer["items"]]


@pytest.mark.parametrize("objects", [0, 1, 60])
async def test_lists_of_every_size_are_whole_in_every_form(api: RawApi, namespace: str, objects: int) -> None:
    """A large one is made while it is sent, piece by piece."""
    path = f"/api/v1/namespaces/{namespace}/secrets"
    made = [f"s{number:03}" for number in range(objects)]
    text = 'quotes ", brackets ]}, lines\n and more: ' + "x" * 5_000
    await asyncio.gather(*(api.post(path, secret(name, {"k": text}, labels={"n": name})) for name in made))
    plain = (await api.get(path)).expect(200)
    assert names_of(plain) == made
    assert plain["kind"] == "SecretList"
    assert [item["metadata"]["labels"]["n"] for item in plain["items"]] == made
    version = plain["metadata"]["resourceVersion"]
    pretty = await api.get(path, pretty="true", resourceVersion=version, resourceVersionMatch="Exact")
    assert pretty.expect(200) == plain
    assert pretty.text.startswith('{\n  "kind": "SecretList",\n')
    for accept, kind in ((TABLE, "Table"), (METADATA_LIST, "PartialObjectMetadataList")):
        answer = (await api.with_headers(accept=accept).get(path)).expect(200)
        assert (answer["kind"], names_of(answer)) == (kind, made)
        assert kind == "Table" or made or answer["items"] is None
        assert int(answer["metadata"]["resourceVersion"]) >= int(version)
    loaded = yaml.safe_load((await api.with_headers(accept="application/yaml").get(path, resourceVersion=version)).text)
    assert (loaded["kind"], loaded["apiVersion"], names_of(loaded)) == ("SecretList", "v1", made)
    if objects:
        assert loaded["items"][-1]["data"] == plain["items"][-1]["data"]


async def test_a_long_line_of_a_watch_is_whole(api: RawApi, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    for size in (10, 16_000, 200_000, 20, 700_000):
        (await api.post(path, secret(f"s{size}", {"k": "x" * size}))).expect(201)
    listed = (await api.get(path)).expect(200)
    by_name = {item["metadata"]["name"]: item for item in listed["items"]}
    async with api.watch(path, resourceVersion="0") as watch:
        for _ in by_name:
            shown = (await watch.next())["object"]
            assert shown["data"] == by_name[shown["metadata"]["name"]]["data"]
        (await api.patch(f"{path}/s700000", {"metadata": {"annotations": {"a": "b"}}})).expect(200)
        (await api.patch(f"{path}/s10", {"metadata": {"annotations": {"a": "b"}}})).expect(200)
        assert len((await watch.next())["object"]["data"]["k"]) > 700_000
        assert (await watch.next())["object"]["metadata"]["name"] == "s10"
