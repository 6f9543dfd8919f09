"""Everything else that a delete may say, together with a grace period."""

from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5673.objects import FINALIZER, Deadline, Json, Kind, define, near


@pytest.mark.parametrize("grace", [-1, -300, -(2**63)])
async def test_negative_grace_counts_as_one_second(kind: Kind, grace: int) -> None:
    await kind.create("a", FINALIZER)
    (await kind.delete("a", grace)).expect(200)
    assert await kind.deadline("a") == Deadline(near(1), 1)


async def test_a_very_large_grace_is_as_late_as_can_be_said(kind: Kind) -> None:
    await kind.create("a", FINALIZER)
    (await kind.delete("a", 2**63 - 1)).expect(200)
    metadata = (await kind.get("a"))["metadata"]
    assert metadata["deletionTimestamp"] == "9999-12-31T23:59:59Z"
    assert metadata["deletionGracePeriodSeconds"] == 2**63 - 1
    (await kind.delete("a", 5)).expect(200)
    assert await kind.deadline("a") == Deadline(near(5), 5)


@pytest.mark.parametrize("grace", ["30", "soon", 1.5, 2**63, -(2**63) - 1, True, [30], {"seconds": 30}])
async def test_a_grace_that_is_no_int64_is_refused(kind: Kind, grace: object) -> None:
    made = await kind.create("a", FINALIZER)
    status = (await kind.delete("a", grace)).expect(422)
    assert status["reason"] == "Invalid"
    assert status["message"].startswith('DeleteOptions.meta.k8s.io "" is invalid: gracePeriodSeconds: Invalid value: ')
    assert await kind.get("a") == made
    status = (await kind.api.delete(kind.path(), {"gracePeriodSeconds": grace})).expect(422)
    assert await kind.get("a") == made


async def test_grace_in_the_query(kind: Kind) -> None:
    await kind.create("a", FINALIZER)
    (await kind.api.delete(kind.path("a"), gracePeriodSeconds=60)).expect(200)
    assert await kind.deadline("a") == Deadline(near(60), 60)


async def test_a_wrong_uid_changes_nothing(kind: Kind) -> None:
    made = await kind.create("a", FINALIZER)
    status = (await kind.delete("a", 30, preconditions={"uid": "0-0-0"})).expect(409)
    assert "the UID in the precondition (0-0-0) does not match" in status["message"]
    assert await kind.get("a") == made
    (await kind.delete("a", 30, preconditions={"uid": made["metadata"]["uid"]})).expect(200)
    assert await kind.deadline("a") == Deadline(near(30), 30)


async def test_a_wrong_version_changes_nothing(kind: Kind) -> None:
    made = await kind.create("a", FINALIZER)
    old = made["metadata"]["resourceVersion"]
    deleted = (await kind.delete("a", 300, preconditions={"resourceVersion": old})).expect(200)
    status = (await kind.delete("a", 10, preconditions={"resourceVersion": old})).expect(409)
    assert f"the ResourceVersion in the precondition ({old}) does not match" in status["message"]
    assert await kind.get("a") == deleted
    version = deleted["metadata"]["resourceVersion"]
    (await kind.delete("a", 10, preconditions={"resourceVersion": version})).expect(200)
    assert await kind.deadline("a") == Deadline(near(10), 10)


@pytest.mark.parametrize("first", [None, 300])
async def test_dry_run_shows_what_would_be_and_writes_nothing(kind: Kind, first: int | None) -> None:
    before = await kind.create("a", FINALIZER)
    if first is not None:
        before = (await kind.delete("a", first)).expect(200)
    shown = (await kind.delete("a", 10, dryRun=["All"])).expect(200)
    assert Deadline.of(shown) == Deadline(near(10), 10)
    assert await kind.get("a") == before
    shown = (await kind.delete("a", 0, dryRun=["All"])).expect(200)
    assert Deadline.of(shown) == Deadline(near(), 0)
    assert await kind.get("a") == before


async def test_dry_run_without_finalizers(kind: Kind) -> None:
    made = await kind.create("a")
    assert (await kind.delete("a", 10, dryRun=["All"])).expect(200)["status"] == "Success"
    assert await kind.get("a") == made


@pytest.mark.parametrize(
    ("options", "finalizer"),
    [
        ({"propagationPolicy": "Foreground"}, "foregroundDeletion"),
        ({"propagationPolicy": "Orphan"}, "orphan"),
        ({"orphanDependents": True}, "orphan"),
    ],
)
async def test_finalizers_count_after_the_policys_own_are_added(kind: Kind, options: Json, finalizer: str) -> None:
    # The garbage collector takes its finalizer away when it is done, so what was answered is what counts.
    await kind.create("a")
    answered = (await kind.delete("a", 30, **options)).expect(200)
    assert answered["metadata"]["finalizers"] == [finalizer]
    assert Deadline.of(answered) == Deadline(near(30), 30)
    await kind.api.poll(kind.path("a"), lambda answer: answer.code == 404)


