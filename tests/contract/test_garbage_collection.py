"""Owners and dependents: background, foreground, orphan, and owners that never were."""

from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.rawhttp import RawApi


@pytest.fixture
def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def owned_by(owner: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **more,
    }


async def family(api: RawApi, path: str, **reference: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    owner = (await api.post(path, config_map("owner"))).expect(201)
    child = (await api.post(path, config_map("child", ownerReferences=[owned_by(owner, **reference)]))).expect(201)
    return owner, child


def is_event(kind: str, name: str) -> Any:
    return lambda event: (event["type"], event["object"]["metadata"]["name"]) == (kind, name)


@pytest.mark.parametrize("options", [{}, {"propagationPolicy": "Background"}])
async def test_background(api: RawApi, path: str, options: dict[str, str]) -> None:
    _, child = await family(api, path)
    async with api.watch(path, resourceVersion=child["metadata"]["resourceVersion"]) as watch:
        (await api.delete(f"{path}/owner", options)).expect(200)
        (await api.get(f"{path}/owner")).expect(404)
        await watch.until(is_event("DELETED", "child"))


async def test_foreground_waits_for_blocking_dependents(api: RawApi, path: str) -> None:
    await family(api, path, blockOwnerDeletion=True)
    held = (await api.patch(f"{path}/child", {"metadata": {"finalizers": ["example.com/hold"]}})).expect(200)
    async with api.watch(path, resourceVersion=held["metadata"]["resourceVersion"]) as watch:
        marked = (await api.delete(f"{path}/owner", {"propagationPolicy": "Foreground"})).expect(200)
        assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert marked["metadata"]["deletionTimestamp"]
        await watch.until(
            lambda event: is_event("MODIFIED", "child")(event) and "deletionTimestamp" in event["object"]["metadata"]
        )
        (await api.get(f"{path}/owner")).expect(200)
        (await api.patch(f"{path}/child", {"metadata": {"finalizers": None}})).expect(200)
        await watch.until(is_event("DELETED", "child"))
        await watch.until(is_event("DELETED", "owner"))


async def test_orphan_keeps_the_dependents_without_their_reference(api: RawApi, path: str) -> None:
    _, child = await family(api, path)
    async with api.watch(path, resourceVersion=child["metadata"]["resourceVersion"]) as watch:
        marked = (await api.delete(f"{path}/owner", {"propagationPolicy": "Orphan"})).expect(200)
        assert marked["metadata"]["finalizers"] == ["orphan"]
        await watch.until(is_event("DELETED", "owner"))
    left = (await api.get(f"{path}/child")).expect(200)
    assert "ownerReferences" not in left["metadata"]


async def test_orphan_dependents_the_old_way(api: RawApi, path: str) -> None:
    _, child = await family(api, path)
    async with api.watch(path, resourceVersion=child["metadata"]["resourceVersion"]) as watch:
        (await api.delete(f"{path}/owner", {"orphanDependents": True})).expect(200)
        await watch.until(is_event("DELETED", "owner"))
    (await api.get(f"{path}/child")).expect(200)


async def test_a_dependent_stays_while_one_owner_is_left(api: RawApi, path: str) -> None:
    first = (await api.post(path, config_map("first"))).expect(201)
    second = (await api.post(path, config_map("second"))).expect(201)
    body = config_map("child", ownerReferences=[owned_by(first), owned_by(second)])
    child = (await api.post(path, body)).expect(201)
    async with api.watch(path, resourceVersion=child["metadata"]["resourceVersion"]) as watch:
        (await api.delete(f"{path}/first")).expect(200)
        changed = await watch.until(is_event("MODIFIED", "child"))
        assert [owner["name"] for owner in changed["object"]["metadata"]["ownerReferences"]] == ["second"]
        (await api.delete(f"{path}/second")).expect(200)
        await watch.until(is_event("DELETED", "child"))


async def test_an_owner_that_does_not_exist(api: RawApi, path: str) -> None:
    version = (await api.get(path)).expect(200)["metadata"]["resourceVersion"]
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "ghost",
        "uid": "00000000-0000-0000-0000-000000000000",
    }
    async with api.watch(path, resourceVersion=version) as watch:
        (await api.post(path, config_map("child", ownerReferences=[reference]))).expect(201)
        await watch.until(is_event("DELETED", "child"))


async def test_an_owner_of_the_same_name_but_another_uid(api: RawApi, path: str) -> None:
    owner, child = await family(api, path)
    async with api.watch(path, resourceVersion=child["metadata"]["resourceVersion"]) as watch:
        (await api.delete(f"{path}/owner")).expect(200)
        (await api.post(path, config_map("owner"))).expect(201)
        await watch.until(is_event("DELETED", "child"))
    assert (await api.get(f"{path}/owner")).expect(200)["metadata"]["uid"] != owner["metadata"]["uid"]


async def test_grandchildren_follow(api: RawApi, path: str) -> None:
    _, child = await family(api, path)
    body = config_map("grandchild", ownerReferences=[owned_by(child)])
    grandchild = (await api.post(path, body)).expect(201)
    async with api.watch(path, resourceVersion=grandchild["metadata"]["resourceVersion"]) as watch:
        (await api.delete(f"{path}/owner")).expect(200)
        await watch.until(is_event("DELETED", "grandchild"))


async def test_a_cluster_scoped_owner(api: RawApi, path: str, namespace: str) -> None:
    """A namespaced owner would have to be in the same namespace; a cluster-scoped one may own anywhere."""
    name = f"owner-{namespace}"
    node = (await api.post("/api/v1/nodes", {"metadata": {"name": name}})).expect(201)
    reference = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
    child = (await api.post(path, config_map("child", ownerReferences=[reference]))).expect(201)
    async with api.watch(path, resourceVersion=child["metadata"]["resourceVersion"]) as watch:
        (await api.delete(f"/api/v1/nodes/{name}")).expect(200)
        await watch.until(is_event("DELETED", "child"))


@pytest.mark.parametrize(
    ("references", "field"),
    [
        ([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}], "metadata.ownerReferences.uid"),
        ([{"apiVersion": "v1", "kind": "ConfigMap", "uid": "1"}], "metadata.ownerReferences.name"),
        ([{"apiVersion": "v1", "name": "x", "uid": "1"}], "metadata.ownerReferences.kind"),
        ([{"kind": "ConfigMap", "name": "x", "uid": "1"}], "metadata.ownerReferences.apiVersion"),
        (
            [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1", "controller": True},
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "y", "uid": "2", "controller": True},
            ],
            "metadata.ownerReferences",
        ),
    ],
)
async def test_references_that_are_refused(
    api: RawApi, path: str, references: list[dict[str, Any]], field: str
) -> None:
    status = (await api.post(path, config_map("child", ownerReferences=references))).expect(422)
    assert [cause["field"] for cause in status["details"]["causes"]] == [field]
