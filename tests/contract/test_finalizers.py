"""Finalizers hold a deleted object until the last of them is removed."""

from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.rawhttp import RawApi


@pytest.fixture
async def path(api: RawApi, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    (await api.post(path, config_map("a", finalizers=["example.com/one", "example.com/two"]))).expect(201)
    return f"{path}/a"


async def release(api: RawApi, path: str, finalizers: list[str] | None = None) -> dict[str, Any]:
    return (await api.patch(path, {"metadata": {"finalizers": finalizers}})).expect(200)


async def test_delete_marks(api: RawApi, path: str) -> None:
    marked = (await api.delete(path)).expect(200)
    assert marked["kind"] == "ConfigMap"
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert (await api.get(path)).expect(200) == marked
    await release(api, path)


async def test_deleting_again_changes_nothing(api: RawApi, path: str) -> None:
    marked = (await api.delete(path)).expect(200)
    again = (await api.delete(path)).expect(200)
    assert again["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"]
    await release(api, path)


async def test_the_last_finalizer_gone_removes_it(api: RawApi, path: str) -> None:
    collection = path.rpartition("/")[0]
    marked = (await api.delete(path)).expect(200)
    async with api.watch(collection, resourceVersion=marked["metadata"]["resourceVersion"]) as watch:
        await release(api, path, ["example.com/two"])
        assert (await watch.next())["type"] == "MODIFIED"
        last = await release(api, path)
        assert "finalizers" not in last["metadata"]
        event = await watch.next()
    assert event["type"] == "DELETED"
    (await api.get(path)).expect(404)


async def test_an_update_can_remove_the_last_one_too(api: RawApi, path: str) -> None:
    marked = (await api.delete(path)).expect(200)
    del marked["metadata"]["finalizers"]
    (await api.put(path, marked)).expect(200)
    (await api.get(path)).expect(404)


async def test_none_can_be_added_to_what_is_going(api: RawApi, path: str) -> None:
    (await api.delete(path)).expect(200)
    status = (await api.patch(path, {"metadata": {"finalizers": ["example.com/one", "example.com/new"]}})).expect(422)
    assert status["message"] == (
        'ConfigMap "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is '
        'being deleted, found new finalizers []string{"example.com/new"}'
    )
    await release(api, path)


async def test_deletion_marks_cannot_be_written(api: RawApi, path: str) -> None:
    body = {"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}}
    status = (await api.patch(path, body)).expect(422)
    assert status["message"] == (
        'ConfigMap "a" is invalid: [metadata.deletionTimestamp: Invalid value: "2030-01-01T00:00:00Z": field is '
        "immutable, metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable]"
    )
    assert "deletionTimestamp" not in (await api.get(path)).expect(200)["metadata"]


async def test_a_deletion_cannot_be_taken_back(api: RawApi, path: str) -> None:
    marked = (await api.delete(path)).expect(200)
    kept = (await api.patch(path, {"metadata": {"deletionTimestamp": None}})).expect(200)
    assert kept["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    await release(api, path)


async def test_other_fields_can_still_change(api: RawApi, path: str) -> None:
    (await api.delete(path)).expect(200)
    assert (await api.patch(path, {"data": {"k": "v"}})).expect(200)["data"] == {"k": "v"}
    await release(api, path)


async def test_creating_one_of_the_same_name_meanwhile(api: RawApi, path: str) -> None:
    (await api.delete(path)).expect(200)
    status = (await api.post(path.rpartition("/")[0], config_map("a"))).expect(409)
    assert status["reason"] == "AlreadyExists"
    assert status["message"].startswith('object is being deleted: configmaps "a" already exists')
    await release(api, path)


async def test_a_finalizer_must_be_qualified(api: RawApi, path: str) -> None:
    status = (await api.patch(path, {"metadata": {"finalizers": ["not/a/name"]}})).expect(422)
    assert status["details"]["causes"][0]["field"] == "metadata.finalizers"
    await release(api, path)


async def test_a_finalizer_of_a_built_in_object_has_a_domain(api: RawApi, path: str) -> None:
    for finalizers in (["orphan"], ["foregroundDeletion"], ["example.com/one"]):
        await release(api, path, finalizers)
    status = (await api.patch(path, {"metadata": {"finalizers": ["example.com/one", "hold"]}})).expect(422)
    problem = 'Invalid value: "hold": name is neither a standard finalizer name nor is it fully qualified'
    causes = [{"reason": "FieldValueInvalid", "message": problem, "field": "metadata.finalizers[1]"}]
    # kube-apiserver says it twice when it is an update
    assert [cause for cause in status["details"]["causes"] if cause in causes][:1] == causes
    status = (await api.post(path.rpartition("/")[0], config_map("b", finalizers=["hold"]))).expect(422)
    assert status["message"] == f'ConfigMap "b" is invalid: metadata.finalizers[0]: {problem}'
    await release(api, path)
