"""An operator written with kopf: its finalizer, its status, its children."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from typing import Any

import kopf
import pytest

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import custom_resource_definition
from kube_fairlead_lab.testing.rawhttp import RawApi

# kopf's own code warns on current Python and libraries; that is not ours to fail on.
pytestmark = pytest.mark.filterwarnings("default")

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
async def group(api: RawApi, namespace: str) -> AsyncIterator[str]:
    group = f"{namespace}.example.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    manifest = custom_resource_definition(
        "widgets", group, kind="Widget", schema=schema, version={"subresources": {"status": {}}}
    )
    (await api.post(CRDS, manifest)).expect(201)
    await api.poll(f"/apis/{group}/v1/widgets", lambda answer: answer.code == 200)
    yield group
    (await api.delete(f"{CRDS}/widgets.{group}")).expect(200)


def operator(registry: kopf.OperatorRegistry, group: str, seen: list[str]) -> None:
    """A small operator: an event and a status for each Widget, and a last word."""

    @kopf.on.create(group, "v1", "widgets", id="create", registry=registry)
    def create(spec: Any, name: str, body: Any, **_: Any) -> dict[str, Any]:
        seen.append(f"create {name}")
        kopf.info(body, reason="Made", message="it is made")
        return {"size": spec["size"]}

    @kopf.on.update(group, "v1", "widgets", field="spec.size", id="update", registry=registry)
    def update(old: Any, new: Any, name: str, **_: Any) -> None:
        seen.append(f"update {name} {old}->{new}")

    @kopf.on.delete(group, "v1", "widgets", id="delete", registry=registry)
    def delete(name: str, **_: Any) -> None:
        seen.append(f"delete {name}")

    @kopf.index(group, "v1", "widgets", registry=registry)
    def sizes(name: str, spec: Any, **_: Any) -> dict[str, int]:
        return {name: spec["size"]}


@pytest.fixture
async def seen(control_plane: ControlPlane, namespace: str, group: str) -> AsyncIterator[list[str]]:
    seen: list[str] = []
    registry = kopf.OperatorRegistry()
    operator(registry, group, seen)
    access = control_plane.access()

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=access.url, ca_path=str(access.ca_file), token=access.token)

    # In a thread of its own: when it stops, kopf cancels every task of the loop it ran in.
    stop, ready = threading.Event(), threading.Event()
    options = {"namespaces": [namespace], "standalone": True, "stop_flag": stop, "ready_flag": ready}
    running = threading.Thread(target=kopf.run, kwargs={"registry": registry, **options}, name="kopf")
    running.start()
    try:
        assert await asyncio.to_thread(ready.wait, 30)
        yield seen
    finally:
        stop.set()
        await asyncio.to_thread(running.join)
        gc.collect()  # kopf's loop ends before its connections do; Python reports them here, not in a later test


async def test_the_life_of_a_resource(api: RawApi, namespace: str, group: str, seen: list[str]) -> None:
    path = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
    body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
    async with api.watch(path) as watch:
        (await api.post(path, body)).expect(201)
        made = await watch.until(lambda event: event["object"].get("status", {}).get("create") == {"size": 1})
        assert made["object"]["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
        (await api.patch(f"{path}/w", {"spec": {"size": 2}})).expect(200)
        await watch.until(
            lambda event: '"size":2' in event["object"]["metadata"].get("annotations", {}).get(LAST_HANDLED, "")
        )
        (await api.delete(f"{path}/w")).expect(200)
        await watch.until(lambda event: event["type"] == "DELETED")
    assert seen == ["create w", "update w 1->2", "delete w"]


async def test_events_are_posted(api: RawApi, namespace: str, group: str, seen: list[str]) -> None:
    path = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
    body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
    async with api.watch(f"/api/v1/namespaces/{namespace}/events") as watch:
        (await api.post(path, body)).expect(201)
        event = await watch.until(lambda event: event["object"]["involvedObject"]["name"] == "w")
    assert (event["object"]["reason"], event["object"]["message"]) == ("Made", "it is made")
    (await api.patch(f"{path}/w", {"metadata": {"finalizers": None}})).expect(200)
    (await api.delete(f"{path}/w")).expect(200)


LAST_HANDLED = "kopf.zalando.org/last-handled-configuration"
