"""The SQLite file of a log: identification, creation, migration, reading and checking of rows."""

from __future__ import annotations

import contextlib
import os
import pathlib
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import apsw

from kube_fairlead.base import files
from kube_fairlead_apiserver.storage import interface
from kube_fairlead_apiserver.storage.highwater import DatabaseContent, HighWaterMark, Mark, mark_path, read_mark
from kube_fairlead_apiserver.storage.wal import wal_path

__all__ = [
    "APPLICATION_ID",
    "MARK_FACT",
    "MIGRATIONS",
    "RESTORE_HINT",
    "SCHEMA_VERSION",
    "check",
    "corruption_named",
    "create",
    "lock_database",
    "migrate",
    "read_rows",
    "require_ours",
    "require_writable",
    "row_checksum",
    "single",
]

SCHEMA_VERSION = 1
APPLICATION_ID = 0x46414952  # "FAIR", so that `file` and other programs recognize the database
MARK_FACT = "mark"  # the identity that the mark beside this file has; a copy has none

# The migration of a file from version N to N + 1. A released entry is never edited.
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

RESTORE_HINT = (
    "Nothing was read from it. Move it aside together with its -wal, -shm and -acknowledged files, and put a backup in "
    "its place: fairlead apiserver --data-dir DIR restore BACKUP_FILE"
)

_SQLITE_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_APPLICATION_ID_AT = 68


def row_checksum(table: str, key: str, value: bytes | None) -> int:
    """Return the checksum of one row: SQLite detects a torn page, not a flipped bit in a value."""
    head = zlib.crc32(f"{table}\0{key}\0".encode())
    return head if value is None else zlib.crc32(value, head ^ 1)


def lock_database(path: pathlib.Path) -> files.FileLock:
    """Lock a log for one process; a running server holds the lock."""
    try:
        return files.FileLock(path.with_name(path.name + ".lock"))
    except files.LockTaken as error:
        raise interface.StorageError(f"{path} is in use by another API server; stop that one first") from error


def require_ours(path: pathlib.Path) -> bool:
    """Return whether there is a log.

    Raises for another file without opening it, because SQLite changes what it opens.
    """
    if not path.exists():
        _require_no_remains(path)
        return False
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header:
        beside = " beside a write-ahead log" if wal_path(path).exists() else ""
        raise interface.CorruptLog(f"{path} is empty{beside}, and a log never is. {RESTORE_HINT}")
    if not header.startswith(_SQLITE_MAGIC) or len(header) < _HEADER_BYTES:
        raise interface.CorruptLog(f"{path} is damaged: it is not a SQLite file. {RESTORE_HINT}")
    if struct.unpack_from(">I", header, _APPLICATION_ID_AT)[0] != APPLICATION_ID:
        raise interface.ForeignDatabase(
            f"{path} is a SQLite file, but not one of an API server; name another --data-dir"
        )
    return True


def _require_no_remains(path: pathlib.Path) -> None:
    wal, mark = wal_path(path), read_mark(mark_path(path))
    if wal.exists() and wal.stat().st_size:
        remains = str(wal)
    elif mark is not None and mark.content.revision:
        remains = f"{mark_path(path)}, which says that writes up to revision {mark.content.revision} were acknowledged,"
    else:
        return
    raise interface.CorruptLog(
        f"{path} is missing, and {remains} is there. Put the missing file back, or a backup in its place: "
        "fairlead apiserver --data-dir DIR restore BACKUP_FILE. To begin with nothing, move the -wal, -shm and "
        "-acknowledged files aside"
    )


def create(path: pathlib.Path) -> None:
    """Create an empty log under another name and rename it: few syncs of the disk instead of several for each step."""
    scratch = path.with_name(f".{path.name}.new")
    for left_behind in (scratch, *(scratch.with_name(scratch.name + end) for end in ("-wal", "-shm", "-journal"))):
        left_behind.unlink(missing_ok=True)
    os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with corruption_named(path), contextlib.closing(apsw.Connection(str(scratch))) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = WAL")
        migrate(connection, path)
        identity = single(connection, "SELECT random() & 0x7fffffffffffffff")
        connection.execute("INSERT INTO facts VALUES (?, ?)", (MARK_FACT, identity))
    # The mark first: a log whose mark is missing is rejected.
    HighWaterMark.create(mark_path(path), Mark(identity, 0, DatabaseContent(0, 0, 0, 0)))
    with scratch.open("rb+") as file:
        os.fsync(file.fileno())
    scratch.replace(path)
    files.sync_folder(path.parent)


def require_writable(connection: apsw.Connection, path: pathlib.Path) -> None:
    """Raise if the file is read-only: SQLite opens it and fails only at the first write."""
    if connection.readonly("main"):
        raise interface.StorageError(
            f"{path} cannot be written: this user may only read it, or its file system is read-only"
        )


def migrate(connection: apsw.Connection, path: pathlib.Path) -> None:
    """Migrate a file to the newest format."""
    version = single(connection, "PRAGMA user_version")
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


def single(connection: apsw.Connection, question: str) -> Any:
    """Return the first column of the first row of a result, or None."""
    row = connection.execute(question).fetchone()
    return None if row is None else row[0]


def check(connection: apsw.Connection, path: pathlib.Path) -> None:
    """Raise unless the file is a log, and intact as far as SQLite can check."""
    application_id = single(connection, "PRAGMA application_id")
    if application_id != APPLICATION_ID:
        raise interface.ForeignDatabase(
            f"{path} is a SQLite file, but not one of an API server; name another --data-dir"
        )
    verdict = single(connection, "PRAGMA quick_check(1)")
    if verdict != "ok":
        raise interface.CorruptLog(f"{path} is damaged: {verdict}. {RESTORE_HINT}")


def read_rows(connection: apsw.Connection, path: pathlib.Path) -> Iterator[interface.Row]:
    """Yield every row, checked, in the order of revisions."""
    question = "SELECT revision, resource, key, value, checksum FROM log ORDER BY revision"
    for revision, table, key, value, checksum in connection.execute(question):
        if row_checksum(table, key, value) != checksum:
            found = f"revision {revision} ({table} {key}) does not match its checksum"
            raise interface.CorruptLog(f"{path}: {found}. {RESTORE_HINT}")
        yield interface.Row(revision, table, key, value)


@contextlib.contextmanager
def corruption_named(path: pathlib.Path) -> Iterator[None]:
    """Translate SQLite's errors into messages for operators."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise interface.CorruptLog(f"{path} is damaged: {error}. {RESTORE_HINT}") from error
    except apsw.FullError as error:
        raise interface.DiskFull(f"{path}: no room left on the disk") from error
    except apsw.Error as error:
        raise interface.StorageError(f"{path} cannot be read: {error}") from error