async def test_the_garbage_collector_waits_for_others_not_for_the_deadline(kind: Kind) -> None:
    await kind.create("a", FINALIZER)
    (await kind.delete("a", 300, propagationPolicy="Foreground")).expect(200)
    await kind.api.poll(kind.path("a"), lambda answer: answer.json["metadata"].get("finalizers") == [FINALIZER])
    assert await kind.deadline("a") == Deadline(near(300), 300)
    await kind.set_finalizers("a")
    assert await kind.is_gone("a")


async def test_dependents_of_a_graceful_deletion_go_as_ever(kind: Kind) -> None:
    owner = await kind.create("owner", FINALIZER)
    reference = {
        "apiVersion": f"{kind.group}/v1",
        "kind": kind.kind,
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    await kind.create("dependent", ownerReferences=[reference])
    (await kind.delete("owner", 300, propagationPolicy="Foreground")).expect(200)
    await kind.api.poll(kind.path("dependent"), lambda answer: answer.code == 404)
    assert await kind.deadline("owner") == Deadline(near(300), 300)


async def test_a_collection(kind: Kind) -> None:
    """deletecollection applies the table to every object in it by itself."""
    await kind.create("free")
    await kind.create("fresh", FINALIZER)
    for name, grace in {"plain": None, "forced": 0, "short": 10, "long": 900}.items():
        await kind.create(name, FINALIZER)
        await kind.delete(name, grace)
    before = {name: await kind.deadline(name) for name in ("plain", "forced", "short")}
    listed = (await kind.api.delete(kind.path(), {"gracePeriodSeconds": 300})).expect(200)
    assert len(listed["items"]) == 6
    assert await kind.is_gone("free")
    assert await kind.deadline("fresh") == Deadline(near(300), 300)
    assert await kind.deadline("long") == Deadline(near(300), 300)
    assert {name: await kind.deadline(name) for name in before} == before
    (await kind.api.delete(kind.path(), {"gracePeriodSeconds": 0})).expect(200)
    assert {(await kind.deadline(name)).seconds for name in ("fresh", "long", "plain", "forced", "short")} == {0}


async def test_a_selected_part_of_a_collection(kind: Kind) -> None:
    for name in ("a", "b"):
        await kind.create(name, FINALIZER, labels={"name": name})
    (await kind.api.delete(kind.path(), {"gracePeriodSeconds": 30}, labelSelector="name=a")).expect(200)
    assert await kind.deadline("a") == Deadline(near(30), 30)
    assert "deletionTimestamp" not in (await kind.get("b"))["metadata"]


async def test_a_collection_dry(kind: Kind) -> None:
    made = await kind.create("a", FINALIZER)
    (await kind.api.delete(kind.path(), {"gracePeriodSeconds": 30, "dryRun": ["All"]})).expect(200)
    assert await kind.get("a") == made


@pytest.mark.parametrize("manager", ["replace", "patch", "apply"])
async def test_nobody_but_a_delete_moves_the_deadline(kind: Kind, manager: str) -> None:
    await kind.create("a", FINALIZER)
    before = (await kind.delete("a", 300)).expect(200)
    changed: Json = {"deletionTimestamp": "2126-01-01T00:00:00Z", "deletionGracePeriodSeconds": 9000}
    if manager == "replace":
        answer = await kind.api.put(kind.path("a"), {**before, "metadata": {**before["metadata"], **changed}})
    elif manager == "patch":
        answer = await kind.api.patch(kind.path("a"), {"metadata": changed})
    else:
        applied = {"apiVersion": f"{kind.group}/v1", "kind": kind.kind, "metadata": {"name": "a", **changed}}
        answer = await kind.api.apply(kind.path("a"), applied, "test")
    assert answer.code in {200, 422}
    assert await kind.deadline("a") == Deadline.of(before)


async def test_no_new_finalizer_while_it_is_deleted(kind: Kind) -> None:
    await kind.create("a", FINALIZER)
    await kind.delete("a", 300)
    patch = {"metadata": {"finalizers": [FINALIZER, "example.com/late"]}}
    status = (await kind.api.patch(kind.path("a"), patch)).expect(422)
    assert "no new finalizers can be added if the object is being deleted" in status["message"]


async def test_every_served_version_and_scope(api: RawApi, namespace: str, unique_name: Any) -> None:
    """No opt-in: a definition says nothing about grace periods, and they work."""
    kind = await define(api, f"{unique_name('g')}.example.com", namespace, scope="Cluster")
    path = f"/apis/{kind.group}/v1/machines"
    machine = {
        "apiVersion": f"{kind.group}/v1",
        "kind": "Machine",
        "metadata": {"name": "a", "finalizers": [FINALIZER]},
    }
    (await api.post(path, machine)).expect(201)
    (await api.delete(f"{path}/a", {"gracePeriodSeconds": 30})).expect(200)
    assert Deadline.of((await api.get(f"{path}/a")).expect(200)) == Deadline(near(30), 30)
    (await api.patch(f"{path}/a", {"metadata": {"finalizers": None}})).expect(200)
    (await api.get(f"{path}/a")).expect(404)
