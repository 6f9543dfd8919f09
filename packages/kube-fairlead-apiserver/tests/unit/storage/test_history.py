"""What is remembered, in bytes: the history, a watcher's backlog, and the past that slow readers keep."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from kube_fairlead.base.tasks import TaskScope
from kube_fairlead_apiserver.storage.entries import Change, Entry
from kube_fairlead_apiserver.storage.history import HistoryLimits
from kube_fairlead_apiserver.storage.memory_log import MemoryLog
from kube_fairlead_apiserver.storage.selection import EVERYTHING
from kube_fairlead_apiserver.storage.snapshot_readers import EncodedFrames
from kube_fairlead_apiserver.storage.store import HistoryGone, Store


@contextlib.asynccontextmanager
async def running(log: MemoryLog, limits: HistoryLimits | None = None) -> AsyncIterator[Store]:
    store = Store(log, limits=limits)
    store.open(lambda _table, _obj: ({}, {}))
    async with TaskScope("test") as scope:
        scope.start(store.run(), name="store")
        try:
            yield store
        finally:
            store.stop()


async def put(store: Store, key: str, *, expected: int = 0) -> int:
    return (await store.put("pods", key, b'"name":"a"}}', {}, {}, expected=expected)).revision


async def test_who_is_one_change_behind_can_always_resume() -> None:
    """However large the changes are, however much happens in other tables, and whatever was compacted."""
    limits = HistoryLimits(history_bytes=10_000, few_changes=2, most_bytes=40_000)
    async with running(MemoryLog(), limits) as store:
        revision = 0
        for number in range(60):
            size = (10, 3_000, 50_000)[number % 3]
            behind = store.revision
            revision = (await store.put("pods", "ns/a", b"x" * size, {}, {}, expected=revision)).revision
            if number % 7 == 0:
                await store.compact(store.revision)
            watcher = store.watch("pods", EVERYTHING, since=behind)
            assert [entry.revision for _, entry, _ in watcher.take_nowait() if entry is not None] == [revision]
            store.unwatch("pods", watcher)
        other = 0
        for _ in range(30):
            other = (await store.put("nodes", "n", b"x" * 3_000, {}, {}, expected=other)).revision
        watcher = store.watch("pods", EVERYTHING, since=revision - 1)
        assert [entry.revision for _, entry, _ in watcher.take_nowait() if entry is not None] == [revision]
        with pytest.raises(HistoryGone):
            store.watch("nodes", EVERYTHING, since=revision)


async def test_history_is_kept_by_bytes() -> None:
    limits = HistoryLimits(history_bytes=100_000, few_changes=5, most_bytes=10**9)
    async with running(MemoryLog(), limits) as store:
        revision = 0
        for _ in range(100):
            revision = (await store.put("pods", "ns/a", b"x" * 9_000, {}, {}, expected=revision)).revision
        assert 8 <= len(store.table("pods").changes_since(store.compacted)) <= 10
        for _ in range(20):
            revision = (await store.put("pods", "ns/a", b"x" * 90_000, {}, {}, expected=revision)).revision
        assert len(store.table("pods").changes_since(store.compacted)) == 5


async def test_who_resumes_far_behind_reads_from_the_history_and_misses_nothing_meanwhile() -> None:
    async with running(MemoryLog()) as store:
        revision = 0
        for _ in range(150):
            revision = await put(store, "ns/a", expected=revision)
        watcher = store.watch("pods", EVERYTHING, since=0)
        seen: list[int] = []
        while len(seen) < 250:
            seen += [entry.revision for _, entry, _ in await watcher.take() if entry is not None]
            if revision < 250:
                revision = await put(store, "ns/a", expected=revision)
        assert seen == list(range(1, 251))


async def test_readers_that_keep_too_much_of_the_past_are_cut_off_the_slowest_first() -> None:
    limits = HistoryLimits(history_bytes=20_000, few_changes=1, retained_bytes=100_000, backlog_bytes=10**9)
    async with running(MemoryLog(), limits) as store:
        revision = (await store.put("pods", "ns/a", b"x" * 9_000, {}, {}, expected=0)).revision
        cut: list[str] = []
        slow = store.watch("pods", EVERYTHING, since=None)
        store.begin_reading(store.revision, lambda: cut.append("list"))
        for _ in range(10):
            revision = (await store.put("pods", "ns/a", b"x" * 9_000, {}, {}, expected=revision)).revision
        later = store.watch("pods", EVERYTHING, since=None)
        fast = store.watch("pods", EVERYTHING, since=None)
        assert cut == []
        while not slow.outrun:
            revision = (await store.put("pods", "ns/a", b"x" * 9_000, {}, {}, expected=revision)).revision
            while fast.take_nowait():
                pass
        assert cut == ["list"]
        assert revision < 30
        assert await slow.take() == []
        while not later.outrun:
            revision = (await store.put("pods", "ns/a", b"x" * 9_000, {}, {}, expected=revision)).revision
            while fast.take_nowait():
                pass
        assert 20 < revision < 60
        assert not fast.ended


async def test_a_reader_that_falls_behind_is_cut_off_and_resumes() -> None:
    async with running(MemoryLog(), HistoryLimits(backlog_bytes=2_000)) as store:
        watcher = store.watch("pods", EVERYTHING, since=None)
        revision = 0
        for _ in range(99):
            revision = await put(store, "ns/a", expected=revision)
        assert watcher.overrun
        assert not watcher.outrun
        seen = []
        while taken := await watcher.take():
            seen += [entry.revision for _, entry, _ in taken if entry is not None]
        assert seen == list(range(1, len(seen) + 1))
        assert 5 < len(seen) < 50
        store.unwatch("pods", watcher)
        watcher = store.watch("pods", EVERYTHING, since=seen[-1])
        while len(seen) < 99:
            seen += [entry.revision for _, entry, _ in await watcher.take() if entry is not None]
        assert seen == list(range(1, 100))


async def test_a_watcher_that_is_closed_holds_nothing_whoever_holds_on_to_it() -> None:
    async with running(MemoryLog()) as store:
        watcher = store.watch("pods", EVERYTHING, since=None)
        await put(store, "ns/a")
        assert not watcher.idle
        store.unwatch("pods", watcher)
        assert watcher.take_nowait() == []
        assert watcher.oldest is None


async def test_who_resumes_is_cut_off_when_what_it_has_not_read_is_forgotten() -> None:
    """It would otherwise go on behind the gap, and its client would never learn of what lies in it."""
    async with running(MemoryLog(), HistoryLimits(changes=10)) as store:
        revision = 0
        for _ in range(5):
            revision = await put(store, "ns/a", expected=revision)
        watcher = store.watch("pods", EVERYTHING, since=1)
        for _ in range(100):
            revision = await put(store, "ns/a", expected=revision)
        assert await watcher.take() == []
        assert (watcher.ended, watcher.outrun) == (True, True)
        with pytest.raises(HistoryGone):
            store.watch("pods", EVERYTHING, since=1)


async def test_no_bookmark_is_sent_past_changes_that_were_not() -> None:
    """A client resumes from the last bookmark that it has seen."""
    async with running(MemoryLog()) as store:
        revision = 0
        for _ in range(100):
            revision = await put(store, "ns/a", expected=revision)
        watcher = store.watch("pods", EVERYTHING, since=0)
        seen = [entry.revision for _, entry, _ in watcher.take_nowait() if entry is not None]
        assert seen[-1] < 100
        newest = store.read("pods", "ns/a")
        watcher.offer(("BOOKMARK", newest, None), 100)
        watcher.end()
        assert await watcher.take() == []


async def test_the_lines_of_a_change_do_not_keep_the_object_before_it() -> None:
    """They are counted by their own size, which may be far smaller."""
    frames = EncodedFrames(1_000_000)
    before = Entry(key="ns/a", revision=1, tail=b"x" * 1_000_000, labels={}, fields={})
    after = Entry(key="ns/a", revision=2, tail=b"x", labels={}, fields={})
    change = Change(2, before, after, after)
    frames.keep(change, ("ADDED", b""), b"line")
    held = [one for one, _ in frames._framed]
    assert held == [{("ADDED", b""): b"line"}]
    assert not any(isinstance(one, Change) for one in held)
