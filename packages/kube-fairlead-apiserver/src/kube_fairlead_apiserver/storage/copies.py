"""Backup files of a log, running or not: one file with one consistent state, and attached files."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator, Mapping

import apsw

from kube_fairlead.base import files
from kube_fairlead_apiserver.storage import interface
from kube_fairlead_apiserver.storage.database import (
    MARK_FACT,
    check,
    corruption_named,
    lock_database,
    read_rows,
    single,
)
from kube_fairlead_apiserver.storage.highwater import mark_path
from kube_fairlead_apiserver.storage.recovery import REVISIONS_SKIPPED, require_acknowledged

__all__ = ["copy_database", "read_enclosed"]


def copy_database(
    source: pathlib.Path,
    target: pathlib.Path,
    enclosed: Mapping[str, bytes] | None = None,
    *,
    revisions_after: int | None = None,
) -> None:
    """Copy a log, running or not, into a new file with one consistent state.

    Args:
        source: the file of a server, or a backup.
        target: the file to create.
        enclosed: files to attach to the copy; attachments of the source are dropped.
        revisions_after: the revisions of the copy continue after this one, and far after its own: clients saw later
            revisions of the source, and must list again.
    """
    if target.exists():
        raise interface.StorageError(f"{target} exists already; a backup never overwrites a file")
    scratch = target.with_name(f".{target.name}.partial")
    _remove(scratch)
    descriptor = os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    os.close(descriptor)
    try:
        with corruption_named(source):
            _require_content(source)
            reader = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)
            # A server's write-ahead log stays unchanged: it may be the only place of some writes.
            reader.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            try:
                check(reader, source)
                _require_acknowledged(reader, source)
                writer = apsw.Connection(str(scratch))
                try:
                    with _room_named(target), writer.backup("main", reader, "main") as backup:
                        backup.step(-1)
                    writer.execute("PRAGMA journal_mode = DELETE")
                    writer.execute("DELETE FROM facts WHERE name = ?", (MARK_FACT,))  # it belongs to the source
                    _enclose(writer, enclosed or {})
                    if revisions_after is not None:
                        _skip_revisions(writer, revisions_after)
                    for _ in read_rows(writer, source):
                        pass  # reading every row checks it: a copy of a damaged log is no backup
                finally:
                    writer.close()
            finally:
                reader.close()
        with scratch.open("rb+") as file:
            os.fsync(file.fileno())
        os.link(scratch, target)
        files.sync_folder(target.parent)
    finally:
        _remove(scratch)


def _skip_revisions(connection: apsw.Connection, after: int) -> None:
    compacted = single(connection, "SELECT value FROM facts WHERE name = 'compacted'")
    newest = max(compacted, single(connection, "SELECT ifnull(max(revision), 0) FROM log"))
    connection.execute("UPDATE facts SET value = ? WHERE name = 'compacted'", (max(newest + REVISIONS_SKIPPED, after),))


def _remove(scratch: pathlib.Path) -> None:
    for end in ("", "-journal", "-wal", "-shm"):  # SQLite leaves its own files behind on a full disk
        scratch.with_name(scratch.name + end).unlink(missing_ok=True)


@contextlib.contextmanager
def _room_named(target: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except apsw.FullError as error:
        raise interface.DiskFull(f"{target}: no room left on the disk for the copy; nothing was made") from error


def _require_content(source: pathlib.Path) -> None:
    # SQLite treats an empty file as a new database, and removes the write-ahead log beside it.
    if source.exists() and not source.stat().st_size:
        raise interface.CorruptLog(f"{source} is empty, and a log never is; there is nothing to copy")


def _require_acknowledged(reader: apsw.Connection, source: pathlib.Path) -> None:
    if not mark_path(source).exists():
        require_acknowledged(reader, source, live=True)
        return
    try:
        lock = lock_database(source)
    except interface.StorageError:
        require_acknowledged(reader, source, live=True)
        return
    with lock:  # no server runs, so the write-ahead log does not change while it is read
        require_acknowledged(reader, source, live=False)


def _enclose(connection: apsw.Connection, files_by_name: Mapping[str, bytes]) -> None:
    if single(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'enclosed'"):
        connection.execute("DROP TABLE enclosed")
        connection.execute("VACUUM")  # they may be keys: free pages must not keep them
    if files_by_name:
        connection.execute("CREATE TABLE enclosed (name TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT, WITHOUT ROWID")
        connection.executemany("INSERT INTO enclosed VALUES (?, ?)", files_by_name.items())


def read_enclosed(path: pathlib.Path) -> dict[str, bytes]:
    """Return the attached files of a copy; an older copy has none."""
    with corruption_named(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            if not single(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'enclosed'"):
                return {}
            return dict(connection.execute("SELECT name, content FROM enclosed ORDER BY name"))
        finally:
            connection.close()
