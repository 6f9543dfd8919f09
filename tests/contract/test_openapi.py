"""The published schema."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kube_fairlead_lab.testing.rawhttp import RawApi

Define = Callable[..., Awaitable[Any]]


async def test_the_index(api: RawApi) -> None:
    paths = (await api.get("/openapi/v3")).expect(200)["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1"} <= set(paths)
    url = paths["api/v1"]["serverRelativeURL"]
    assert url.startswith("/openapi/v3/api/v1?hash=")


async def test_a_document(api: RawApi) -> None:
    document = (await api.get("/openapi/v3/api/v1")).expect(200)
    assert document["openapi"].startswith("3.0")
    schemas = document["components"]["schemas"]
    pod = schemas["io.k8s.api.core.v1.Pod"]
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "Pod", "version": "v1"}]
    assert "spec" in pod["properties"]
    assert schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]["x-kubernetes-patch-merge-key"] == "name"
    item = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]
    assert {"get", "put", "patch", "delete"} <= set(item)
    assert item["get"]["x-kubernetes-action"] == "get"
    assert item["get"]["x-kubernetes-group-version-kind"] == {"group": "", "kind": "Pod", "version": "v1"}


async def test_documents_can_be_cached(api: RawApi) -> None:
    paths = (await api.get("/openapi/v3")).expect(200)["paths"]
    answer = await api.get(paths["api/v1"]["serverRelativeURL"])
    assert answer.code == 200
    assert answer.headers["ETag"]
    again = await api.with_headers(if_none_match=answer.headers["ETag"]).get("/openapi/v3/api/v1")
    assert again.code == 304


@pytest.mark.parametrize("version", ["v2"])
async def test_the_old_document(api: RawApi, version: str) -> None:
    document = (await api.get(f"/openapi/{version}")).expect(200)
    assert document["swagger"] == "2.0"
    assert "io.k8s.api.core.v1.Pod" in document["definitions"]
    assert "/api/v1/namespaces/{namespace}/pods" in document["paths"]


async def test_custom_resources_appear(api: RawApi, define: Define) -> None:
    schema = {"type": "object", "properties": {"size": {"type": "integer", "description": "how big"}}}
    widgets = await define(spec_schema=schema, shared=True)
    path = f"/openapi/v3/apis/{widgets.group}/v1"
    document = (await api.poll(path, lambda answer: answer.code == 200)).expect(200)
    kinds = [
        made
        for made in document["components"]["schemas"].values()
        if {"group": widgets.group, "kind": "Widget", "version": "v1"}
        in made.get("x-kubernetes-group-version-kind", [])
    ]
    assert kinds[0]["properties"]["spec"]["properties"]["size"]["description"] == "how big"


async def test_a_document_that_is_not_there(api: RawApi) -> None:
    assert (await api.get("/openapi/v3/apis/none.example.com/v1")).code == 404
