"""What is served, told in every way that clients ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kube_fairlead_lab.testing.rawhttp import RawApi

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
# What client-go really sends.
CLIENT_GO = f"{AGGREGATED},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
Define = Callable[..., Awaitable[Any]]

GROUPS = {
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "batch",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
}


async def test_the_core_group(api: RawApi) -> None:
    root = (await api.get("/api")).expect(200)
    assert (root["kind"], root["versions"]) == ("APIVersions", ["v1"])
    resources = {entry["name"]: entry for entry in (await api.get("/api/v1")).expect(200)["resources"]}
    pods = resources["pods"]
    assert (pods["kind"], pods["singularName"], pods["namespaced"]) == ("Pod", "pod", True)
    assert (pods["shortNames"], pods["categories"]) == (["po"], ["all"])
    assert set(pods["verbs"]) == {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    assert resources["nodes"]["namespaced"] is False
    assert resources["pods/status"]["verbs"] == ["get", "patch", "update"]
    eviction = resources["pods/eviction"]
    assert (eviction["kind"], eviction["group"], eviction["version"]) == ("Eviction", "policy", "v1")
    assert eviction["verbs"] == ["create"]
    token = resources["serviceaccounts/token"]
    assert (token["kind"], token["group"], token["version"]) == ("TokenRequest", "authentication.k8s.io", "v1")
    assert "namespaces/finalize" in resources


async def test_groups(api: RawApi) -> None:
    listed = (await api.get("/apis")).expect(200)
    assert (listed["kind"], listed["apiVersion"]) == ("APIGroupList", "v1")
    by_name = {group["name"]: group for group in listed["groups"]}
    assert set(by_name) >= GROUPS
    assert by_name["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    one = (await api.get("/apis/apps")).expect(200)
    assert (one["kind"], one["name"], one["versions"]) == (
        "APIGroup",
        "apps",
        [{"groupVersion": "apps/v1", "version": "v1"}],
    )


async def test_a_group_version(api: RawApi) -> None:
    listed = (await api.get("/apis/apps/v1")).expect(200)
    assert (listed["kind"], listed["apiVersion"], listed["groupVersion"]) == ("APIResourceList", "v1", "apps/v1")
    resources = {entry["name"]: entry for entry in listed["resources"]}
    scale = resources["deployments/scale"]
    assert (scale["kind"], scale["group"], scale["version"]) == ("Scale", "autoscaling", "v1")


@pytest.mark.parametrize("path", ["/apis/none.example.com", "/apis/apps/v9", "/apis/none.example.com/v1"])
async def test_what_is_not_served(api: RawApi, path: str) -> None:
    assert (await api.get(path)).code == 404


@pytest.mark.parametrize("accept", [AGGREGATED, CLIENT_GO])
async def test_aggregated(api: RawApi, accept: str) -> None:
    session = api.with_headers(accept=accept)
    answer = await session.get("/apis")
    listed = answer.expect(200)
    assert (listed["kind"], listed["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    assert answer.headers["Content-Type"] == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    groups = {item["metadata"]["name"]: item for item in listed["items"]}
    assert set(groups) >= GROUPS
    version = groups["apps"]["versions"][0]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    resources = {entry["resource"]: entry for entry in version["resources"]}
    deployments = resources["deployments"]
    # Group and version may be left out where they are those of the list.
    assert deployments["responseKind"]["kind"] == "Deployment"
    assert (deployments["responseKind"]["group"], deployments["responseKind"]["version"]) in {("", ""), ("apps", "v1")}
    assert (deployments["scope"], deployments["singularResource"]) == ("Namespaced", "deployment")
    assert deployments["shortNames"] == ["deploy"]
    subresources = {entry["subresource"]: entry for entry in deployments["subresources"]}
    assert subresources["scale"]["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    core = (await session.get("/api")).expect(200)
    assert {entry["resource"] for entry in core["items"][0]["versions"][0]["resources"]} >= {"pods", "nodes"}


async def test_aggregated_can_be_asked_whether_it_changed(api: RawApi) -> None:
    session = api.with_headers(accept=AGGREGATED)
    answer = await session.get("/apis")
    etag = answer.headers["ETag"]
    again = await session.with_headers(if_none_match=etag).get("/apis")
    assert again.code == 304
    assert again.raw == b""


async def test_custom_resources_appear(api: RawApi, define: Define) -> None:
    widgets = await define(version={"subresources": {"status": {}}}, shared=True)
    # kube-apiserver tells of a group a moment after it serves it.
    listed = (await api.poll(f"/apis/{widgets.group}/v1", lambda answer: answer.code == 200)).json
    resources = {entry["name"]: entry for entry in listed["resources"]}
    assert set(resources) == {"widgets", "widgets/status"}
    assert resources["widgets"]["kind"] == "Widget"
    assert resources["widgets/status"]["verbs"] == ["get", "patch", "update"]
    session = api.with_headers(accept=AGGREGATED)
    await session.poll(
        "/apis", lambda answer: any(item["metadata"]["name"] == widgets.group for item in answer.json["items"])
    )


async def test_the_root_lists_paths(api: RawApi) -> None:
    paths = (await api.get("/")).expect(200)["paths"]
    assert {"/api", "/api/v1", "/apis", "/apis/apps/v1", "/healthz", "/openapi/v3", "/version"} <= set(paths)
