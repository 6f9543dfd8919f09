"""The store: revisions, optimistic concurrency, history and watches over a durable log.

Everything happens on one event loop. A write is checked against the newest state, including writes that are still
pending; it becomes visible, to reads and watchers alike, only once it is durable, in the order of
revisions. So:

1. A state that a client has seen is durable, and a read that starts afterwards sees it.
2. No client ever sees a state that a crash could undo.
3. Watchers see changes in commit order, each exactly once.

Writers that wait at the same time share one commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from kube_fairlead.base import commitment, logs
from kube_fairlead.base.clock import Clock
from kube_fairlead_apiserver.storage import interface
from kube_fairlead_apiserver.storage.compaction import SupersededRows
from kube_fairlead_apiserver.storage.entries import Change, Entry, Origin, split_value
from kube_fairlead_apiserver.storage.group_commit import GroupCommit
from kube_fairlead_apiserver.storage.history import History, HistoryLimits
from kube_fairlead_apiserver.storage.pending_write import PendingWrite, kept_on_full_disk, next_batch
from kube_fairlead_apiserver.storage.selection import Selection
from kube_fairlead_apiserver.storage.snapshot_readers import EncodedFrames, SnapshotReader
from kube_fairlead_apiserver.storage.table import Table
from kube_fairlead_apiserver.storage.watchers import WatchDispatcher, Watcher

__all__ = ["HistoryGone", "Store", "StoreStopped", "WriteConflict"]

# The labels of an object and its selectable fields.
Index = tuple[Mapping[str, str], Mapping[str, str]]

# From a table's name and an object in it.
Indexer = Callable[[str, dict[str, object]], Index]

# Called with a table's name and a change in it.
Observer = Callable[[str, Change], None]


# Publishing one durable write takes about ten microseconds, and more with many watchers.
_PUBLISHED_AT_ONCE = 8
_log = logs.get_logger(__name__)


class WriteConflict(Exception):
    """The key is not at the revision the writer saw. Read again and retry."""


class HistoryGone(Exception):
    """The requested revision is older than the history."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")


class StoreStopped(Exception):
    """The store no longer accepts writes: it is closing, or its disk failed."""


