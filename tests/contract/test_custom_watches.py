"""Watches of custom resources end with what they watch: its definition, its version, or the schema it had."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kube_fairlead_lab.testing.rawhttp import JSON_PATCH, RawApi

Define = Callable[..., Awaitable[Any]]

OLDER = {
    "name": "v1beta1",
    "served": True,
    "storage": False,
    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
}
VERSIONS = "/spec/versions"
COLUMN = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}


async def told_until_the_end(watch: Any) -> list[tuple[str, str]]:
    events: list[tuple[str, str]] = []
    while True:
        try:
            event = await watch.next()
        except EOFError:
            return events
        events.append((event["type"], event["object"]["metadata"]["name"]))


async def test_deleting_the_definition(api: RawApi, define: Define) -> None:
    widgets = await define()
    for name in ("a", "b"):
        made = (await api.post(widgets.path(), widgets.make(name))).expect(201)
    async with api.watch(widgets.cluster_path(), resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        (await api.delete(widgets.definition)).expect(200)
        assert sorted(await told_until_the_end(watch)) == [("DELETED", "a"), ("DELETED", "b")]


@pytest.mark.parametrize(
    ("change", "version"),
    [
        ({"op": "replace", "path": f"{VERSIONS}/1/served", "value": False}, "v1beta1"),
        ({"op": "replace", "path": f"{VERSIONS}/1/served", "value": False}, "v1"),  # whichever it was
        ({"op": "add", "path": f"{VERSIONS}/0/additionalPrinterColumns", "value": [COLUMN]}, "v1"),
    ],
    ids=["unserved", "other-unserved", "columns"],
)
async def test_changing_the_definition(api: RawApi, define: Define, change: dict[str, Any], version: str) -> None:
    widgets = await define()
    (await api.patch(widgets.definition, [{"op": "add", "path": f"{VERSIONS}/-", "value": OLDER}], JSON_PATCH)).expect(
        200
    )
    await api.poll(widgets.path("v1beta1"), lambda answer: answer.code == 200)
    made = (await api.post(widgets.path(), widgets.make("a"))).expect(201)
    since = made["metadata"]["resourceVersion"]
    async with api.watch(widgets.path(version), resourceVersion=since) as watch:
        (await api.patch(widgets.definition, [change], JSON_PATCH)).expect(200)
        assert await told_until_the_end(watch) == []


async def test_labelling_the_definition_changes_nothing(api: RawApi, define: Define) -> None:
    widgets = await define()
    listed = (await api.get(widgets.path())).expect(200)
    async with api.watch(widgets.path(), resourceVersion=listed["metadata"]["resourceVersion"]) as watch:
        (await api.patch(widgets.definition, {"metadata": {"labels": {"a": "b"}}})).expect(200)
        (await api.post(widgets.path(), widgets.make("a"))).expect(201)
        assert (await watch.next())["object"]["metadata"]["name"] == "a"
