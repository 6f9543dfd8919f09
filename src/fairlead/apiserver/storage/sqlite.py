"""The log on disk: one SQLite file in WAL mode, one writer thread, one fsync for all who wait.

The table is only ever appended to at its end and read once, at start, so it has no index besides the revision. Every
row carries a checksum of its own: SQLite notices a torn page, not a flipped bit inside a value.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import pathlib
import queue
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import apsw

from fairlead.apiserver.storage import interface
from fairlead.base import files

__all__ = [
    "APPLICATION_ID",
    "MIGRATIONS",
    "SCHEMA_VERSION",
    "SqliteLog",
    "copy_database",
    "lock_database",
    "read_enclosed",
    "require_writable",
]

SCHEMA_VERSION = 1
APPLICATION_ID = 0x46414952  # "FAIR", so that `file` and a careless open can tell what this is

# What changes a file of version N into N + 1. A released entry is never edited.
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE log (
        revision INTEGER PRIMARY KEY,
        resource TEXT NOT NULL,
        key      TEXT NOT NULL,
        value    BLOB,             -- NULL: deleted at this revision
        checksum INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    INSERT INTO facts VALUES ('compacted', 0);
    """,
)

_RESTORE_HINT = (
    "Nothing was read from it. Move it aside together with its -wal and -shm files, and put a backup in its place: "
    "fairlead apiserver --data-dir DIR restore BACKUP_FILE"
)


_COLUMNS = 5
_ROWS_AT_ONCE = 64


def _checksum(table: str, key: str, value: bytes | None) -> int:
    head = zlib.crc32(f"{table}\0{key}\0".encode())
    return head if value is None else zlib.crc32(value, head ^ 1)


class SqliteLog:
    """Rows in `path`. Opening takes an exclusive lock: two servers never share a file."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._lock = lock_database(path)
        try:
            self._connection = _open(path)
        except BaseException:
            self._lock.close()
            raise
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_jobs, name="sqlite-writer", daemon=True)
        self._thread.start()

    def load(self) -> tuple[int, Iterator[interface.Row]]:
        """Every row, checked. Runs on the caller's thread, before anything is written."""
        with _corruption_named(self._path):
            compacted = _single(self._connection, "SELECT value FROM facts WHERE name = 'compacted'")
        return compacted, self._rows()

    def _rows(self) -> Iterator[interface.Row]:
        with _corruption_named(self._path):
            yield from _read_rows(self._connection, self._path)

    async def append(self, rows: Sequence[interface.Row]) -> None:
        """One transaction, one fsync."""
        pieces = [
            [
                value
                for row in rows[start : start + _ROWS_AT_ONCE]
                for value in (row.revision, row.table, row.key, row.value, _checksum(row.table, row.key, row.value))
            ]
            for start in range(0, len(rows), _ROWS_AT_ONCE)
        ]
        await self._in_writer(lambda: self._append(pieces))

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
        self._lock.close()

    def _append(self, pieces: list[list[Any]]) -> None:
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
            self._connection.execute("UPDATE facts SET value = max(value, ?) WHERE name = 'compacted'", (revision,))

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


def _read_rows(connection: apsw.Connection, path: pathlib.Path) -> Iterator[interface.Row]:
    question = "SELECT revision, resource, key, value, checksum FROM log ORDER BY revision"
    for revision, table, key, value, checksum in connection.execute(question):
        if _checksum(table, key, value) != checksum:
            found = f"revision {revision} ({table} {key}) does not match its checksum"
            raise interface.CorruptLog(f"{path}: {found}. {_RESTORE_HINT}")
        yield interface.Row(revision, table, key, value)


def copy_database(source: pathlib.Path, target: pathlib.Path, enclosed: Mapping[str, bytes] | None = None) -> None:
    """Copy a log, live or not, into a new file that holds one consistent state and nothing half-written.

    Args:
        source: the file of a server, or a backup.
        target: the file to make.
        enclosed: files to put into the copy besides; those that the source had are left out.
    """
    if target.exists():
        raise interface.StorageError(f"{target} exists already; a backup never overwrites a file")
    scratch = target.with_name(f".{target.name}.partial")
    scratch.unlink(missing_ok=True)
    descriptor = os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    os.close(descriptor)
    try:
        with _corruption_named(source):
            reader = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                _check(reader, source)
                writer = apsw.Connection(str(scratch))
                try:
                    with writer.backup("main", reader, "main") as backup:
                        backup.step(-1)
                    writer.execute("PRAGMA journal_mode = DELETE")
                    _enclose(writer, enclosed or {})
                    for _ in _read_rows(writer, source):
                        pass  # reading every row checks it: a copy of something broken is no backup
                finally:
                    writer.close()
            finally:
                reader.close()
        with scratch.open("rb+") as file:
            os.fsync(file.fileno())
        os.link(scratch, target)
        files.sync_folder(target.parent)
    finally:
        scratch.unlink(missing_ok=True)


