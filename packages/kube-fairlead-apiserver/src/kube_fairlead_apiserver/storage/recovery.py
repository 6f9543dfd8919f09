"""Opens a log after a shutdown or a crash. Only unacknowledged writes may be missing; any other loss is an error.

Reading comes first and changes nothing. A log that has lost acknowledged writes is rejected unchanged, unless the
operator accepts the loss after a revision.
"""

from __future__ import annotations

import pathlib
import shutil

import apsw
import msgspec

from kube_fairlead.base import logs
from kube_fairlead_apiserver.storage import database, interface
from kube_fairlead_apiserver.storage.highwater import (
    DatabaseContent,
    HighWaterMark,
    Mark,
    loss_of,
    mark_path,
    read_mark,
)
from kube_fairlead_apiserver.storage.wal import damage_behind, wal_path

__all__ = ["REVISIONS_SKIPPED", "OpenedDatabase", "open_log", "require_acknowledged"]

_log = logs.get_logger(__name__)
# After a loss, revisions continue far after the lost ones, so that no client takes a new revision for a lost one.
REVISIONS_SKIPPED = 1_000_000
_CONTENT = """
    SELECT (SELECT ifnull(max(revision), 0) FROM log),
           (SELECT value FROM facts WHERE name = 'compacted'),
           ifnull((SELECT value FROM facts WHERE name = 'dropped'), 0),
           (SELECT count(*) FROM log)
"""


class OpenedDatabase(msgspec.Struct):
    """A log that is open for writes."""

    connection: apsw.Connection
    mark: HighWaterMark
    content: DatabaseContent


def open_log(path: pathlib.Path, *, accept_loss_since: int | None = None) -> OpenedDatabase:
    """Open or create a log. The caller holds its lock."""
    if not database.require_ours(path):
        database.create(path)
    with database.corruption_named(path):
        connection = apsw.Connection(str(path))
        try:
            # Until the log is verified, closing it leaves the write-ahead log unchanged.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            database.require_writable(connection, path)
            problem = _problem(connection, path, may_scan=True)
            if problem is not None:
                _require_consent(connection, path, problem, accept_loss_since)
            elif accept_loss_since is not None:
                _log.warning("no data loss found: --accept-data-loss-since has no effect and can be removed")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA wal_autocheckpoint = 4000")
            database.migrate(connection, path)
            database.check(connection, path)
            if problem is not None:
                _give_up_lost(connection, path)
            content = _content(connection)
            mark = _open_mark(connection, path, content)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        except BaseException:
            connection.close()
            raise
        return OpenedDatabase(connection, mark, content)


def require_acknowledged(connection: apsw.Connection, path: pathlib.Path, *, live: bool) -> None:
    """Raise when a log lacks acknowledged writes, because a copy would lack them, too. A server may be running."""
    problem = _problem(connection, path, may_scan=not live)
    if problem is not None:
        raise interface.CorruptLog(_refusal(path, problem, _content(connection).revision))


def _problem(connection: apsw.Connection, path: pathlib.Path, *, may_scan: bool) -> str | None:
    """Return the evidence that acknowledged writes are lost, or None. Read-only."""
    mark = read_mark(mark_path(path))  # before the database: a running server may write in between
    if not database.single(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'facts'"):
        return None  # older than the first format; a later check identifies it
    damaged = _damaged_frame(connection, path) if may_scan else None
    if damaged is not None:
        return f"its write-ahead log is damaged in frame {damaged}, with later commits behind it"
    identity = database.single(connection, f"SELECT value FROM facts WHERE name = '{database.MARK_FACT}'")  # noqa: S608 - a constant
    if identity is None:
        return None  # a copy, or written by a version without marks
    if mark is None or mark.identity != identity:
        state = "is missing or damaged" if mark is None else "belongs to another log"
        return f"{mark_path(path).name}, which says what was acknowledged, {state}"
    loss = loss_of(_content(connection), mark.content)
    if loss is None:
        return None
    wal = wal_path(path)  # opening creates an empty one if it is missing
    state = "damaged or cut short" if wal.exists() and wal.stat().st_size else "missing"
    return f"{loss}; its write-ahead log is {state}, or the database is an older copy"


def _damaged_frame(connection: apsw.Connection, path: pathlib.Path) -> int | None:
    database.single(connection, "SELECT count(*) FROM facts")  # the first read makes SQLite find the usable frames
    readable, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    try:
        with wal_path(path).open("rb") as file:
            return damage_behind(file, max(readable, 0), database.single(connection, "PRAGMA page_size"))
    except FileNotFoundError:
        return None


def _content(connection: apsw.Connection) -> DatabaseContent:
    row = connection.execute(_CONTENT).fetchone()  # one statement: a server may be writing
    assert row is not None  # noqa: S101 - a statement without FROM has one row
    newest, compacted, dropped, rows = row
    return DatabaseContent(max(newest, compacted), compacted, dropped, rows)


def _refusal(path: pathlib.Path, problem: str, revision: int) -> str:
    return (
        f"{path} has lost writes that were acknowledged: {problem}. What can be read ends at revision {revision}. "
        "Nothing was changed. Put the missing or undamaged file back, or a backup in place of all of them (fairlead "
        "apiserver --data-dir DIR restore BACKUP_FILE), or go on without the lost writes: fairlead apiserver "
        f"--data-dir DIR --accept-data-loss-since {revision}"
    )


def _require_consent(connection: apsw.Connection, path: pathlib.Path, problem: str, since: int | None) -> None:
    revision = _content(connection).revision
    if since != revision:
        raise interface.CorruptLog(_refusal(path, problem, revision))
    _log.error("acknowledged writes lost, accepted by --accept-data-loss-since", since_revision=revision, error=problem)
    wal = wal_path(path)
    if wal.exists():
        # SQLite overwrites it from now on; its content may still be useful.
        aside = wal.with_name(f"{wal.name}.lost-since-{revision}")
        shutil.copyfile(wal, aside)
        aside.chmod(0o600)


def _give_up_lost(connection: apsw.Connection, path: pathlib.Path) -> None:
    """Skip revisions, so that clients that saw lost writes list again and never see a lost revision reused."""
    # Frames after the damage must be removed: SQLite would write before them, and they would count as lost.
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    mark = read_mark(mark_path(path))
    newest = max(_content(connection).revision, mark.content.revision if mark is not None else 0)
    with connection:
        connection.execute("UPDATE facts SET value = ? WHERE name = 'compacted'", (newest + REVISIONS_SKIPPED,))
        connection.execute("DELETE FROM facts WHERE name = ?", (database.MARK_FACT,))


def _open_mark(connection: apsw.Connection, path: pathlib.Path, content: DatabaseContent) -> HighWaterMark:
    target = mark_path(path)
    identity = database.single(connection, f"SELECT value FROM facts WHERE name = '{database.MARK_FACT}'")  # noqa: S608 - a constant
    mark = read_mark(target)
    if identity is None or mark is None:
        identity = database.single(connection, "SELECT random() & 0x7fffffffffffffff")
        mark = Mark(identity, 0, content)
        HighWaterMark.create(target, mark)
        connection.execute("INSERT INTO facts VALUES (?, ?)", (database.MARK_FACT, identity))
    return HighWaterMark(target, mark)
