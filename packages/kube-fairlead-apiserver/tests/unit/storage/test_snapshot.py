"""Snapshots: each goes on showing its moment, whatever happens to the table."""

from __future__ import annotations

import asyncio
import collections

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kube_fairlead.api.selectors import CompactLabels, parse_label_selector
from kube_fairlead.base.tasks import TaskScope
from kube_fairlead_apiserver.storage.entries import Change, Entry
from kube_fairlead_apiserver.storage.selection import EVERYTHING, Selection
from kube_fairlead_apiserver.storage.snapshot import Snapshot, SortedEntries
from kube_fairlead_apiserver.storage.table import Table, undo

KEYS = st.builds("{}/{}".format, st.sampled_from(["a", "a-b", "ab", "b"]), st.integers(0, 120))


def entry(key: str, revision: int) -> Entry:
    return Entry(key, revision, b"x", {}, {})


async def undo_at_once(changes: list[Change], snapshot: Snapshot) -> Snapshot:
    return undo(changes, snapshot)


def shown(snapshot: Snapshot, selection: Selection = EVERYTHING, after: str = "") -> list[tuple[str, int]]:
    return [(one.key, one.revision) for one in snapshot.select(selection, after=after)]


@settings(max_examples=60, deadline=None)
@given(st.lists(KEYS, max_size=400), st.lists(KEYS, max_size=20), st.sampled_from(["", "a", "ab", "c"]), KEYS)
def test_like_a_dictionary_that_is_sorted(written: list[str], asked: list[str], namespace: str, after: str) -> None:
    entries, model = SortedEntries(), dict[str, int]()
    kept: list[tuple[Snapshot, list[tuple[str, int]]]] = []
    for revision, key in enumerate(written, 1):
        if key in model and revision % 3 == 0:
            entries.remove(key)
            del model[key]
        else:
            entries.put(entry(key, revision))
            model[key] = revision
        if key in asked:
            kept.append((entries.snapshot(), sorted(model.items())))
    kept.append((entries.snapshot(), sorted(model.items())))
    for snapshot, then in kept:
        assert shown(snapshot) == then
        prefix = f"{namespace}/" if namespace else ""
        here = [pair for pair in then if pair[0].startswith(prefix)]
        behind = [pair for pair in here if pair[0] > after]
        assert shown(snapshot, Selection(namespace=namespace)) == here
        assert shown(snapshot, Selection(namespace=namespace), after) == behind
        assert snapshot.count(namespace) == len(here)
        assert snapshot.count(namespace, after=after) == len(behind)


@settings(max_examples=60, deadline=None)
@given(st.lists(KEYS, min_size=1, max_size=200), st.data())
async def test_a_table_shows_every_moment_that_it_remembers(written: list[str], data: st.DataObject) -> None:
    table, moments = Table("pods"), list[list[tuple[str, int]]]()
    moments.append([])
    for revision, key in enumerate(written, 1):
        before = table.entries.get(key)
        after = None if before is not None and revision % 3 == 0 else entry(key, revision)
        last = after or (before.at(revision) if before is not None else entry(key, revision))
        table.apply(Change(revision, before, after, last))
        moments.append(sorted((one.key, one.revision) for one in table.entries.values()))
    forgotten = data.draw(st.integers(0, len(written)))
    table.forget(forgotten)
    assert table.forgotten <= len(written) - 1
    for revision in range(table.forgotten, len(moments)):
        snapshot = await table.snapshot_at(revision, undo_at_once, user="reader")
        assert snapshot is not None
        assert shown(snapshot) == moments[revision]
    for revision in range(table.forgotten):
        assert await table.snapshot_at(revision, undo_at_once, user="reader") is None


def table_of(number: int) -> Table:
    table = Table("pods")
    for one in range(number):
        made = entry(f"ns/{one:05}", one + 1)
        table.apply(Change(one + 1, None, made, made))
    return table


