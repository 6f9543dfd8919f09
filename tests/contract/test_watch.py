"""Watching: what is told, in which order, and to whom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kube_fairlead_lab.testing.manifests import config_map, secret
from kube_fairlead_lab.testing.rawhttp import RawApi


@pytest.fixture
def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def told(event: dict[str, Any]) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


async def version_of(api: RawApi, path: str) -> str:
    version: str = (await api.get(path)).expect(200)["metadata"]["resourceVersion"]
    return version


async def test_from_a_version_every_change_in_order(api: RawApi, path: str) -> None:
    version = await version_of(api, path)
    (await api.post(path, config_map("a"))).expect(201)
    (await api.patch(f"{path}/a", {"data": {"k": "v"}})).expect(200)
    (await api.delete(f"{path}/a")).expect(200)
    async with api.watch(path, resourceVersion=version) as watch:
        events = [await watch.next() for _ in range(3)]
        (await api.post(path, config_map("b"))).expect(201)
        events.append(await watch.next())
    assert [told(event) for event in events] == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert all(event["object"]["kind"] == "ConfigMap" and event["object"]["apiVersion"] == "v1" for event in events)
    assert watch.headers["Content-Type"] == "application/json"


async def test_a_deletion_shows_the_last_state_at_the_version_of_the_deletion(api: RawApi, path: str) -> None:
    made = (await api.post(path, config_map("a", {"k": "v"}))).expect(201)
    async with api.watch(path, resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        (await api.delete(f"{path}/a")).expect(200)
        event = await watch.next()
    assert told(event) == ("DELETED", "a")
    assert event["object"]["data"] == {"k": "v"}
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
async def test_without_a_version_the_present_comes_first_as_added(
    api: RawApi, namespace: str, query: dict[str, str]
) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    for name in ("b", "a"):
        (await api.post(path, secret(name))).expect(201)
    await api.get(path)  # a consistent read: "0" may be served from a cache that is behind, but not after this
    async with api.watch(path, **query) as watch:
        first = {told(await watch.next()), told(await watch.next())}
        (await api.post(path, secret("c"))).expect(201)
        assert told(await watch.next()) == ("ADDED", "c")
    assert first == {("ADDED", "a"), ("ADDED", "b")}


async def test_one_object_by_field_selector(api: RawApi, path: str) -> None:
    version = await version_of(api, path)
    async with api.watch(path, resourceVersion=version, fieldSelector="metadata.name=b") as watch:
        for name in ("a", "b"):
            (await api.post(path, config_map(name))).expect(201)
        assert told(await watch.next()) == ("ADDED", "b")


async def test_entering_and_leaving_a_selector(api: RawApi, path: str) -> None:
    version = await version_of(api, path)
    async with api.watch(path, resourceVersion=version, labelSelector="in=yes") as watch:
        (await api.post(path, config_map("a", labels={"in": "no"}))).expect(201)
        entered = (await api.patch(f"{path}/a", {"metadata": {"labels": {"in": "yes"}}})).expect(200)
        stayed = (await api.patch(f"{path}/a", {"data": {"k": "v"}})).expect(200)
        left = (await api.patch(f"{path}/a", {"metadata": {"labels": {"in": "no"}}})).expect(200)
        (await api.delete(f"{path}/a")).expect(200)
        (await api.post(path, config_map("end", labels={"in": "yes"}))).expect(201)
        events = [await watch.next() for _ in range(4)]
    assert [told(event) for event in events] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
        ("ADDED", "end"),
    ]
    assert events[0]["object"] == entered
    assert events[1]["object"] == stayed
    # Who leaves is shown as it last matched, at the version of the change that took it away.
    assert events[2]["object"]["metadata"]["labels"] == {"in": "yes"}
    assert events[2]["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


async def test_other_namespaces_are_not_told(api: RawApi, path: str, unique_name: Callable[[str], str]) -> None:
    version = await version_of(api, path)
    async with api.watch(path, resourceVersion=version) as watch:
        (await api.post("/api/v1/namespaces/default/configmaps", config_map(unique_name("other")))).expect(201)
        (await api.post(path, config_map("mine"))).expect(201)
        assert told(await watch.next()) == ("ADDED", "mine")


async def test_the_old_watch_path(api: RawApi, namespace: str, path: str) -> None:
    version = await version_of(api, path)
    (await api.post(path, config_map("a"))).expect(201)
    async with api.watch(f"/api/v1/watch/namespaces/{namespace}/configmaps", resourceVersion=version) as watch:
        assert told(await watch.next()) == ("ADDED", "a")


async def test_timeout_seconds_ends_the_watch(api: RawApi, path: str) -> None:
    async with api.watch(path, resourceVersion=await version_of(api, path), timeoutSeconds=1) as watch:
        with pytest.raises(EOFError):
            await watch.next()


async def test_an_unchanged_write_is_not_told(api: RawApi, path: str) -> None:
    made = (await api.post(path, config_map("a", {"k": "v"}))).expect(201)
    async with api.watch(path, resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        (await api.put(f"{path}/a", made)).expect(200)
        (await api.patch(f"{path}/a", {"data": {"k": "v"}})).expect(200)
        (await api.post(path, config_map("b"))).expect(201)
        assert told(await watch.next()) == ("ADDED", "b")


async def test_many_watchers_see_the_same(api: RawApi, path: str) -> None:
    version = await version_of(api, path)

    async def follow() -> list[tuple[str, str]]:
        async with api.watch(path, resourceVersion=version) as watch:
            return [told(await watch.next()) for _ in range(20)]

    async with asyncio.TaskGroup() as group:
        watchers = [group.create_task(follow(), name=f"watcher-{n}") for n in range(10)]
        for n in range(10):
            (await api.post(path, config_map(f"c{n}"))).expect(201)
            (await api.delete(f"{path}/c{n}")).expect(200)
    expected = [(kind, f"c{n}") for n in range(10) for kind in ("ADDED", "DELETED")]
    assert all(watcher.result() == expected for watcher in watchers)


async def test_watch_from_a_version_that_is_no_number(api: RawApi, path: str) -> None:
    """kube-apiserver calls its own fault (500) what it calls the client's in a list."""
    status = (await api.get(path, watch="true", resourceVersion="abc")).expect(400, 500)
    assert 'resourceVersion: Invalid value: "abc": ' in status["message"]


async def test_from_a_version_that_is_yet_to_come(api: RawApi, path: str) -> None:
    version = int((await api.post(path, config_map("a"))).expect(201)["metadata"]["resourceVersion"])
    async with api.watch(path, resourceVersion=version + 100_000, timeoutSeconds=1) as watch:
        (await api.post(path, config_map("b"))).expect(201)
        with pytest.raises(EOFError):
            await watch.next()


async def test_a_watch_is_no_page(api: RawApi, path: str) -> None:
    status = (await api.get(path, watch="true", **{"continue": "abc"})).expect(422)
    assert status["message"] == (
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden '
        "when continue is provided"
    )
