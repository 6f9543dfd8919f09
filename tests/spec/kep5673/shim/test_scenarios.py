"""What a controller can rely on, on both: told in terms of `kube_fairlead.grace`, whoever keeps the grace period."""

from __future__ import annotations

import pytest

from kube_fairlead import grace
from kube_fairlead.base.tasks import TaskScope
from tests.spec.kep5673.objects import FINALIZER, near
from tests.spec.kep5673.shim.keeping import Shimmed


async def test_graceful(shimmed: Shimmed) -> None:
    await shimmed.kind.create("a", FINALIZER)
    assert await shimmed.seen("a") is None
    (await shimmed.kind.delete("a", 300)).expect(200)
    known = await shimmed.known("a")
    assert (known.requested, known.forced, known.deadline) == (300, False, near(300))
    assert known.asked_at == near()


async def test_forced(shimmed: Shimmed) -> None:
    await shimmed.kind.create("a", FINALIZER)
    (await shimmed.kind.delete("a", 0)).expect(200)
    known = await shimmed.known("a")
    assert (known.requested, known.forced, known.deadline) == (0, True, near())


async def test_plain_names_no_deadline_and_is_not_forced(shimmed: Shimmed) -> None:
    await shimmed.kind.create("a", FINALIZER)
    (await shimmed.kind.delete("a")).expect(200)
    known = await shimmed.known("a")
    assert (known.requested, known.deadline) == (None, None)
    assert not known.forced
    assert known.asked_at == near()


async def test_shorter_only(shimmed: Shimmed) -> None:
    await shimmed.kind.create("a", FINALIZER)
    (await shimmed.kind.delete("a", 300)).expect(200)
    (await shimmed.kind.delete("a", 60)).expect(200)
    known = await shimmed.known("a")
    assert (known.requested, known.deadline) == (60, near(60))
    for later in (100, 300, None):
        (await shimmed.kind.delete("a", later)).expect(200)
        assert await shimmed.seen("a") == known
    (await shimmed.kind.delete("a", 0)).expect(200)
    known = await shimmed.known("a")
    assert (known.requested, known.forced, known.deadline) == (0, True, near())
    (await shimmed.kind.delete("a", 300)).expect(200)
    assert await shimmed.seen("a") == known


async def test_after_a_plain_delete_there_is_no_time_left_to_grant(shimmed: Shimmed) -> None:
    await shimmed.kind.create("a", FINALIZER)
    await shimmed.kind.delete("a")
    (await shimmed.kind.delete("a", 300)).expect(200)
    assert (await shimmed.known("a")).deadline is None
    (await shimmed.kind.delete("a", 0)).expect(200)
    assert (await shimmed.known("a")).forced is True


async def test_a_second_is_not_force(shimmed: Shimmed) -> None:
    """`kubectl delete --now`, and `--grace-period=0` without `--force`."""
    await shimmed.kind.create("a", FINALIZER)
    (await shimmed.kind.delete("a", 1)).expect(200)
    known = await shimmed.known("a")
    assert (known.requested, known.forced, known.deadline) == (1, False, near(1))


async def test_negative_counts_as_one(shimmed: Shimmed) -> None:
    await shimmed.kind.create("a", FINALIZER)
    (await shimmed.kind.delete("a", -30)).expect(200)
    assert (await shimmed.known("a")).requested == 1


async def test_without_finalizers_it_goes_at_once(shimmed: Shimmed) -> None:
    await shimmed.kind.create("a")
    (await shimmed.kind.delete("a", 300)).expect(200)
    assert await shimmed.kind.is_gone("a")


async def test_last_finalizer_gone_is_gone(shimmed: Shimmed) -> None:
    await shimmed.kind.create("a", FINALIZER)
    await shimmed.kind.delete("a", 300)
    await shimmed.kind.set_finalizers("a")
    assert await shimmed.kind.is_gone("a")


@pytest.mark.parametrize("deleting", [False, True])
async def test_dry_run_writes_nothing(shimmed: Shimmed, deleting: bool) -> None:
    before = await shimmed.kind.create("a", FINALIZER)
    if deleting:
        await shimmed.kind.delete("a", 300)
        before = await shimmed.kind.get("a")
    (await shimmed.kind.delete("a", 10, dryRun=["All"])).expect(200)
    assert await shimmed.kind.get("a") == before


async def test_uid_precondition(shimmed: Shimmed) -> None:
    made = await shimmed.kind.create("a", FINALIZER)
    uid = made["metadata"]["uid"]
    (await shimmed.kind.delete("a", 30, preconditions={"uid": "0-0-0"})).expect(409)
    assert await shimmed.seen("a") is None
    (await shimmed.kind.delete("a", 30, preconditions={"uid": uid})).expect(200)
    assert (await shimmed.known("a")).requested == 30


async def test_a_collection(shimmed: Shimmed) -> None:
    await shimmed.kind.create("free")
    for name in ("a", "b", "c"):
        await shimmed.kind.create(name, FINALIZER)
    await shimmed.kind.delete("c", 10)
    (await shimmed.kind.api.delete(shimmed.kind.path(), {"gracePeriodSeconds": 300})).expect(200)
    assert await shimmed.kind.is_gone("free")
    assert [(await shimmed.known(name)).requested for name in ("a", "b", "c")] == [300, 300, 10]


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
async def test_finalizers_of_the_policy_count(shimmed: Shimmed, policy: str) -> None:
    await shimmed.kind.create("a")
    path = shimmed.kind.path("a")
    async with shimmed.kind.api.watch(shimmed.kind.path(), fieldSelector="metadata.name=a") as watch:
        (await shimmed.kind.delete("a", 300, propagationPolicy=policy)).expect(200)
        last = await watch.until(lambda event: event["type"] == "DELETED")
    known = grace.read(last["object"], native=shimmed.native)
    assert known is not None
    assert known.requested == 300
    assert (await shimmed.kind.api.get(path)).code == 404


async def test_many_deletes_at_once_end_at_the_shortest(shimmed: Shimmed) -> None:
    await shimmed.kind.create("a", FINALIZER)

    async def delete(seconds: int) -> None:
        (await shimmed.kind.delete("a", seconds)).expect(200)

    async with TaskScope("deletes") as scope:
        for seconds in (600, 60, 500, 50, 400, 40, 300, 30):
            scope.start(delete(seconds), name=str(seconds))
    known = await shimmed.known("a")
    assert (known.requested, known.deadline) == (30, near(30))


async def test_an_object_that_changes_all_the_time(shimmed: Shimmed) -> None:
    await shimmed.kind.create("a", FINALIZER)

    async def write() -> None:
        for size in range(100):
            (await shimmed.kind.api.patch(shimmed.kind.path("a"), {"spec": {"size": size}})).expect(200)

    async with TaskScope("writer") as scope:
        scope.start(write(), name="write")
        for seconds in (500, 400, 300):
            (await shimmed.kind.delete("a", seconds)).expect(200)
    assert (await shimmed.known("a")).requested == 300