class Rebuilds:
    """Rebuilds that end when the test says so, by the first revision that each undoes."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.news = asyncio.Condition()
        self._released: dict[int, asyncio.Event] = collections.defaultdict(asyncio.Event)

    async def __call__(self, changes: list[Change], snapshot: Snapshot) -> Snapshot:
        first = changes[0].revision
        async with self.news:
            self.begun.append(first)
            self.news.notify_all()
        await self._released[first].wait()
        return undo(changes, snapshot)

    async def wait_begun(self, number: int) -> None:
        async with self.news:
            await self.news.wait_for(lambda: len(self.begun) >= number)

    def release(self, first: int) -> None:
        self._released[first].set()


async def test_writes_go_on_while_a_moment_of_the_past_is_rebuilt() -> None:
    """It shows its moment all the same, and requests of one user for one moment share it."""
    table, rebuilds = table_of(3_000), Rebuilds()
    done: list[Snapshot | None] = []

    async def look() -> None:
        done.append(await table.snapshot_at(1_000, rebuilds, user="reader"))

    async with TaskScope("test") as scope:
        for _ in range(2):
            scope.start(look(), name="look")
        await rebuilds.wait_begun(1)
        before = table.entries["ns/00000"]
        after = entry("ns/00000", 3_001)
        table.apply(Change(3_001, before, after, after))
        rebuilds.release(1_001)
    first, second = done
    assert first is not None
    assert first is second
    assert rebuilds.begun == [1_001]
    assert shown(first) == [(f"ns/{number:05}", number + 1) for number in range(1_000)]


async def test_a_user_waits_for_no_rebuild_of_another_user() -> None:
    """And of its own one is carried out at a time: those that wait have taken no copy of the history."""
    table, rebuilds = table_of(100), Rebuilds()
    moments = (70, *range(10, 60))
    async with TaskScope("test") as scope:
        for moment in moments:
            scope.start(table.snapshot_at(moment, rebuilds, user="flood"), name="flood")
        await rebuilds.wait_begun(1)
        for moment in (70, 80):  # one that is being rebuilt for the other user, and one that is not
            snapshot = await table.snapshot_at(moment, undo_at_once, user="reader")
            assert snapshot is not None
            assert len(shown(snapshot)) == moment
        assert rebuilds.begun == [71]
        for moment in moments:
            rebuilds.release(moment + 1)
    assert rebuilds.begun == [moment + 1 for moment in moments]


def test_a_scan_lets_others_have_turns() -> None:
    entries = SortedEntries()
    for number in range(10_000):
        entries.put(entry(f"ns/{number:05}", 1))
    found = list(entries.snapshot().scan(Selection(name="00001")))
    assert [one.key for one in found if one is not None] == ["ns/00001"]
    assert found.count(None) >= 9


def test_readers_of_one_moment_share_it_and_readers_of_others_share_what_is_the_same() -> None:
    entries = SortedEntries()
    for number in range(10_000):
        entries.put(entry(f"ns/{number:05}", 1))
    first = entries.snapshot()
    assert entries.snapshot() is first
    entries.put(entry("ns/05000", 2))
    second = entries.snapshot()
    different = [number for number, block in enumerate(first._blocks) if second._blocks[number] is not block]
    assert len(different) == 1
    assert len(first._blocks[different[0]]) <= 128


@pytest.mark.parametrize("keys", [1000, 4000])
def test_others_have_a_turn_however_many_labels_a_selector_compares(keys: int) -> None:
    labels = {f"k{number}": "v" for number in range(2000)}
    entries = SortedEntries()
    for number in range(500):
        entries.put(Entry(f"{number:05}", number + 1, b"x", labels, {}))
    text = ",".join(f"k{number}!=w" for number in range(keys))
    selection = Selection(labels=CompactLabels(parse_label_selector(text)))
    compared = longest = 0
    for found in entries.snapshot().scan(selection):
        compared = 0 if found is None else compared + min(keys, len(labels))
        longest = max(longest, compared)
    assert longest <= 32 * 1024
