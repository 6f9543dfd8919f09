"""The store: order, visibility, concurrency, history."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from kube_fairlead.api.selectors import parse_field_selector, parse_label_selector
from kube_fairlead.base.tasks import TaskScope
from kube_fairlead_apiserver.storage.entries import HEAD, Change, Origin
from kube_fairlead_apiserver.storage.history import HistoryLimits
from kube_fairlead_apiserver.storage.interface import DiskFull, Row
from kube_fairlead_apiserver.storage.memory_log import MemoryLog
from kube_fairlead_apiserver.storage.selection import EVERYTHING, Selection
from kube_fairlead_apiserver.storage.snapshot import Snapshot
from kube_fairlead_apiserver.storage.store import HistoryGone, Store, StoreStopped, WriteConflict
from kube_fairlead_apiserver.storage.table import undo
from kube_fairlead_apiserver.storage.watchers import Watcher


class GatedLog(MemoryLog):
    """A log whose disk can be held up, and can be full."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.full = False
        self.nearly_full = False  # deletions fit
        self.batches: list[int] = []

    async def append(self, rows: Sequence[Row]) -> None:
        await self.gate.wait()
        if self.full or (self.nearly_full and any(row.value is not None for row in rows)):
            raise DiskFull("no room")
        self.batches.append(len(rows))
        await super().append(rows)


def index(_table: str, obj: Mapping[str, Any]) -> tuple[Mapping[str, str], Mapping[str, str]]:
    return obj["metadata"].get("labels") or {}, {"node": obj.get("node", "")}


@contextlib.asynccontextmanager
async def running(log: MemoryLog, limits: HistoryLimits | None = None) -> AsyncIterator[Store]:
    store = Store(log, limits=limits)
    store.open(index)
    async with TaskScope("test") as scope:
        scope.start(store.run(), name="store")
        try:
            yield store
        finally:
            store.stop()


async def put(store: Store, key: str, *, expected: int = 0, labels: str = "", node: str = "") -> int:
    marks = {labels: "yes"} if labels else {}
    value = msgspec.json.encode({"metadata": {"name": key, "labels": marks}, "node": node})
    entry = await store.put("pods", key, value[len(HEAD) :], marks, {"node": node}, expected=expected)
    return entry.revision


async def taken(watcher: Watcher) -> list[tuple[str, str]]:
    return [(kind, entry.key) for kind, entry, _ in await watcher.take() if entry is not None]


