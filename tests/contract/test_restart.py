"""What outlives the server: everything that was acknowledged."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import config_map, custom_resource_definition
from kube_fairlead_lab.testing.rawhttp import JSON_PATCH, RawApi

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATH = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize("hard", [False, True], ids=["stopped", "killed"])
async def test_objects_and_versions_stay(isolated_control_plane: ControlPlane, *, hard: bool) -> None:
    plane = isolated_control_plane
    async with RawApi(plane.access()) as api:
        made = (await api.post(PATH, config_map("a", {"k": "v"}))).expect(201)
        (await api.post(PATH, config_map("gone"))).expect(201)
        (await api.delete(f"{PATH}/gone")).expect(200)
    await plane.restart(hard=hard)
    async with RawApi(plane.access()) as api:
        assert (await api.get(f"{PATH}/a")).expect(200) == made
        (await api.get(f"{PATH}/gone")).expect(404)
        later = (await api.patch(f"{PATH}/a", {"data": {"k": "w"}})).expect(200)
        assert int(later["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


async def test_custom_resources_stay_what_the_schema_makes_of_them(isolated_control_plane: ControlPlane) -> None:
    plane = isolated_control_plane
    spec = {"type": "object", "properties": {"a": {"type": "string"}, "gone": {"type": "string"}}}
    definition = custom_resource_definition("widgets", "example.com", kind="Widget", spec_schema=spec)
    path = "/apis/example.com/v1/namespaces/default/widgets"
    fields = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"
    async with RawApi(plane.access()) as api:
        (await api.post(CRDS, definition)).expect(201)
        await api.poll(path, lambda answer: answer.code == 200)
        body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
        made = (await api.post(path, {**body, "spec": {"a": "1", "gone": "2"}})).expect(201)
        changes = [
            {"op": "remove", "path": f"{fields}/gone"},
            {"op": "add", "path": f"{fields}/b", "value": {"type": "string", "default": "new"}},
        ]
        (await api.patch(f"{CRDS}/widgets.example.com", changes, JSON_PATCH)).expect(200)
        await api.poll(f"{path}/a", lambda answer: answer.json["spec"] == {"a": "1", "b": "new"})
    await plane.restart()
    async with RawApi(plane.access()) as api:
        assert (await api.get(f"{path}/a")).expect(200) == {**made, "spec": {"a": "1", "b": "new"}}
        changed = (await api.patch(f"{path}/a", {"metadata": {"labels": {"l": "1"}}})).expect(200)
        assert (changed["spec"], changed["metadata"]["generation"]) == ({"a": "1", "b": "new"}, 1)


async def test_a_watch_goes_on_or_says_that_it_cannot(isolated_control_plane: ControlPlane) -> None:
    """kube-apiserver remembers no history from before its start; what matters is that nothing is skipped in silence."""
    plane = isolated_control_plane
    async with RawApi(plane.access()) as api:
        first = (await api.post(PATH, config_map("a"))).expect(201)
        (await api.post(PATH, config_map("b"))).expect(201)
    await plane.restart()
    async with RawApi(plane.access()) as api:
        (await api.post(PATH, config_map("c"))).expect(201)
        async with api.watch(PATH, resourceVersion=first["metadata"]["resourceVersion"]) as watch:
            event = await watch.next()
            if event["type"] == "ERROR":
                assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
                assert event["object"]["message"].startswith("too old resource version: ")
                return
            told = [event["object"]["metadata"]["name"], (await watch.next())["object"]["metadata"]["name"]]
    assert told == ["b", "c"]


async def test_a_stop_ends_watches_cleanly(isolated_control_plane: ControlPlane) -> None:
    plane = isolated_control_plane
    async with RawApi(plane.access()) as api:
        version = (await api.get(PATH)).expect(200)["metadata"]["resourceVersion"]
        async with api.watch(PATH, resourceVersion=version) as watch:
            stopping = asyncio.create_task(plane.stop_server(), name="stop")
            with pytest.raises((EOFError, aiohttp.ClientPayloadError)):
                await watch.next()
            await stopping
    await plane.start_server()


async def test_no_acknowledged_write_is_lost_when_killed(isolated_control_plane: ControlPlane) -> None:
    """Writers write until the connection breaks; whatever was answered 201 is there afterwards, once."""
    plane = isolated_control_plane
    acknowledged: set[str] = set()
    enough = asyncio.Event()

    async def write(api: RawApi, writer: int) -> None:
        number = 0
        while True:
            name = f"w{writer}-{number}"
            (await api.post(PATH, config_map(name))).expect(201)
            acknowledged.add(name)
            number += 1
            if len(acknowledged) >= 200:
                enough.set()

    async with RawApi(plane.access()) as api:
        writers = [asyncio.create_task(write(api, n), name=f"writer-{n}") for n in range(8)]
        await enough.wait()
        await plane.stop_server(hard=True)
        results = await asyncio.gather(*writers, return_exceptions=True)
    assert all(isinstance(result, aiohttp.ClientError | OSError) for result in results), results
    await plane.start_server()
    async with RawApi(plane.access()) as api:
        stored = {item["metadata"]["name"] for item in (await api.get(PATH)).expect(200)["items"]}
    assert acknowledged <= stored
    # At most the one write that each writer had under way may be there without its answer.
    assert len(stored - acknowledged - {"kube-root-ca.crt"}) <= len(writers)
