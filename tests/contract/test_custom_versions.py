"""Custom resources that were stored by another version or an earlier schema than they are read by."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kube_fairlead_lab.testing.rawhttp import JSON_PATCH, RawApi

Define = Callable[..., Awaitable[Any]]

SCHEMA = "/spec/versions/0/schema/openAPIV3Schema"
FIELDS = f"{SCHEMA}/properties/spec/properties"
TEXT = {"type": "string"}


def spec_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def version(name: str, spec: dict[str, Any], *, storage: bool = False) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": True, "storage": storage, "schema": schema}


async def list_cached(api: RawApi, path: str) -> dict[str, Any]:
    """List from kube-apiserver's cache, once that is filled."""
    answer = await api.poll(path, lambda answer: answer.code == 200, resourceVersion="0")
    return answer.json


async def redefine(api: RawApi, widgets: Any, *changes: dict[str, Any]) -> None:
    """Change the definition. kube-apiserver takes a moment: a watch ends when the old one is served no more."""
    listed = await list_cached(api, widgets.path())
    async with api.watch(widgets.path(), resourceVersion=listed["metadata"]["resourceVersion"]) as watch:
        defined = (await api.patch(widgets.definition, list(changes), JSON_PATCH)).expect(200)
        with pytest.raises(EOFError):
            await watch.until(lambda _event: False)
    for served in defined["spec"]["versions"]:
        await list_cached(api, widgets.path(served["name"]))


def adding(field: str, **schema: Any) -> dict[str, Any]:
    return {"op": "add", "path": f"{FIELDS}/{field}", "value": {**TEXT, **schema}}


async def test_reads_follow_the_schema_of_today(api: RawApi, define: Define) -> None:
    widgets = await define(spec_schema=spec_of(a=TEXT, gone=TEXT))
    made = (await api.post(widgets.path(), widgets.make("x", {"a": "1", "gone": "2"}))).expect(201)
    await redefine(api, widgets, adding("b", default="new"), {"op": "remove", "path": f"{FIELDS}/gone"})
    expected = {**made, "spec": {"a": "1", "b": "new"}}
    assert (await api.get(f"{widgets.path()}/x")).expect(200) == expected
    assert (await api.get(widgets.path())).expect(200)["items"] == [expected]
    async with api.watch(widgets.path()) as watch:
        assert (await watch.next())["object"] == expected
        answer = await api.patch(f"{widgets.path()}/x", {"metadata": {"labels": {"l": "1"}}})
        changed = answer.expect(200)
        assert "Warning" not in answer.headers
        assert (changed["spec"], changed["metadata"]["generation"]) == (expected["spec"], 1)
        assert (await watch.next())["object"] == changed
        (await api.delete(f"{widgets.path()}/x")).expect(200)
        assert (await watch.next())["object"]["spec"] == expected["spec"]


async def test_an_unchanged_write_stores_the_schema_of_today(api: RawApi, define: Define) -> None:
    widgets = await define(spec_schema=spec_of(a=TEXT))
    made = (await api.post(widgets.path(), widgets.make("x", {"a": "1"}))).expect(201)
    await redefine(api, widgets, adding("b", default="new"))
    seen = (await api.get(f"{widgets.path()}/x")).expect(200)
    assert seen["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    stored = (await api.put(f"{widgets.path()}/x", seen)).expect(200)
    assert stored["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    again = (await api.put(f"{widgets.path()}/x", stored)).expect(200)
    assert again == stored
    await redefine(api, widgets, {"op": "replace", "path": f"{FIELDS}/b/default", "value": "newer"})
    assert (await api.get(f"{widgets.path()}/x")).expect(200) == stored


async def test_selectors_see_new_defaults(api: RawApi, define: Define) -> None:
    widgets = await define(spec_schema=spec_of(a=TEXT))
    (await api.post(widgets.path(), widgets.make("x", {"a": "1"}))).expect(201)
    fields = {"op": "add", "path": "/spec/versions/0/selectableFields", "value": [{"jsonPath": ".spec.b"}]}
    await redefine(api, widgets, adding("b", default="new"), fields)
    found = (await api.get(widgets.path(), fieldSelector="spec.b=new")).expect(200)
    assert [item["metadata"]["name"] for item in found["items"]] == ["x"]


async def test_versions_show_their_own_fields(api: RawApi, define: Define) -> None:
    widgets = await define(spec_schema=spec_of(color=TEXT, lock=TEXT, m={**TEXT, "default": "m"}))
    older = version("v1beta1", spec_of(color=TEXT, old={**TEXT, "default": "o"}))
    await redefine(api, widgets, {"op": "add", "path": "/spec/versions/-", "value": older})
    made = (await api.post(widgets.path(), widgets.make("x", {"color": "red", "lock": "l"}))).expect(201)
    path = f"{widgets.path('v1beta1')}/x"
    shown = (await api.get(path)).expect(200)
    # A default is for what clients send and for what is stored, which this version's is not.
    assert shown == {**made, "apiVersion": f"{widgets.group}/v1beta1", "spec": {"color": "red"}}
    assert (await api.get(widgets.path("v1beta1"))).expect(200)["items"] == [shown]
    since = made["metadata"]["resourceVersion"]
    async with (
        api.watch(widgets.path("v1beta1"), resourceVersion=since) as old_watch,
        api.watch(widgets.path(), resourceVersion=since) as new_watch,
    ):
        answer = await api.patch(path, {"spec": {"old": "z"}})
        assert "Warning" not in answer.headers
        # What the storage version has no place for is lost on the way, and so is what this version did not show.
        assert answer.expect(200)["spec"] == {"color": "red"}
        assert (await old_watch.next())["object"] == answer.json
        told = (await new_watch.next())["object"]
    assert told["spec"] == {"color": "red", "m": "m"}
    assert (await api.get(f"{widgets.path()}/x")).expect(200) == told


async def test_a_dry_run_says_what_would_be_left(api: RawApi, define: Define) -> None:
    widgets = await define(spec_schema=spec_of(color=TEXT))
    older = version("v1beta1", spec_of(color=TEXT, old=TEXT))
    await redefine(api, widgets, {"op": "add", "path": "/spec/versions/-", "value": older})
    body = {**widgets.make("x", {"color": "red", "old": "o"}), "apiVersion": f"{widgets.group}/v1beta1"}
    made = (await api.post(widgets.path("v1beta1"), body, dryRun="All")).expect(201)
    assert made["spec"] == {"color": "red"}
    assert (await api.post(widgets.path("v1beta1"), body)).expect(201)["spec"] == {"color": "red"}


async def test_another_storage_version_leaves_what_is_stored(api: RawApi, define: Define) -> None:
    widgets = await define(spec_schema=spec_of(a=TEXT, both=TEXT))
    made = (await api.post(widgets.path(), widgets.make("x", {"a": "1", "both": "2"}))).expect(201)
    newer = version("v2", spec_of(both=TEXT, c={**TEXT, "default": "c"}), storage=True)
    await redefine(
        api,
        widgets,
        {"op": "replace", "path": "/spec/versions/0/storage", "value": False},
        {"op": "add", "path": "/spec/versions/-", "value": newer},
    )
    assert (await api.get(f"{widgets.path()}/x")).expect(200) == made
    seen = (await api.get(f"{widgets.path('v2')}/x")).expect(200)
    assert seen["spec"] == {"both": "2"}  # stored as v1, so not defaulted as v2
    stored = (await api.put(f"{widgets.path('v2')}/x", seen)).expect(200)
    assert stored["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    assert (await api.get(f"{widgets.path()}/x")).expect(200)["spec"] == {"both": "2"}
