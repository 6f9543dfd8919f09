from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_fairlead.api import errors
from kube_fairlead.api.gvk import GroupVersionKind
from kube_fairlead_apiserver.attributes import ANONYMOUS
from kube_fairlead_apiserver.crd.definition import compile_kinds
from kube_fairlead_apiserver.discovery import Discovery
from kube_fairlead_apiserver.http.messages import Query, Request, Response
from kube_fairlead_apiserver.registry.catalog import Catalog
from kube_fairlead_apiserver.registry.resource import Resource, Subresource
from kube_fairlead_apiserver.registry.strategy import Strategy
from kube_fairlead_apiserver.schema.model import ANYTHING
from kube_fairlead_apiserver.types.resources import builtin_resources, storage_version_hash

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
# What kubectl and client-go send.
CLIENT_GO = f"{AGGREGATED},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"


def resource(group: str, version: str, plural: str, kind: str, **more: Any) -> Resource:
    return Resource(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        namespaced=more.pop("namespaced", True),
        strategy=Strategy(),
        schema=lambda: ANYTHING,
        **more,
    )


def builtin() -> list[Resource]:
    return [
        resource(
            known.group,
            known.version,
            known.plural,
            known.kind,
            namespaced=known.namespaced,
            singular=known.singular,
            short_names=known.short_names,
            categories=known.categories,
            verbs=known.verbs,
            subresources={
                name: Subresource(name, sub.kind, sub.group, sub.version, sub.verbs)
                for name, sub in known.subresources.items()
            },
        )
        for known in builtin_resources()
    ]


