"""The six integration tests of the proposal's test plan, by their names there."""

from __future__ import annotations

from tests.spec.kep5673.objects import FINALIZER, Deadline, Kind, near


async def test_basic_graceful_deletion(kind: Kind) -> None:
    await kind.create("a", FINALIZER)
    (await kind.delete("a", 30)).expect(200)
    assert await kind.deadline("a") == Deadline(near(30), 30)
    await kind.set_finalizers("a")  # before the grace period expires
    assert await kind.is_gone("a")


async def test_force_deletion(kind: Kind) -> None:
    await kind.create("a", FINALIZER)
    (await kind.delete("a", 0)).expect(200)
    assert (await kind.get("a"))["metadata"]["deletionGracePeriodSeconds"] == 0
    await kind.set_finalizers("a")
    assert await kind.is_gone("a")


async def test_grace_period_update(kind: Kind) -> None:
    await kind.create("a", FINALIZER)
    (await kind.delete("a", 60)).expect(200)
    (await kind.delete("a", 10)).expect(200)
    shortened = await kind.deadline("a")
    assert shortened == Deadline(near(10), 10)
    (await kind.delete("a", 30)).expect(200)
    assert await kind.deadline("a") == shortened  # not extended


async def test_no_finalizers(kind: Kind) -> None:
    await kind.create("a")
    async with kind.api.watch(
        kind.path(), resourceVersion=(await kind.get("a"))["metadata"]["resourceVersion"]
    ) as watch:
        answered = (await kind.delete("a", 30)).expect(200)
        last = await watch.next()
    assert answered["status"] == "Success"
    # Not even its last state, which watchers are shown, says that there was a grace period.
    assert last["type"] == "DELETED"
    assert "deletionGracePeriodSeconds" not in last["object"]["metadata"]
    assert await kind.is_gone("a")


async def test_finalizer_removal_during_grace_period(kind: Kind) -> None:
    """The proposal waits for five seconds first; on virtual time test_property.py does, and much longer."""
    await kind.create("a", FINALIZER)
    (await kind.delete("a", 60)).expect(200)
    await kind.set_finalizers("a")
    assert await kind.is_gone("a")


async def test_multiple_finalizers(kind: Kind) -> None:
    await kind.create("a", FINALIZER, "example.com/second")
    deleted = Deadline.of((await kind.delete("a", 30)).expect(200))
    await kind.set_finalizers("a", "example.com/second")
    assert await kind.deadline("a") == deleted
    await kind.set_finalizers("a")
    assert await kind.is_gone("a")
