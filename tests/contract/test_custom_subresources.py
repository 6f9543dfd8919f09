"""Status, scale, versions, printer columns and selectable fields of custom resources."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kube_fairlead_lab.testing.rawhttp import RawApi

Define = Callable[..., Awaitable[Any]]

VERSION = {
    "subresources": {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    },
    "selectableFields": [{"jsonPath": ".spec.colour"}],
    "additionalPrinterColumns": [
        {"name": "Colour", "type": "string", "jsonPath": ".spec.colour"},
        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1, "description": "wanted"},
        {"name": "Born", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ],
}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}, "colour": {"type": "string"}},
        },
        "status": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
        },
    },
}


@pytest.fixture
async def widgets(define: Define) -> Any:
    return await define(version=VERSION, schema=SCHEMA, shared=True)


async def test_status_is_apart(api: RawApi, widgets: Any) -> None:
    body = {**widgets.make("a", {"replicas": 2}), "status": {"replicas": 9}}
    made = (await api.post(widgets.path(), body)).expect(201)
    assert "status" not in made
    path = f"{widgets.path()}/a"
    both = {"spec": {"replicas": 7}, "status": {"replicas": 1}}
    stored = (await api.patch(f"{path}/status", both)).expect(200)
    assert (stored["spec"], stored["status"]) == ({"replicas": 2}, {"replicas": 1})
    assert stored["metadata"]["generation"] == 1
    stored = (await api.patch(path, both)).expect(200)
    assert (stored["spec"], stored["status"]) == ({"replicas": 7}, {"replicas": 1})
    assert stored["metadata"]["generation"] == 2


async def test_metadata_does_not_change_through_status(api: RawApi, widgets: Any) -> None:
    (await api.post(widgets.path(), widgets.make("a", labels={"x": "1"}))).expect(201)
    body = {"metadata": {"labels": {"x": "2"}}, "status": {"replicas": 1}}
    stored = (await api.patch(f"{widgets.path()}/a/status", body)).expect(200)
    assert stored["metadata"]["labels"] == {"x": "1"}


async def test_without_the_subresource_status_is_like_any_field(api: RawApi, define: Define) -> None:
    plain = await define(kind="Plain", shared=True)
    made = (await api.post(plain.path(), {**plain.make("a"), "status": {"x": 1}})).expect(201)
    assert made["status"] == {"x": 1}
    assert made["metadata"]["generation"] == 1
    changed = (await api.patch(f"{plain.path()}/a", {"status": {"x": 2}})).expect(200)
    assert changed["metadata"]["generation"] == 2
    (await api.get(f"{plain.path()}/a/status")).expect(404)
    (await api.get(f"{plain.path()}/a/scale")).expect(404)


async def test_scale(api: RawApi, widgets: Any) -> None:
    path = f"{widgets.path()}/a"
    (await api.post(widgets.path(), widgets.make("a", {"replicas": 2}))).expect(201)
    (await api.patch(f"{path}/status", {"status": {"replicas": 1, "selector": "app=a"}})).expect(200)
    scale = (await api.get(f"{path}/scale")).expect(200)
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "app=a"})
    (await api.patch(f"{path}/scale", {"spec": {"replicas": 5}})).expect(200)
    assert (await api.get(path)).expect(200)["spec"]["replicas"] == 5


async def test_selectable_fields(api: RawApi, widgets: Any) -> None:
    for name, colour in {"a": "red", "b": "green", "c": "red"}.items():
        (await api.post(widgets.path(), widgets.make(name, {"colour": colour}))).expect(201)
    listed = (await api.get(widgets.path(), fieldSelector="spec.colour=red")).expect(200)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "c"]
    status = (await api.get(widgets.path(), fieldSelector="spec.replicas=1")).expect(400)
    assert "field label not supported: spec.replicas" in status["message"]


async def test_printer_columns(api: RawApi, widgets: Any) -> None:
    (await api.post(widgets.path(), widgets.make("a", {"colour": "red", "replicas": 3}))).expect(201)
    table = (await api.with_headers(accept="application/json;as=Table;v=v1;g=meta.k8s.io").get(widgets.path())).expect(
        200
    )
    assert [(column["name"], column["type"], column["priority"]) for column in table["columnDefinitions"]] == [
        ("Name", "string", 0),
        ("Colour", "string", 0),
        ("Replicas", "integer", 1),
        ("Born", "date", 0),
    ]
    cells = table["rows"][0]["cells"]
    assert cells[:3] == ["a", "red", 3]
    assert cells[3].endswith("s")


async def test_several_versions_without_conversion(api: RawApi, define: Define) -> None:
    widgets = await define(kind="Gizmo")
    crd = (await api.get(widgets.definition)).expect(200)
    second = {**crd["spec"]["versions"][0], "name": "v2", "storage": False}
    third = {**second, "name": "v3", "served": False}
    (await api.patch(widgets.definition, {"spec": {"versions": [crd["spec"]["versions"][0], second, third]}})).expect(
        200
    )
    await api.poll(widgets.cluster_path("v2"), lambda answer: answer.code == 200)
    made = (await api.post(widgets.path("v1"), widgets.make("a", {"x": 1}))).expect(201)
    read = (await api.get(f"{widgets.path('v2')}/a")).expect(200)
    assert read["apiVersion"] == f"{widgets.group}/v2"
    assert read["spec"] == {"x": 1}
    assert read["metadata"]["uid"] == made["metadata"]["uid"]
    assert (await api.get(widgets.path("v3"))).code == 404
    async with api.watch(widgets.path("v2"), resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        (await api.patch(f"{widgets.path('v1')}/a", {"spec": {"x": 2}})).expect(200)
        event = await watch.next()
    assert event["object"]["apiVersion"] == f"{widgets.group}/v2"


async def test_apply_to_custom_resources(api: RawApi, widgets: Any) -> None:
    path = f"{widgets.path()}/a"
    (await api.apply(path, widgets.make("a", {"replicas": 1}), "alice")).expect(201)
    made = (await api.apply(path, widgets.make("a", {"colour": "red"}), "bob")).expect(200)
    assert made["spec"] == {"replicas": 1, "colour": "red"}
    status = (await api.apply(path, widgets.make("a", {"replicas": 2}), "bob")).expect(409)
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "alice": .spec.replicas'
