"""Optimistic concurrency: what a resourceVersion or a uid in a request guards."""

from __future__ import annotations

import asyncio

import pytest

from kube_fairlead_lab.testing.manifests import config_map, failure
from kube_fairlead_lab.testing.rawhttp import JSON_PATCH, RawApi

MODIFIED = (
    'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
    "please apply your changes to the latest version and try again"
)
CONFLICT = failure(409, "Conflict", MODIFIED, {"name": "a", "kind": "configmaps"})


@pytest.fixture
async def path(api: RawApi, namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


async def test_put_with_an_old_version_conflicts(api: RawApi, path: str) -> None:
    made = (await api.post(path, config_map("a"))).expect(201)
    (await api.put(f"{path}/a", config_map("a", {"k": "1"}))).expect(200)
    made["data"] = {"k": "2"}
    assert (await api.put(f"{path}/a", made)).expect(409) == CONFLICT


async def test_put_with_the_current_version_succeeds(api: RawApi, path: str) -> None:
    made = (await api.post(path, config_map("a"))).expect(201)
    made["data"] = {"k": "2"}
    assert (await api.put(f"{path}/a", made)).expect(200)["data"] == {"k": "2"}


async def test_put_without_a_version_overwrites(api: RawApi, path: str) -> None:
    (await api.post(path, config_map("a", {"k": "1"}))).expect(201)
    assert (await api.put(f"{path}/a", config_map("a", {"k": "2"}))).expect(200)["data"] == {"k": "2"}


async def test_put_with_another_uid_conflicts(api: RawApi, path: str) -> None:
    (await api.post(path, config_map("a"))).expect(201)
    status = (await api.put(f"{path}/a", config_map("a", uid="other"))).expect(409)
    assert status["reason"] == "Conflict"
    assert "Precondition failed: UID in precondition: other, UID in object meta: " in status["message"]


async def test_patch_with_an_old_version_conflicts(api: RawApi, path: str) -> None:
    made = (await api.post(path, config_map("a"))).expect(201)
    (await api.patch(f"{path}/a", {"data": {"k": "1"}})).expect(200)
    guarded = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"k": "2"}}
    assert (await api.patch(f"{path}/a", guarded)).expect(409) == CONFLICT


async def test_a_failed_test_in_a_json_patch_is_unprocessable(api: RawApi, path: str) -> None:
    (await api.post(path, config_map("a", {"k": "1"}))).expect(201)
    operations = [{"op": "test", "path": "/data/k", "value": "other"}]
    status = (await api.patch(f"{path}/a", operations, JSON_PATCH)).expect(422)
    assert status["reason"] == "Invalid"
    assert status["message"] == "the server rejected our request due to an error in our request"


async def test_delete_preconditions(api: RawApi, path: str) -> None:
    made = (await api.post(path, config_map("a"))).expect(201)
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    by_uid = (await api.delete(f"{path}/a", {"preconditions": {"uid": "other"}})).expect(409)
    assert by_uid["reason"] == "Conflict"
    assert by_uid["message"] == (
        'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (other) does not match the UID '
        f"in record ({uid}). The object might have been deleted and then recreated"
    )
    by_version = (await api.delete(f"{path}/a", {"preconditions": {"resourceVersion": "1"}})).expect(409)
    assert by_version["message"] == (
        'Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition (1) does not match '
        f"the ResourceVersion in record ({version}). The object might have been modified"
    )
    (await api.delete(f"{path}/a", {"preconditions": {"uid": uid, "resourceVersion": version}})).expect(200)


async def test_concurrent_patches_all_land(api: RawApi, path: str) -> None:
    (await api.post(path, config_map("a"))).expect(201)
    answers = await asyncio.gather(*(api.patch(f"{path}/a", {"data": {f"k{n}": "x"}}) for n in range(20)))
    assert {answer.code for answer in answers} == {200}
    final = (await api.get(f"{path}/a")).expect(200)
    assert len(final["data"]) == 20


async def test_concurrent_guarded_puts_let_exactly_one_through(api: RawApi, path: str) -> None:
    made = (await api.post(path, config_map("a"))).expect(201)
    answers = await asyncio.gather(*(api.put(f"{path}/a", {**made, "data": {"by": str(n)}}) for n in range(10)))
    codes = sorted(answer.code for answer in answers)
    assert codes == [200] + [409] * 9


async def test_versions_increase_across_kinds(api: RawApi, namespace: str, path: str) -> None:
    first = (await api.post(path, config_map("a"))).expect(201)
    second = (await api.post(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "s"}})).expect(201)
    third = (await api.patch(f"{path}/a", {"data": {"k": "v"}})).expect(200)
    versions = [int(made["metadata"]["resourceVersion"]) for made in (first, second, third)]
    assert versions == sorted(set(versions))
