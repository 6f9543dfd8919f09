"""The log on disk: one SQLite file in WAL mode, one writer thread, one fsync for all who wait.

The table is only ever appended to at its end and read once, at start, so it has no index besides the revision. Every
row carries a checksum of its own: SQLite notices a torn page, not a flipped bit inside a value.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import pathlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apsw

from fairlead.apiserver.storage import database, interface
from fairlead.apiserver.storage.highwater import Content
from fairlead.apiserver.storage.recovery import open_log

__all__ = ["SqliteLog"]

_COLUMNS = 5
_ROWS_AT_ONCE = 64
_COUNT_DROPPED = """
    INSERT INTO facts VALUES ('dropped', ?) ON CONFLICT DO UPDATE SET value = value + excluded.value
"""


class SqliteLog:
    """Rows in `path`. Opening takes an exclusive lock: two servers never share a file."""

    def __init__(self, path: pathlib.Path, *, accept_loss_since: int | None = None) -> None:
        self._path = path
        self._lock = database.lock_database(path)
        try:
            opened = open_log(path, accept_loss_since=accept_loss_since)
        except BaseException:
            self._lock.close()
            raise
        self._connection, self._mark, self._content = opened.connection, opened.mark, opened.content
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_jobs, name="sqlite-writer", daemon=True)
        self._thread.start()

    def load(self) -> tuple[int, Iterator[interface.Row]]:
        """Every row, checked. Runs on the caller's thread, before anything is written."""
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
        await self._in_writer(lambda: self._append(pieces, rows[-1].revision if rows else 0, len(rows)))

    async def compact(self, revision: int, superseded: Sequence[int]) -> None:
        """Drop superseded rows and raise the compacted revision, in one transaction."""
        dropped = json.dumps(list(superseded))
        await self._in_writer(lambda: self._compact(revision, dropped))

    async def close(self) -> None:
        """Let the writer finish, then fold the WAL into the file and unlock it."""
        if not self._thread.is_alive():
            return
        await self._in_writer(self._connection.close)
        self._jobs.put(None)
        self._thread.join()
        self._mark.close()
        self._lock.close()

    def _append(self, pieces: list[list[Any]], newest: int, count: int) -> None:
        if not pieces:
            return
        self._insert(pieces)
        old = self._content
        self._acknowledge(Content(max(old.revision, newest), old.compacted, old.dropped, old.rows + count))

    def _acknowledge(self, content: Content) -> None:
        """A commit is on the disk: noted before its writers hear of it."""
        self._content = content
        self._mark.advance(content)

    def _insert(self, pieces: list[list[Any]]) -> None:
        # The fewer statements, the better: before and after each the interpreter is asked for, which is busy elsewhere.
        if len(pieces) == 1:
            with self._errors_named():
                self._connection.execute(_insertion(len(pieces[0])), pieces[0])
            return
        with self._errors_named(), self._transaction():
            for piece in pieces:
                self._connection.execute(_insertion(len(piece)), piece)

    def _compact(self, revision: int, dropped: str) -> None:
        with self._errors_named(), self._transaction():
            self._connection.execute("DELETE FROM log WHERE revision IN (SELECT value FROM json_each(?))", (dropped,))
            count = self._connection.changes()
            self._connection.execute(_COUNT_DROPPED, (count,))
            self._connection.execute("UPDATE facts SET value = max(value, ?) WHERE name = 'compacted'", (revision,))
        content = self._content
        compacted = max(content.compacted, revision)
        self._acknowledge(
            Content(max(content.revision, compacted), compacted, content.dropped + count, content.rows - count)
        )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # SQLite has rolled back by itself after some errors (a full disk is one), and not after others.
            if not self._connection.getautocommit():
                self._connection.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except apsw.FullError as error:
            raise interface.DiskFull(f"{self._path}: no room left on the disk") from error
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
            # The loop may be gone when a process ends in the middle of a write; there is nobody left to tell.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, failure)

        self._jobs.put(job)
        await done

    def _write_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


@functools.cache
def _insertion(values: int) -> str:
    return "INSERT INTO log VALUES " + ",".join(["(?, ?, ?, ?, ?)"] * (values // _COLUMNS))  # noqa: S608 - only marks