async def test_nothing_is_visible_before_it_is_durable() -> None:
    log = GatedLog()
    async with running(log) as store:
        log.gate.clear()
        watcher = store.watch("pods", EVERYTHING, since=0)
        writing = asyncio.ensure_future(put(store, "ns/a"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert store.read("pods", "ns/a") is None
        newest = store.newest("pods", "ns/a")
        assert newest is not None
        assert newest.revision == 1
        log.gate.set()
        assert await writing == 1
        assert store.read("pods", "ns/a") is not None
        assert await taken(watcher) == [("ADDED", "ns/a")]


async def test_writers_that_wait_together_share_a_commit() -> None:
    log = GatedLog()
    async with running(log) as store:
        log.gate.clear()
        writes = [asyncio.ensure_future(put(store, f"ns/{n}")) for n in range(40)]
        for _ in range(3):
            await asyncio.sleep(0)
        log.gate.set()
        revisions = [await write for write in writes]
        assert revisions == sorted(revisions)
        assert len(log.batches) <= 2


async def test_a_write_builds_on_the_newest_state_even_if_it_is_not_durable_yet() -> None:
    log = GatedLog()
    async with running(log) as store:
        log.gate.clear()
        first = asyncio.ensure_future(put(store, "ns/a"))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(put(store, "ns/a", expected=1))
        with pytest.raises(WriteConflict):
            await put(store, "ns/a", expected=0)
        log.gate.set()
        assert (await first, await second) == (1, 2)


async def test_a_full_disk_fails_what_waits_and_what_builds_on_it_and_takes_nothing_back() -> None:
    log = GatedLog()
    async with running(log) as store:
        await put(store, "ns/old")
        log.gate.clear()
        log.full = True
        first = asyncio.ensure_future(put(store, "ns/a"))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(put(store, "ns/a", expected=2))
        await asyncio.sleep(0)
        log.gate.set()
        for write in (first, second):
            with pytest.raises(DiskFull):
                await write
        assert store.newest("pods", "ns/a") is None
        assert store.read("pods", "ns/old") is not None
        log.full = False
        with pytest.raises(DiskFull):
            await put(store, "ns/a")
        await store.make_room()
        revision = await put(store, "ns/a")
        assert store.revision == revision


async def test_a_full_disk_takes_the_deletions_that_wait_and_refuses_what_they_do_not_need() -> None:
    log = GatedLog()
    async with running(log) as store:
        old, other = await put(store, "ns/old"), await put(store, "ns/other")
        log.gate.clear()
        log.nearly_full = True
        begun = asyncio.ensure_future(put(store, "ns/first"))
        await asyncio.sleep(0)
        created = asyncio.ensure_future(put(store, "ns/a"))
        await asyncio.sleep(0)
        changed = asyncio.ensure_future(put(store, "ns/other", expected=other))
        await asyncio.sleep(0)
        newest = store.newest("pods", "ns/other")
        assert newest is not None
        deletions = [
            asyncio.ensure_future(store.remove("pods", "ns/old", expected=old)),
            asyncio.ensure_future(store.remove("pods", "ns/other", expected=newest.revision)),
        ]
        await asyncio.sleep(0)
        recreated = asyncio.ensure_future(put(store, "ns/old"))
        await asyncio.sleep(0)
        log.gate.set()
        for refused in (begun, created, changed, deletions[1], recreated):
            with pytest.raises(DiskFull):
                await refused
        await deletions[0]
        assert store.read("pods", "ns/old") is None
        assert store.newest("pods", "ns/old") is None
        await store.remove("pods", "ns/other", expected=other)
        assert store.shortage == "no room"
        await store.wait_short()


async def test_the_first_write_that_finds_the_disk_full_may_be_a_deletion() -> None:
    """The log gives its reserve up and raises: what frees room has room now."""

    class Reserved(MemoryLog):
        reserve = True

        async def append(self, rows: Sequence[Row]) -> None:
            if self.reserve and any(row.value is None for row in rows):
                self.reserve = False
                raise DiskFull("no room")
            await super().append(rows)

    async with running(Reserved()) as store:
        old = await put(store, "ns/old")
        await store.remove("pods", "ns/old", expected=old)
        assert store.read("pods", "ns/old") is None
        assert store.shortage == "no room"


async def test_what_one_change_supersedes_is_dropped_in_one_piece() -> None:
    """The log stays readable after each piece, so it does after a crash between two of them."""

    class Reread(MemoryLog):
        pieces = 0

        async def compact(self, revision: int, superseded: Sequence[int]) -> None:
            await super().compact(revision, superseded)
            self.pieces += 1
            Store(self).open(index)

    log = Reread()
    async with running(log) as store:
        for number in range(700):
            revision = await put(store, f"ns/{number % 7}")
            await store.remove("pods", f"ns/{number % 7}", expected=revision)
        await put(store, "ns/kept")
        await store.compact(store.revision)
    assert log.pieces > 4
    assert [row.key for row in log.load()[1]] == ["ns/kept"]


async def test_a_watch_resumes_where_it_was_and_sees_each_change_once() -> None:
    async with running(MemoryLog()) as store:
        first = await put(store, "ns/a")
        second = await put(store, "ns/a", expected=first)
        watcher = store.watch("pods", EVERYTHING, since=first)
        await store.remove("pods", "ns/a", expected=second)
        seen = [(kind, entry.revision) for kind, entry, _ in await watcher.take() if entry is not None]
        assert seen == [("MODIFIED", 2), ("DELETED", 3)]


async def test_a_reader_without_room_is_called_for_the_end_only_and_misses_nothing() -> None:
    async with running(MemoryLog()) as store:
        watcher = store.watch("pods", EVERYTHING, since=None)
        calls: list[int] = []
        watcher.listen(lambda: calls.append(store.revision))
        watcher.muted = True
        for name in "abc":
            await put(store, f"ns/{name}")
        await asyncio.sleep(0)
        assert calls == []
        watcher.muted = False
        await put(store, "ns/d")
        await asyncio.sleep(0)
        assert calls == [4]
        assert [entry.key for _, entry, _ in watcher.take_nowait() if entry] == ["ns/a", "ns/b", "ns/c", "ns/d"]
        watcher.muted = True
        watcher.end()
        await asyncio.sleep(0)
        assert calls == [4, 4]


async def test_an_object_that_leaves_a_selection_is_deleted_for_its_watcher() -> None:
    async with running(MemoryLog()) as store:
        red = Selection(labels=parse_label_selector("red"))
        watcher = store.watch("pods", red, since=None)
        first = await put(store, "ns/a", labels="red")
        second = await put(store, "ns/a", expected=first)
        await put(store, "ns/a", expected=second, labels="red")
        seen = [(kind, entry.revision) for kind, entry, _ in await watcher.take() if entry is not None]
        assert seen == [("ADDED", 1), ("DELETED", 2), ("ADDED", 3)]


async def test_a_watch_of_one_node_hears_of_that_node_only_and_of_pods_that_leave_it() -> None:
    async with running(MemoryLog()) as store:
        mine = Selection(fields=parse_field_selector("node=n1"), indexed_field=("node", "n1"))
        watcher = store.watch("pods", mine, since=None)
        await put(store, "ns/other", node="n2")
        first = await put(store, "ns/a", node="n1")
        await put(store, "ns/a", expected=first, node="n2")
        assert await taken(watcher) == [("ADDED", "ns/a"), ("DELETED", "ns/a")]


async def test_history_that_is_gone_says_so() -> None:
    async with running(MemoryLog()) as store:
        revision = 0
        for _ in range(3):
            revision = await put(store, "ns/a", expected=revision)
        await store.compact(store.revision)
        with pytest.raises(HistoryGone, match=r"too old resource version: 1 \(2\)"):
            store.watch("pods", EVERYTHING, since=1)
        store.watch("pods", EVERYTHING, since=store.revision)


async def test_history_is_bounded_in_memory() -> None:
    async with running(MemoryLog(), HistoryLimits(changes=10)) as store:
        revision = 0
        for _ in range(50):
            revision = await put(store, "ns/a", expected=revision)
        assert store.compacted == 40
        assert len(store.table("pods").changes_since(40)) == 10


async def test_a_page_shows_the_moment_of_its_revision() -> None:
    async with running(MemoryLog()) as store:
        for name in "abcd":
            await put(store, f"ns/{name}")
        moment = store.revision
        await store.remove("pods", "ns/b", expected=2)
        await put(store, "ns/bb")
        await put(store, "ns/c", expected=3)
        table = store.table("pods")

        async def at_once(changes: list[Change], now: Snapshot) -> Snapshot:
            return undo(changes, now)

        snapshot = await table.snapshot_at(moment, at_once, user="reader")
        assert snapshot is not None
        then = [(entry.key, entry.revision) for entry in snapshot.select(EVERYTHING, after="ns/a")]
        assert then == [("ns/b", 2), ("ns/c", 3), ("ns/d", 4)]
        now = [entry.key for entry in table.page(EVERYTHING)]
        assert now == ["ns/a", "ns/bb", "ns/c", "ns/d"]


async def test_a_namespace_is_listed_without_its_neighbours() -> None:
    async with running(MemoryLog()) as store:
        for key in ("a/x", "a-b/x", "a.b/x", "ab/x", "b/x"):
            await put(store, key)
        table = store.table("pods")
        assert [e.key for e in table.page(Selection(namespace="a"))] == ["a/x"]
        assert table.snapshot().count("a") == 1
        assert table.snapshot().count("") == 5


async def test_a_restart_loses_nothing_and_goes_on_counting() -> None:
    log = MemoryLog()
    async with running(log) as store:
        first = await put(store, "ns/a")
        await put(store, "ns/a", expected=first, labels="red")
        await put(store, "ns/b")
        await store.remove("pods", "ns/b", expected=3)
    async with running(log) as store:
        assert store.revision == 4
        entry = store.read("pods", "ns/a")
        assert entry is not None
        assert (entry.revision, dict(entry.labels)) == (2, {"red": "yes"})
        assert store.read("pods", "ns/b") is None
        watcher = store.watch("pods", EVERYTHING, since=2)
        assert await taken(watcher) == [("ADDED", "ns/b"), ("DELETED", "ns/b")]
        assert await put(store, "ns/c") == 5


async def test_a_restart_knows_which_version_an_object_is_stored_in() -> None:
    log = MemoryLog()
    value = msgspec.json.encode({"metadata": {"name": "a"}})[len(HEAD) :]
    async with running(log) as store:
        for name, version in (("a", "v1"), ("b", "v2")):
            await store.put("widgets.g.io", name, value, {}, {}, Origin(version), expected=0)
    async with running(log) as store:
        found = store.table("widgets.g.io").entries
        assert [(entry.origin.version, entry.tail) for entry in found.values() if entry.origin] == [
            ("v1", value),
            ("v2", value),
        ]


async def test_compaction_survives_a_restart() -> None:
    log = MemoryLog()
    async with running(log) as store:
        revision = 0
        for _ in range(5):
            revision = await put(store, "ns/a", expected=revision)
        await put(store, "ns/b")
        await store.remove("pods", "ns/b", expected=6)
        await store.compact(7)
    assert [row.revision for row in log.load()[1]] == [5]
    async with running(log) as store:
        assert store.revision == 7
        assert store.compacted == 7
        with pytest.raises(HistoryGone):
            store.watch("pods", EVERYTHING, since=4)


async def test_a_stopped_store_takes_no_writes_and_ends_its_watches() -> None:
    async with running(MemoryLog()) as store:
        watcher = store.watch("pods", EVERYTHING, since=None)
    assert await watcher.take() == []
    with pytest.raises(StoreStopped):
        await put(store, "ns/a")


async def test_a_key_may_go_come_and_go_again_within_one_commit() -> None:
    log = GatedLog()
    async with running(log) as store:
        first = await put(store, "ns/a")
        log.gate.clear()
        steps: list[asyncio.Future[Any]] = [asyncio.ensure_future(store.remove("pods", "ns/a", expected=first))]
        await asyncio.sleep(0)
        steps.append(asyncio.ensure_future(put(store, "ns/a")))
        await asyncio.sleep(0)
        steps.append(asyncio.ensure_future(store.remove("pods", "ns/a", expected=3)))
        await asyncio.sleep(0)
        log.gate.set()
        for step in steps:
            await step
        assert store.read("pods", "ns/a") is None
        assert await put(store, "ns/a") == 5


async def test_settling_waits_for_what_is_on_its_way() -> None:
    log = GatedLog()
    async with running(log) as store:
        log.gate.clear()
        writing = asyncio.ensure_future(put(store, "ns/a"))
        await asyncio.sleep(0)
        settling = asyncio.ensure_future(store.settle("pods", "ns/a"))
        await asyncio.sleep(0)
        assert not settling.done()
        log.gate.set()
        await settling
        assert store.read("pods", "ns/a") is not None
        await writing
        await store.settle("pods", "ns/other")


async def test_an_observer_that_fails_does_not_stop_the_storage() -> None:
    async with running(MemoryLog()) as store:

        def fail(_table: str, _change: object) -> None:
            raise RuntimeError("a bug")

        store.observe(fail)
        assert await put(store, "ns/a") == 1
        assert await put(store, "ns/b") == 2


async def test_whoever_stops_waiting_for_a_revision_is_forgotten() -> None:
    async with running(MemoryLog()) as store:
        for _ in range(10):
            waiting = asyncio.ensure_future(store.wait_revision(99))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
        assert store._advanced == []
