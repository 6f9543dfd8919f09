"""The log on disk: one SQLite file in WAL mode, one writer thread, one fsync for all waiting writers.

The table is only ever appended to at its end and read once, at start, so it has no index besides the revision. Every
row has its own checksum: SQLite detects a torn page, not a flipped bit in a value.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import json
import pathlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apsw

from kube_fairlead_apiserver.storage import database, interface
from kube_fairlead_apiserver.storage.disk_reserve import DiskReserve, pages_before_checkpoint, reserve_path
from kube_fairlead_apiserver.storage.highwater import DatabaseContent
from kube_fairlead_apiserver.storage.recovery import OpenedDatabase, open_log
from kube_fairlead_apiserver.storage.wal import wal_path

__all__ = ["SqliteLog"]

_COLUMNS = 5
_NO_ROOM = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_ROWS_AT_ONCE = 64
_DROP = "DELETE FROM log WHERE revision IN (SELECT value FROM json_each(?))"
_RAISE_COMPACTED = "UPDATE facts SET value = max(value, ?) WHERE name = 'compacted'"
_COUNT_DROPPED = """
    INSERT INTO facts VALUES ('dropped', ?) ON CONFLICT DO UPDATE SET value = value + excluded.value
"""


class SqliteLog:
    """Rows in `path`. Opening takes an exclusive lock: two servers never share a file."""

    def __init__(self, path: pathlib.Path, *, accept_loss_since: int | None = None) -> None:
        self._path = path
        self._lock = database.lock_database(path)
        self._reserve = DiskReserve(reserve_path(path))
        try:
            opened = self._open(accept_loss_since)
        except BaseException:
            self._lock.close()
            raise
        self._connection, self._mark, self._content = opened.connection, opened.mark, opened.content
        self._identities = {path: _identity(path)}
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_jobs, name="sqlite-writer", daemon=True)
        self._thread.start()

    def _open(self, accept_loss_since: int | None) -> OpenedDatabase:
        try:
            return open_log(self._path, accept_loss_since=accept_loss_since)
        except (interface.CorruptLog, interface.ForeignDatabase):
            raise
        except interface.StorageError:
            # Opening needs a little space: SQLite creates files beside the database, and gives no reason if it cannot.
            if not self._reserve.release() and not self._reserve.release_last():
                raise
            return self._open(accept_loss_since)

    def load(self) -> tuple[int, Iterator[interface.Row]]:
        """Return every row, checked. Runs on the caller's thread, before anything is written."""
        with database.corruption_named(self._path):
            compacted = database.single(self._connection, "SELECT value FROM facts WHERE name = 'compacted'")
        return compacted, self._rows()

    def _rows(self) -> Iterator[interface.Row]:
        with database.corruption_named(self._path):
            yield from database.read_rows(self._connection, self._path)

    async def append(self, rows: Sequence[interface.Row]) -> None:
        """One transaction, one fsync."""
        pieces = [
            [
                value
                for row in rows[start : start + _ROWS_AT_ONCE]
                for value in (
                    row.revision,
                    row.table,
                    row.key,
                    row.value,
                    database.row_checksum(row.table, row.key, row.value),
                )
            ]
            for start in range(0, len(rows), _ROWS_AT_ONCE)
        ]
        removes = all(row.value is None for row in rows)
        newest = rows[-1].revision if rows else 0
        await self._in_writer(lambda: self._append(pieces, newest, len(rows), removes=removes))

    async def compact(self, revision: int, superseded: Sequence[int]) -> None:
        """Drop superseded rows and raise the compacted revision, in one transaction."""
        dropped = json.dumps(list(superseded))
        await self._in_writer(lambda: self._compact(revision, dropped))

    async def make_room(self) -> str | None:
        """Create the reserve, if there is space for it and for other writes."""
        await self._in_writer(self._hold_reserve)
        return None if self._reserve.held else f"{self._path}: no room left on the disk; only deletions are stored"

    async def close(self) -> None:
        """Wait for the writer, then checkpoint the WAL and unlock the file."""
        if not self._thread.is_alive():
            return
        await self._in_writer(self._connection.close)
        self._jobs.put(None)
        self._thread.join()
        self._mark.close()
        self._lock.close()

    def _append(self, pieces: list[list[Any]], newest: int, count: int, *, removes: bool) -> None:
        if not pieces:
            return
        self._with_room(lambda: self._insert(pieces), removes=removes)
        old = self._content
        self._acknowledge(DatabaseContent(max(old.revision, newest), old.compacted, old.dropped, old.rows + count))

    def _acknowledge(self, content: DatabaseContent) -> None:
        """Record a durable commit, before its writers are notified."""
        self._content = content
        self._mark.advance(content)
        # Before its writers are notified: writes to a deleted file are lost when the process ends.
        self.require_present()

    def require_present(self) -> None:
        """Raise when a file of the log was removed or replaced while it is open."""
        for file in (self._path, wal_path(self._path)):
            identity = _identity(file)
            if self._identities.setdefault(file, identity) == identity:
                continue
            if self._identities[file] is None:
                self._identities[file] = identity  # the first write creates the write-ahead log
                continue
            raise interface.StorageError(
                f"{file} was removed or replaced while the server ran. It ends: nothing that it writes would last. "
                "Put a backup in its place (fairlead apiserver --data-dir DIR restore BACKUP_FILE) and start it again"
            )

    def _insert(self, pieces: list[list[Any]]) -> None:
        # Few statements: each one releases and acquires the interpreter, which is busy with the event loop.
        if len(pieces) == 1:
            with self._errors_named():
                self._connection.execute(_insertion(len(pieces[0])), pieces[0])
            return
        with self._errors_named(), self._transaction():
            for piece in pieces:
                self._connection.execute(_insertion(len(piece)), piece)

    def _with_room(self, write: Callable[[], None], *, removes: bool, gives_reserve: bool = False) -> None:
        """Write. On a full disk the write-ahead log is truncated first, then the reserve is released.

        `DiskFull` informs the store when the reserve is released; the store then retries what leads to
        removals; compaction (``gives_reserve``) continues. A write that ``removes`` gets the last reserve, too.
        """
        if self._fits(write):
            return
        self._fold()
        try:
            write()
        except interface.DiskFull:
            if self._reserve.release():
                self._fold()
                # From now on each commit is checkpointed at once: a log that fills the disk could not be checkpointed.
                self._connection.wal_autocheckpoint(1)
                if not gives_reserve:
                    raise
            elif not removes:
                raise
        else:
            return
        if not self._fits(write):
            self._reserve.release_last()
            self._fold()
            write()

    @staticmethod
    def _fits(write: Callable[[], None]) -> bool:
        try:
            write()
        except interface.DiskFull:
            return False
        return True

    def _fold(self) -> None:
        """Checkpoint the write-ahead log, as far as there is space, and truncate it."""
        with contextlib.suppress(apsw.Error):
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _hold_reserve(self) -> None:
        if not self._reserve.held:
            self._fold()
            free_pages = database.single(self._connection, "PRAGMA freelist_count")
            self._reserve.hold(free_pages * database.single(self._connection, "PRAGMA page_size"))
        self._connection.wal_autocheckpoint(pages_before_checkpoint(self._reserve.size))

    def _compact(self, revision: int, dropped: str) -> None:
        count = 0

        def drop() -> None:
            nonlocal count
            with self._errors_named(), self._transaction():
                self._connection.execute(_DROP, (dropped,))
                count = self._connection.changes()
                self._connection.execute(_COUNT_DROPPED, (count,))
                self._connection.execute(_RAISE_COMPACTED, (revision,))

        self._with_room(drop, removes=True, gives_reserve=True)
        content = self._content
        compacted = max(content.compacted, revision)
        self._acknowledge(
            DatabaseContent(max(content.revision, compacted), compacted, content.dropped + count, content.rows - count)
        )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # SQLite rolls back by itself after some errors (such as a full disk), and not after others.
            if not self._connection.getautocommit():
                self._connection.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except apsw.FullError as error:
            raise interface.DiskFull(f"{self._path}: no room left on the disk; only deletions are stored") from error
        except apsw.IOError as error:
            # SQLite detects a full disk, but reports an exhausted quota as an I/O error. The write was rolled back as
            # well.
            code = getattr(error, "extendedresult", 0)
            if code == apsw.SQLITE_IOERR_WRITE and self._connection.system_errno in _NO_ROOM:
                raise interface.DiskFull(
                    f"{self._path}: no room left on the disk; only deletions are stored"
                ) from error
            raise interface.StorageError(f"{self._path}: {error}") from error
        except apsw.Error as error:
            raise interface.StorageError(f"{self._path}: {error}") from error

    async def _in_writer(self, work: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def settle(error: BaseException | None) -> None:
            if done.cancelled():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        def job() -> None:
            failure: BaseException | None = None
            try:
                work()
            except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the waiter, not to this thread
                failure = error
            # The event loop may be closed when a process ends during a write; no caller waits any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, failure)

        self._jobs.put(job)
        await done

    def _write_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _identity(file: pathlib.Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


@functools.cache
def _insertion(values: int) -> str:
    return "INSERT INTO log VALUES " + ",".join(["(?, ?, ?, ?, ?)"] * (values // _COLUMNS))  # noqa: S608 - only marks