class Store:
    """Objects by table and key. `open` first; `run` must be running for writes to proceed."""

    def __init__(self, log: interface.Log, *, limits: HistoryLimits | None = None, clock: Clock | None = None) -> None:
        self._log = log
        self._group_commit = GroupCommit(clock)
        self._limits = limits or HistoryLimits()
        self._tables: dict[str, Table] = {}
        self._in_flight: dict[tuple[str, str], PendingWrite] = {}  # the newest pending write by key
        self._queue: list[PendingWrite] = []
        self._writing: list[PendingWrite] = []
        self._wake = asyncio.Event()
        self._assigned = 0  # the newest revision given to a write
        self._failure: BaseException | None = None
        self._stopping = False
        self._no_watches = False
        self.frames = EncodedFrames(self._limits.frame_bytes)
        self._dispatcher = WatchDispatcher()
        self._readings: dict[SnapshotReader, None] = {}
        self._history = History(self._limits)
        self._loaded = 0  # compacted before the start: no earlier history exists
        self._superseded = SupersededRows()
        self._observers: list[Observer] = []
        self._advanced: list[tuple[int, asyncio.Future[None]]] = []
        self._short = asyncio.Event()
        self.shortage: str | None = (
            None  # while the disk is full: the reason why only writes that free space are accepted
        )
        self.revision = 0  # the newest durable revision

    @property
    def compacted(self) -> int:
        """History up to here is dropped, except the newest change of each table."""
        return self._history.forgotten

    # ---- start and stop

    def open(self, indexer: Indexer) -> None:
        """Read the log. Must be done before anything else, once."""
        compacted, rows = self._log.load()
        self.revision = compacted
        origins: dict[tuple[str, str], Origin] = {}
        for row in rows:
            table = self.table(row.table)
            before = table.entries.get(row.key)
            if row.value is None:
                if before is None:
                    raise interface.CorruptLog(
                        f"revision {row.revision} deletes {row.table} {row.key}, which is not there"
                    )
                change = Change(row.revision, before, None, before.at(row.revision))
            else:
                labels, fields = indexer(row.table, msgspec.json.decode(row.value))
                version, tail = split_value(row.value)
                origin = origins.setdefault((row.table, version), Origin(version)) if version else None
                entry = Entry(row.key, row.revision, tail, labels, fields, origin)
                change = Change(row.revision, before, entry, entry)
            self._apply(table, change)
        # A compacted row may have had the highest revision; revisions are never reused.
        self.revision = max(self.revision, compacted)
        self._assigned = self.revision
        self._loaded = compacted
        self._history.forget_until(compacted)
        for table in self._tables.values():
            table.forget(compacted, keep_newest=False)  # rows in between may be missing
        self._trim_history()

    def reindex(self, table: str, index: Callable[[Entry], Index]) -> None:
        """Compute labels and selectable fields of a table again: its kind was defined or changed."""
        here = self.table(table)
        for entry in list(here.entries.values()):
            labels, fields = index(entry)
            here.replace(Entry(entry.key, entry.revision, entry.tail, labels, fields, entry.origin))

    async def run(self) -> None:
        """Write queued changes until `stop`; raises when the disk fails and its state is unknown."""
        while True:
            if not self._queue:
                if self._stopping:
                    return
                self._wake.clear()
                await self._wake.wait()
                continue
            if not self._stopping:
                await self._group_commit.wait(len(self._queue))
            count = next_batch(self._queue, short=self.shortage is not None)
            self._writing, self._queue = self._queue[:count], self._queue[count:]
            began = self._group_commit.begin()
            try:
                await self._log.append([pending.row for pending in self._writing])
            except interface.DiskFull as error:
                self._run_short(error)
            except BaseException as error:
                self._failure = error
                self._refuse(StoreStopped(f"storage failed: {error}"))
                raise
            else:
                self._group_commit.end(began, answered=len(self._writing), waiting=len(self._queue))
                await self._publish()

    def stop(self) -> None:
        """Accept no new writes; `run` returns once pending writes are durable. Watches end."""
        self._stopping = True
        self._wake.set()
        self.end_watches()
        for _, future in self._advanced:
            future.cancel()

    def end_watches(self) -> None:
        """End every open watch, and accept no more."""
        self._no_watches = True
        for table in self._tables:
            self.end_watches_of(table)

    def end_watches_of(self, table: str) -> None:
        """End the open watches of one table, each after its pending changes: the kind has changed."""
        for watcher in list(self.table(table).watchers):
            watcher.end()

    async def close(self) -> None:
        """Close the log. Call after `run` has returned."""
        await self._log.close()

    # ---- reading

    def table(self, name: str) -> Table:
        """Return the table of a resource; made on first use."""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = Table(name, forgotten=self._loaded)
        return table

    def tables(self) -> Iterator[Table]:
        """Yield every table that was ever used."""
        return iter(list(self._tables.values()))

    def read(self, table: str, key: str) -> Entry | None:
        """Return the durable state of a key."""
        return self.table(table).entries.get(key)

    def newest(self, table: str, key: str) -> Entry | None:
        """Return the state that the next write of a key must build on; it may not be durable yet."""
        pending = self._in_flight.get((table, key))
        return self.table(table).entries.get(key) if pending is None else pending.change.after

    async def settle(self, table: str, key: str) -> None:
        """Wait until no write of a key is pending: only then may a client see that it does not exist."""
        while (pending := self._in_flight.get((table, key))) is not None:
            # The writer itself handles a failure of that write.
            settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            pending.waiting.append(settled)
            await settled

    def require_history(self, table: str, revision: int) -> None:
        """Raise unless the state of a table at a revision, and every later change of it, is still available."""
        forgotten = self.table(table).forgotten
        if revision < forgotten:
            raise HistoryGone(revision, forgotten)

    def begin_reading(self, moment: int, cut: Callable[[], None]) -> SnapshotReader:
        """Register a reader of a snapshot of this revision. Close it with `end_reading`.

        ``cut`` is called when the reader keeps too many old entries for too long: it must release them at once.
        """
        reading = SnapshotReader(moment, cut)
        self._readings[reading] = None
        return reading

    def end_reading(self, reading: SnapshotReader) -> None:
        """Remove a reader."""
        self._readings.pop(reading, None)

    async def wait_revision(self, revision: int) -> None:
        """Return once the store has reached a revision."""
        if self.revision >= revision:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = (revision, future)
        self._advanced.append(waiting)
        try:
            await future
        finally:
            if waiting in self._advanced:
                self._advanced.remove(waiting)

    # ---- watching

    def observe(self, observer: Observer) -> None:
        """Call this for every change that becomes durable from now on, in commit order. It must not wait."""
        self._observers.append(observer)

    def watch(self, table: str, selection: Selection, *, since: int | None) -> Watcher:
        """Open a watch of changes after ``since`` (None: from now on). Close it with `unwatch`."""
        if self._no_watches:
            raise StoreStopped("the server is shutting down")
        here = self.table(table)
        if since is not None:
            self.require_history(table, since)

        def changes_after(revision: int) -> list[Change] | None:
            return here.next_changes(revision) if revision >= here.forgotten else None

        watcher = Watcher(
            selection,
            dispatcher=self._dispatcher,
            limit_bytes=self._limits.backlog_bytes,
            since=since,
            history=None if since is None or not here.next_changes(since) else changes_after,
        )
        here.watchers.add(watcher)
        return watcher

    def unwatch(self, table: str, watcher: Watcher) -> None:
        """Remove a watcher."""
        watcher.close()
        self.table(table).watchers.remove(watcher)

    # ---- writing

    async def put(
        self,
        table: str,
        key: str,
        tail: bytes,
        labels: Mapping[str, str],
        fields: Mapping[str, str],
        origin: Origin | None = None,
        *,
        expected: int,
        freeing: bool = False,
    ) -> Entry:
        """Write a key that is now at revision ``expected`` (0: it must not exist). Returns when that is durable.

        ``freeing``: it leads to a deletion, so it is accepted on a full disk, too.
        """
        if self.shortage is not None and not freeing:
            raise interface.DiskFull(self.shortage)
        before = self._check(table, key, expected)
        self._assigned += 1
        entry = Entry(key, self._assigned, tail, labels, fields, origin)
        return await self._enqueue(self.table(table), Change(self._assigned, before, entry, entry), freeing=freeing)

    async def remove(self, table: str, key: str, *, expected: int) -> Entry:
        """Delete a key that is now at revision ``expected``. Returns its last state, at its deletion's revision."""
        before = self._check(table, key, expected)
        if before is None:
            raise WriteConflict
        self._assigned += 1
        last = before.at(self._assigned)
        return await self._enqueue(self.table(table), Change(self._assigned, before, None, last), freeing=True)

    def _check(self, table: str, key: str, expected: int) -> Entry | None:
        if self._failure is not None or self._stopping:
            raise StoreStopped("the server is shutting down")
        before = self.newest(table, key)
        if (before.revision if before is not None else 0) != expected:
            raise WriteConflict
        return before

    async def _enqueue(self, table: Table, change: Change, *, freeing: bool) -> Entry:
        value = None if change.after is None else change.after.durable
        row = interface.Row(change.revision, table.name, change.last.key, value)
        done: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()
        pending = PendingWrite(table, change, row, done, freeing)
        self._in_flight[table.name, change.last.key] = pending
        self._queue.append(pending)
        self._wake.set()
        self._group_commit.arrived(len(self._queue))
        commitment.commit()
        # Cancelling the caller cancels its future; the write continues.
        return await done

    async def _publish(self) -> None:
        """Publish durable writes, a few at a time: other requests run in between."""
        try:
            while len(self._writing) > _PUBLISHED_AT_ONCE:
                self._publish_first(_PUBLISHED_AT_ONCE)
                await asyncio.sleep(0)
        finally:
            self._publish_first(len(self._writing))

    def _publish_first(self, number: int) -> None:
        published, self._writing = self._writing[:number], self._writing[number:]
        for pending in published:
            self._apply(pending.table, pending.change)
            self._tell_observers(pending)
            place = (pending.table.name, pending.row.key)
            if self._in_flight.get(place) is pending:
                del self._in_flight[place]
            if not pending.done.done():
                pending.done.set_result(pending.change.last)
            pending.settle()
        self._wake_waiters()
        self._trim_history()

    def _tell_observers(self, pending: PendingWrite) -> None:
        for observer in self._observers:
            try:
                observer(pending.table.name, pending.change)
            except Exception:  # noqa: BLE001 - a failing observer must not stop the storage
                _log.exception("store observer failed", table=pending.table.name, key=pending.row.key)

    def _run_short(self, error: interface.DiskFull) -> None:
        """The disk is full: reject queued writes, except those that free space and do not build on a rejected one."""
        kept = kept_on_full_disk(self._writing, self._queue, short=self.shortage is not None)
        self.shortage = str(error)
        self._short.set()
        self._refuse(error, kept)

    def _refuse(self, error: BaseException, kept: Sequence[PendingWrite] = ()) -> None:
        """Fail all queued writes together, because later writes may build on earlier ones."""
        keeping = {pending.change.revision for pending in kept}
        refused = [one for one in self._writing + self._queue if one.change.revision not in keeping]
        self._writing, self._queue = [], list(kept)
        self._in_flight = {(pending.table.name, pending.row.key): pending for pending in kept}
        for pending in refused:
            if not pending.done.done():
                pending.done.set_exception(error)
                pending.done.exception()  # a cancelled caller does not read it
            pending.settle()

    def _apply(self, table: Table, change: Change) -> None:
        table.apply(change)
        self.revision = change.revision
        self._history.append(table, change)
        if change.before is not None:
            self._superseded.add(change.revision, change.before.revision)
        if change.after is None:
            self._superseded.add(change.revision, change.revision)

    def _wake_waiters(self) -> None:
        waiting = []
        for revision, future in self._advanced:
            if future.done():
                continue
            if revision <= self.revision:
                future.set_result(None)
            else:
                waiting.append((revision, future))
        self._advanced = waiting

    # ---- compaction

    async def compact(self, revision: int) -> None:
        """Drop history up to a revision, in memory and on disk."""
        self._history.forget_until(min(revision, self.revision))
        self._relieve()
        await self._superseded.drop(self._log, self.compacted)
        if self.shortage is None:
            await self._look_for_room()  # this may have used the reserve

    async def wait_short(self) -> None:
        """Return when the disk is full."""
        await self._short.wait()

    async def make_room(self) -> None:
        """Accept all writes again if there is space; else compact."""
        if self.shortage is not None and self._superseded:
            try:
                await self.compact(self.revision)
            except interface.DiskFull as error:
                _log.warning("compaction failed", error=str(error))
        await self._look_for_room()

    async def _look_for_room(self) -> None:
        self.shortage = await self._log.make_room()
        if self.shortage is None:
            self._short.clear()
        else:
            self._short.set()

    def _trim_history(self) -> None:
        self._history.trim()
        self._relieve()

    def _relieve(self) -> None:
        retained = self._history.retained
        if retained.excessive:
            retained.relieve([*self._readings, *(one for table in self.tables() for one in table.watchers)])
