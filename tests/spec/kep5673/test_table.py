"""The design's table (the proposal's Scenario Matrix, made to work), row by row, over HTTP."""

from __future__ import annotations

import pytest

from kube_fairlead_lab.testing.manifests import success
from tests.spec.kep5673.objects import FINALIZER, Deadline, Json, Kind, near


def gone(kind: Kind, obj: Json) -> Json:
    """What a delete answers that leaves nothing to show."""
    metadata = obj["metadata"]
    return success({"name": metadata["name"], "group": kind.group, "kind": kind.plural, "uid": metadata["uid"]})


async def test_row_1_plain_delete_marks_the_object_and_says_nothing_about_grace(kind: Kind) -> None:
    await kind.create("a", FINALIZER)
    answered = (await kind.delete("a")).expect(200)
    assert answered == await kind.get("a")
    assert Deadline.of(answered) == Deadline(near(), None)


async def test_row_2_force_is_told_from_a_plain_delete(kind: Kind) -> None:
    await kind.create("a", FINALIZER)
    answered = (await kind.delete("a", 0)).expect(200)
    assert answered == await kind.get("a")
    assert Deadline.of(answered) == Deadline(near(), 0)


async def test_row_3_grace_sets_the_deadline(kind: Kind) -> None:
    await kind.create("a", FINALIZER)
    answered = (await kind.delete("a", 300)).expect(200)
    assert answered == await kind.get("a")
    assert Deadline.of(answered) == Deadline(near(300), 300)


@pytest.mark.parametrize("grace", [None, 0, 300])
async def test_rows_4_to_6_without_finalizers_it_goes_at_once(kind: Kind, grace: int | None) -> None:
    made = await kind.create("a")
    assert (await kind.delete("a", grace)).expect(200) == gone(kind, made)
    assert await kind.is_gone("a")


@pytest.mark.parametrize("first", [None, 0, 300])
async def test_row_7_a_plain_delete_again_changes_nothing(kind: Kind, first: int | None) -> None:
    await kind.create("a", FINALIZER)
    before = (await kind.delete("a", first)).expect(200)
    assert (await kind.delete("a")).expect(200) == before
    assert await kind.get("a") == before  # the resourceVersion too: nothing was written


@pytest.mark.parametrize("first", [None, 300])
async def test_row_8_force_overtakes_any_grace(kind: Kind, first: int | None) -> None:
    await kind.create("a", FINALIZER)
    await kind.delete("a", first)
    (await kind.delete("a", 0)).expect(200)
    assert await kind.deadline("a") == Deadline(near(), 0)


async def test_row_8_force_never_moves_a_deadline_that_has_passed(kind: Kind) -> None:
    await kind.create("a", FINALIZER)
    before = Deadline.of((await kind.delete("a")).expect(200))
    (await kind.delete("a", 0)).expect(200)
    assert await kind.deadline("a") == Deadline(before.stamp, 0)


async def test_row_8_force_twice_writes_once(kind: Kind) -> None:
    await kind.create("a", FINALIZER)
    before = (await kind.delete("a", 0)).expect(200)
    assert (await kind.delete("a", 0)).expect(200) == before


async def test_row_9_a_shorter_grace_shortens(kind: Kind) -> None:
    await kind.create("a", FINALIZER)
    await kind.delete("a", 300)
    answered = (await kind.delete("a", 10)).expect(200)
    assert Deadline.of(answered) == Deadline(near(10), 10)


@pytest.mark.parametrize(("first", "second"), [(300, 301), (300, 100_000), (0, 10), (None, 10)])
async def test_row_9_a_longer_grace_than_what_remains_changes_nothing(
    kind: Kind, first: int | None, second: int
) -> None:
    await kind.create("a", FINALIZER)
    before = (await kind.delete("a", first)).expect(200)
    assert (await kind.delete("a", second)).expect(200) == before


async def test_the_generation_counts_the_beginning_of_a_deletion_once(kind: Kind) -> None:
    made = await kind.create("a", FINALIZER)
    first = (await kind.delete("a", 300)).expect(200)
    second = (await kind.delete("a", 10)).expect(200)
    generations = [obj["metadata"]["generation"] for obj in (made, first, second)]
    assert generations == [1, 2, 2]
