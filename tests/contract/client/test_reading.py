"""get, list and watch through the client."""

from __future__ import annotations

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.base import tasks
from kube_fairlead.client.client import Client
from kube_fairlead.client.watch import Bookmark, Change, ChangeType
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import config_map
from tests.contract.client.conftest import CONFIG_MAPS, connect

WRITERS = 32


async def test_get_and_what_is_not_there(admin: Client, namespace: str) -> None:
    maps = admin.of(CONFIG_MAPS)
    made = await maps.create(config_map("a", {"k": "v"}), namespace=namespace)
    assert await maps.get("a", namespace=namespace) == made
    with pytest.raises(api_errors.NotFound) as caught:
        await maps.get("b", namespace=namespace)
    assert str(caught.value) == 'configmaps "b" not found'
    with pytest.raises(api_errors.NotFound, match="the server could not find the requested resource"):
        await admin.of(GroupVersionResource("example.com", "v1", "things")).list()


async def test_list_by_selector(admin: Client, namespace: str) -> None:
    maps = admin.of(CONFIG_MAPS)
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        await maps.create(config_map(name, labels={"color": color}), namespace=namespace)
    red = await maps.list(namespace=namespace, label_selector="color in (red)")
    assert [item["metadata"]["name"] for item in red.items] == ["a", "c"]
    assert {(item["apiVersion"], item["kind"]) for item in red.items} == {("v1", "ConfigMap")}
    named = await maps.list(namespace=namespace, field_selector="metadata.name=b")
    assert [item["metadata"]["name"] for item in named.items] == ["b"]


@pytest.mark.parametrize("objects", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
async def test_many_objects_in_pages(admin: Client, namespace: str, objects: int) -> None:
    maps = admin.of(CONFIG_MAPS)

    async def write(first: int) -> None:
        for number in range(first, objects, WRITERS):
            await maps.create(config_map(f"object-{number:05}"), namespace=namespace)

    async with tasks.TaskScope("test") as scope:
        for first in range(WRITERS):
            scope.start(write(first), name=f"writer-{first}")

    sizes = []
    names: list[str] = []
    versions = set()
    async for page in maps.pages(
        namespace=namespace, label_selector="", field_selector="metadata.name!=kube-root-ca.crt"
    ):
        sizes.append(len(page.items))
        names += [item["metadata"]["name"] for item in page.items]
        versions.add(page.resource_version)
    assert names == [f"object-{number:05}" for number in range(objects)]
    assert sizes == [500] * (objects // 500)
    assert len(versions) == 1
    everything = await maps.list_all(namespace=namespace, limit=999)
    assert len([item for item in everything.items if item["metadata"]["name"].startswith("object-")]) == objects
    await maps.delete_collection(namespace=namespace)
    left = await maps.list(namespace=namespace, field_selector="metadata.name!=kube-root-ca.crt")
    assert left.items == []


async def test_a_watch_tells_each_change(admin: Client, namespace: str) -> None:
    maps = admin.of(CONFIG_MAPS)
    version = (await maps.list(namespace=namespace)).resource_version
    made = await maps.create(config_map("a"), namespace=namespace)
    changed = await maps.update({**made, "data": {"k": "v"}})
    await maps.delete("a", namespace=namespace)
    async with maps.watch(namespace=namespace, resource_version=version) as events:
        seen = [await anext(events) for _ in range(3)]
    assert seen[:2] == [Change(ChangeType.ADDED, made), Change(ChangeType.MODIFIED, changed)]
    assert isinstance(seen[2], Change)
    assert (seen[2].type, seen[2].object["data"]) == (ChangeType.DELETED, {"k": "v"})


async def test_a_watch_ends_when_its_time_is_over(admin: Client, namespace: str) -> None:
    maps = admin.of(CONFIG_MAPS)
    version = (await maps.list(namespace=namespace)).resource_version
    async with maps.watch(namespace=namespace, resource_version=version, timeout_seconds=1) as events:
        assert [event async for event in events if not isinstance(event, Bookmark)] == []


async def test_leaving_a_watch_leaves_nothing(admin: Client, namespace: str) -> None:
    maps = admin.of(CONFIG_MAPS)
    version = (await maps.list(namespace=namespace)).resource_version
    for _ in range(20):
        async with maps.watch(namespace=namespace, resource_version=version):
            pass
    assert tasks.live_tasks() == ()


async def test_a_list_streamed_as_a_watch(admin: Client, namespace: str) -> None:
    maps = admin.of(CONFIG_MAPS)
    made = [await maps.create(config_map(name), namespace=namespace) for name in ("a", "b")]
    seen = []
    async with maps.watch(
        namespace=namespace, send_initial_events=True, field_selector="metadata.name!=kube-root-ca.crt"
    ) as events:
        async for event in events:
            if isinstance(event, Bookmark) and event.ends_initial_events:
                assert int(event.resource_version) >= int(made[1]["metadata"]["resourceVersion"])
                break
            assert isinstance(event, Change)
            seen.append(event.object["metadata"]["name"])
    assert sorted(seen) == ["a", "b"]


async def test_bare_paths(admin: Client) -> None:
    assert b"gitVersion" in (await admin.request("GET", "/version")).body
    assert (await admin.request("GET", "/readyz")).body == b"ok"


async def test_impersonation_is_the_servers_business(control_plane: ControlPlane) -> None:
    async with connect(control_plane.kubeconfig_for("nobody")) as nobody:
        with pytest.raises(api_errors.Forbidden) as caught:
            await nobody.of(GroupVersionResource("", "v1", "nodes")).list()
    assert str(caught.value) == (
        'nodes is forbidden: User "nobody" cannot list resource "nodes" in API group "" at the cluster scope'
    )