def _enclose(connection: apsw.Connection, files_by_name: Mapping[str, bytes]) -> None:
    if _single(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'enclosed'"):
        connection.execute("DROP TABLE enclosed")
        connection.execute("VACUUM")  # they may be keys: nothing of them is left in free pages
    if files_by_name:
        connection.execute("CREATE TABLE enclosed (name TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT, WITHOUT ROWID")
        connection.executemany("INSERT INTO enclosed VALUES (?, ?)", files_by_name.items())


def read_enclosed(path: pathlib.Path) -> dict[str, bytes]:
    """The files that were put into a copy; an older one has none."""
    with _corruption_named(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            if not _single(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'enclosed'"):
                return {}
            return dict(connection.execute("SELECT name, content FROM enclosed ORDER BY name"))
        finally:
            connection.close()


def lock_database(path: pathlib.Path) -> files.FileLock:
    """Hold a log for one process; whoever runs a server on it holds it already."""
    try:
        return files.FileLock(path.with_name(path.name + ".lock"))
    except files.LockTaken as error:
        raise interface.StorageError(f"{path} is in use by another API server; stop that one first") from error


def _open(path: pathlib.Path) -> apsw.Connection:
    if not path.exists():
        _create(path)
    with _corruption_named(path):
        connection = apsw.Connection(str(path))
        try:
            require_writable(connection, path)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA wal_autocheckpoint = 4000")
            _migrate(connection, path)
            _check(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def _create(path: pathlib.Path) -> None:
    """Make an empty log aside and put it in place whole: two waits for the disk, instead of several for each step."""
    scratch = path.with_name(f".{path.name}.new")
    for left_behind in (scratch, *(scratch.with_name(scratch.name + end) for end in ("-wal", "-shm", "-journal"))):
        left_behind.unlink(missing_ok=True)
    os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with _corruption_named(path), contextlib.closing(apsw.Connection(str(scratch))) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = WAL")
        _migrate(connection, path)
    with scratch.open("rb+") as file:
        os.fsync(file.fileno())
    scratch.replace(path)
    files.sync_folder(path.parent)


def require_writable(connection: apsw.Connection, path: pathlib.Path) -> None:
    """SQLite opens what it may only read as well, and says so with the first write; a server must know before."""
    if connection.readonly("main"):
        raise interface.StorageError(
            f"{path} cannot be written: this user may only read it, or its file system is read-only"
        )


def _migrate(connection: apsw.Connection, path: pathlib.Path) -> None:
    version = _single(connection, "PRAGMA user_version")
    if version > SCHEMA_VERSION:
        raise interface.StorageError(
            f"{path} was written by a newer Fairlead (format {version}, this one reads up to {SCHEMA_VERSION}); "
            "run that version, or restore a backup made by this one"
        )
    for number in range(version, SCHEMA_VERSION):
        with connection:
            connection.execute(MIGRATIONS[number])
            connection.execute(f"PRAGMA user_version = {number + 1}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _single(connection: apsw.Connection, question: str) -> Any:
    row = connection.execute(question).fetchone()
    return None if row is None else row[0]


def _check(connection: apsw.Connection, path: pathlib.Path) -> None:
    application_id = _single(connection, "PRAGMA application_id")
    if application_id != APPLICATION_ID:
        raise interface.NotOurs(f"{path} is a SQLite file, but not one of an API server; name another --data-dir")
    verdict = _single(connection, "PRAGMA quick_check(1)")
    if verdict != "ok":
        raise interface.CorruptLog(f"{path} is damaged: {verdict}. {_RESTORE_HINT}")


@contextlib.contextmanager
def _corruption_named(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise interface.CorruptLog(f"{path} is damaged: {error}. {_RESTORE_HINT}") from error
    except apsw.Error as error:
        raise interface.StorageError(f"{path} cannot be read: {error}") from error