def custom(group: str, plural: str, kind: str, version: str, **more: Any) -> Resource:
    names = {"plural": plural, "kind": kind}
    versions = [{"name": name, "served": True, "storage": name == "v1beta1"} for name in ("v1", "v1beta1")]
    crd = {"spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions}}
    return resource(group, version, plural, kind, custom=compile_kinds(crd)[version], **more)


def widget(version: str, **more: Any) -> Resource:
    return custom("example.com", "widgets", "Widget", version, **more)


@pytest.fixture
def catalog() -> Catalog:
    scale = Subresource("scale", "Scale", "autoscaling", "v1")
    status = Subresource("status", "Widget")
    return Catalog(
        [
            *builtin(),
            widget("v1beta1"),
            widget("v1", short_names=("wd",), subresources={"status": status, "scale": scale}),
            custom("a.example.com", "things", "Thing", "v1"),
        ]
    )


@pytest.fixture
def discovery(catalog: Catalog) -> Discovery:
    return Discovery(catalog, "127.0.0.1:6443")


async def ask(discovery: Discovery, path: str, accept: str = "", method: str = "GET", etag: str = "") -> Response:
    async def read_body() -> bytes:
        return b""

    headers = {"accept": accept, "if-none-match": etag}
    request = Request(method, path, Query({}), {key: value for key, value in headers.items() if value}, read_body)
    handler = discovery.paths().get(path) or next(
        found for prefix, found in discovery.prefixes().items() if path.startswith(prefix)
    )
    return await handler(request, ANONYMOUS)


def body(response: Response) -> Any:
    assert isinstance(response.body, bytes)
    return msgspec.json.decode(response.body)


def test_the_core_group_has_its_own_roots(discovery: Discovery) -> None:
    assert discovery.document("/api") == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
    }
    core = discovery.document("/api/v1")
    assert core["groupVersion"] == "v1"
    entries = {entry["name"]: entry for entry in core["resources"]}
    assert entries["pods"] == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["po"],
        "categories": ["all"],
        "storageVersionHash": "xPOwRZ+Yhw8=",
    }
    assert entries["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert "group" not in entries["pods/status"]
    assert list(entries) == sorted(entries)


def test_groups_come_in_kubernetes_order_then_custom_ones_by_name(discovery: Discovery) -> None:
    names = [group["name"] for group in discovery.document("/apis")["groups"]]
    assert names[:3] == ["apps", "events.k8s.io", "authentication.k8s.io"]
    assert names[-2:] == ["a.example.com", "example.com"]
    assert "" not in names


def test_a_group_prefers_its_most_stable_version(discovery: Discovery) -> None:
    group = discovery.document("/apis/example.com")
    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta1"]
    assert group["preferredVersion"] == {"groupVersion": "example.com/v1", "version": "v1"}


def test_events_are_stored_once(discovery: Discovery) -> None:
    hashes = {
        path: next(entry for entry in discovery.document(path)["resources"] if entry["name"] == "events")
        for path in ("/api/v1", "/apis/events.k8s.io/v1")
    }
    assert {entry["storageVersionHash"] for entry in hashes.values()} == {"r2yiGXH7wu8="}


def test_versions_of_a_custom_resource_share_a_storage_version(discovery: Discovery) -> None:
    hashes = {
        discovery.document(f"/apis/example.com/{version}")["resources"][0]["storageVersionHash"]
        for version in ("v1", "v1beta1")
    }
    assert hashes == {storage_version_hash(GroupVersionKind("example.com", "v1beta1", "Widget"))}


def test_reviews_have_no_storage_version(discovery: Discovery) -> None:
    for entry in discovery.document("/apis/authorization.k8s.io/v1")["resources"]:
        assert "storageVersionHash" not in entry


@pytest.mark.parametrize("path", ["/api/v2", "/apis/nothing.example.com", "/apis/apps/v9", "/apis/apps/v1/x"])
def test_what_is_not_served_is_not_found(discovery: Discovery, path: str) -> None:
    with pytest.raises(errors.NotFound):
        discovery.document(path)


async def test_aggregated_discovery_is_one_document_with_an_etag(discovery: Discovery, catalog: Catalog) -> None:
    response = await ask(discovery, "/apis", CLIENT_GO)
    headers = dict(response.headers)
    assert response.content_type == AGGREGATED
    assert headers["vary"] == "Accept"
    document = body(response)
    assert (document["kind"], document["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    groups = {group["metadata"]["name"]: group for group in document["items"]}
    resources = {found["resource"]: found for found in groups["apps"]["versions"][0]["resources"]}
    deployments = resources["deployments"]
    assert deployments["responseKind"] == {"group": "", "version": "", "kind": "Deployment"}
    assert deployments["scope"] == "Namespaced"
    assert [sub["subresource"] for sub in deployments["subresources"]] == ["scale", "status"]
    assert deployments["subresources"][0]["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}

    again = await ask(discovery, "/apis", CLIENT_GO, etag=headers["etag"])
    assert (again.status, again.body) == (304, b"")
    catalog.remove("example.com", "v1beta1", "widgets")
    changed = await ask(discovery, "/apis", CLIENT_GO, etag=headers["etag"])
    assert changed.status == 200
    assert dict(changed.headers)["etag"] != headers["etag"]


async def test_custom_resources_spell_their_group_out(discovery: Discovery) -> None:
    document = body(await ask(discovery, "/apis", CLIENT_GO))
    (group,) = [found for found in document["items"] if found["metadata"]["name"] == "example.com"]
    (found,) = group["versions"][0]["resources"]
    assert found["responseKind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}
    kinds = {sub["subresource"]: sub["responseKind"] for sub in found["subresources"]}
    assert kinds == {
        "status": {"group": "example.com", "version": "v1", "kind": "Widget"},
        "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
    }


async def test_the_core_group_is_aggregated_without_a_name(discovery: Discovery) -> None:
    (group,) = body(await ask(discovery, "/api", CLIENT_GO))["items"]
    assert group["metadata"] == {}
    assert [version["version"] for version in group["versions"]] == ["v1"]


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("application/json, */*", "application/json"),
        (AGGREGATED, AGGREGATED),
        (f"application/json;q=0.5,{AGGREGATED}", AGGREGATED),
        (f"application/json,{AGGREGATED};q=0.8", "application/json"),
        (AGGREGATED.replace("v2", "v2beta1"), AGGREGATED.replace("v2", "v2beta1")),
        (AGGREGATED.replace("v2", "v9") + ",application/json", "application/json"),
        ("application/json;as=Table;g=meta.k8s.io;v=v1,application/json", "application/json"),
    ],
)
async def test_the_accept_header_chooses_the_form(discovery: Discovery, accept: str, expected: str) -> None:
    response = await ask(discovery, "/apis", accept)
    assert response.content_type == expected


async def test_what_cannot_be_produced_is_not_acceptable(discovery: Discovery) -> None:
    with pytest.raises(errors.NotAcceptable, match="application/json"):
        await ask(discovery, "/apis", "text/html")
    with pytest.raises(errors.NotAcceptable):
        await ask(discovery, "/apis/apps/v1", AGGREGATED)
    with pytest.raises(errors.MethodNotSupported):
        await ask(discovery, "/apis", method="POST")


async def test_a_trailing_slash_does_not_matter(discovery: Discovery) -> None:
    assert body(await ask(discovery, "/apis/apps/v1/"))["groupVersion"] == "apps/v1"
