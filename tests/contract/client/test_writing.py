"""create, update, patch, apply and delete through the client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.base import tasks
from kube_fairlead.client.client import Client
from kube_fairlead.client.patches import JsonPatch, MergePatch, StrategicMergePatch
from kube_fairlead.client.requests import WriteOptions
from kube_fairlead_lab.testing.manifests import config_map, node, pod
from tests.contract.client.conftest import CONFIG_MAPS

NODES = GroupVersionResource("", "v1", "nodes")
PODS = GroupVersionResource("", "v1", "pods")


async def test_create(admin: Client, namespace: str) -> None:
    maps = admin.of(CONFIG_MAPS)
    made = await maps.create(config_map("a", {"k": "v"}), namespace=namespace)
    assert (made["metadata"]["namespace"], made["data"]) == (namespace, {"k": "v"})
    with pytest.raises(api_errors.AlreadyExists, match='configmaps "a" already exists'):
        await maps.create(config_map("a"), namespace=namespace)
    generated = await maps.create({"metadata": {"generateName": "x-", "namespace": namespace}})
    assert generated["metadata"]["name"].startswith("x-")


async def test_a_dry_run_changes_nothing(admin: Client, namespace: str) -> None:
    maps = admin.of(CONFIG_MAPS)
    shown = await maps.create(config_map("a"), namespace=namespace, options=WriteOptions(dry_run=True))
    assert shown["metadata"]["uid"]
    with pytest.raises(api_errors.NotFound):
        await maps.get("a", namespace=namespace)


async def test_strict_field_validation(admin: Client, namespace: str) -> None:
    wrong = {**config_map("a"), "dota": {}}
    with pytest.raises(api_errors.BadRequest, match='unknown field "dota"'):
        await admin.of(CONFIG_MAPS).create(wrong, namespace=namespace, options=WriteOptions(field_validation="Strict"))


async def test_what_breaks_rules_is_invalid(admin: Client, namespace: str) -> None:
    with pytest.raises(api_errors.Invalid) as caught:
        await admin.of(CONFIG_MAPS).create(config_map("Not A Name"), namespace=namespace)
    assert [cause["field"] for cause in caught.value.causes] == ["metadata.name"]


async def test_update_and_its_conflict(admin: Client, namespace: str) -> None:
    maps = admin.of(CONFIG_MAPS)
    made = await maps.create(config_map("a"), namespace=namespace)
    changed = await maps.update({**made, "data": {"k": "1"}})
    assert changed["data"] == {"k": "1"}
    with pytest.raises(api_errors.Conflict, match="the object has been modified"):
        await maps.update({**made, "data": {"k": "2"}})


async def test_many_writers_of_one_object_all_get_through(admin: Client, namespace: str) -> None:
    maps = admin.of(CONFIG_MAPS)
    await maps.create(config_map("a", {"count": "0"}), namespace=namespace)

    def count(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "data": {"count": str(int(item["data"]["count"]) + 1)}}

    async def work() -> None:
        for _ in range(5):
            await maps.modify("a", count, namespace=namespace, attempts=100)

    async with tasks.TaskScope("test") as scope:
        for number in range(8):
            scope.start(work(), name=f"worker-{number}")
    assert (await maps.get("a", namespace=namespace))["data"] == {"count": "40"}


@pytest.mark.parametrize(
    "patch",
    [
        JsonPatch([{"op": "test", "path": "/data/k", "value": "v"}, {"op": "add", "path": "/data/new", "value": "x"}]),
        MergePatch({"data": {"new": "x"}}),
        StrategicMergePatch({"data": {"new": "x"}}),
    ],
)
async def test_patches(admin: Client, namespace: str, patch: JsonPatch | MergePatch | StrategicMergePatch) -> None:
    maps = admin.of(CONFIG_MAPS)
    await maps.create(config_map("a", {"k": "v"}), namespace=namespace)
    assert (await maps.patch("a", patch, namespace=namespace))["data"] == {"k": "v", "new": "x"}


async def test_a_json_patch_whose_test_fails(admin: Client, namespace: str) -> None:
    maps = admin.of(CONFIG_MAPS)
    await maps.create(config_map("a", {"k": "v"}), namespace=namespace)
    with pytest.raises(api_errors.Invalid):
        await maps.patch("a", JsonPatch([{"op": "test", "path": "/data/k", "value": "w"}]), namespace=namespace)


async def test_apply_its_conflict_and_its_force(admin: Client, namespace: str) -> None:
    maps = admin.of(CONFIG_MAPS)
    mine = config_map("a", {"k": "mine"}, namespace=namespace)
    made = await maps.apply(mine, field_manager="me")
    assert made["data"] == {"k": "mine"}
    theirs = config_map("a", {"k": "theirs"}, namespace=namespace)
    with pytest.raises(api_errors.Conflict) as caught:
        await maps.apply(theirs, field_manager="them")
    assert [cause["field"] for cause in caught.value.causes] == [".data.k"]
    forced = await maps.apply(theirs, field_manager="them", force=True)
    assert forced["data"] == {"k": "theirs"}


async def test_the_status_of_an_object(admin: Client, unique_name: Callable[[str], str]) -> None:
    nodes = admin.of(NODES)
    name = unique_name("node")
    made = await nodes.create(node(name))
    try:
        condition = {"type": "Ready", "status": "True", "reason": "Test", "message": "as told"}
        changed = await nodes.update_status(
            {
                **made,
                "spec": {"unschedulable": True},
                "status": {**made.get("status", {}), "conditions": [condition]},
            }
        )
        assert changed["status"]["conditions"][0]["reason"] == "Test"
        assert "unschedulable" not in changed.get("spec", {})
        patch = StrategicMergePatch({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
        patched = await nodes.patch(name, patch, subresource="status")
        assert patched["status"]["conditions"][0]["status"] == "False"
        assert patched["status"]["conditions"][0]["reason"] == "Test"
    finally:
        await nodes.delete(name)


async def test_delete_and_its_preconditions(admin: Client, namespace: str) -> None:
    maps = admin.of(CONFIG_MAPS)
    made = await maps.create(config_map("a"), namespace=namespace)
    with pytest.raises(api_errors.Conflict):
        await maps.delete("a", namespace=namespace, uid="another")
    with pytest.raises(api_errors.Conflict):
        await maps.delete("a", namespace=namespace, resource_version="1")
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    await maps.delete("a", namespace=namespace, uid=uid, dry_run=True)
    assert await maps.delete("a", namespace=namespace, uid=uid, resource_version=version) is None
    with pytest.raises(api_errors.NotFound):
        await maps.delete("a", namespace=namespace)


async def test_a_finalizer_holds_an_object(admin: Client, namespace: str) -> None:
    maps = admin.of(CONFIG_MAPS)
    await maps.create(config_map("a", finalizers=["example.com/hold"]), namespace=namespace)
    held = await maps.delete("a", namespace=namespace, propagation_policy="Background")
    assert held is not None
    assert held["metadata"]["deletionTimestamp"]
    await maps.patch("a", MergePatch({"metadata": {"finalizers": None}}), namespace=namespace)
    with pytest.raises(api_errors.NotFound):
        await maps.get("a", namespace=namespace)


async def test_a_grace_period(admin: Client, namespace: str, unique_name: Callable[[str], str]) -> None:
    pods = admin.of(PODS)
    await pods.create(pod("p", unique_name("nowhere")), namespace=namespace)
    going = await pods.delete("p", namespace=namespace, grace_period_seconds=17)
    assert going is not None
    assert going["metadata"]["deletionGracePeriodSeconds"] == 17
    await pods.delete("p", namespace=namespace, grace_period_seconds=0)
    with pytest.raises(api_errors.NotFound):
        await pods.get("p", namespace=namespace)


async def test_delete_collection(admin: Client, namespace: str) -> None:
    maps = admin.of(CONFIG_MAPS)
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        await maps.create(config_map(name, labels={"color": color}), namespace=namespace)
    gone = await maps.delete_collection(namespace=namespace, label_selector="color=red")
    assert [item["metadata"]["name"] for item in gone.items] == ["a", "c"]
    left = await maps.list(namespace=namespace, label_selector="color")
    assert [item["metadata"]["name"] for item in left.items] == ["b"]
