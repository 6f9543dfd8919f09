"""The log on disk: who may open it, and what it refuses to read."""

from __future__ import annotations

import pathlib
import stat

import apsw
import pytest

from kube_fairlead_apiserver.storage.copies import copy_database, read_enclosed
from kube_fairlead_apiserver.storage.database import require_writable
from kube_fairlead_apiserver.storage.interface import CorruptLog, DiskFull, Row, StorageError
from kube_fairlead_apiserver.storage.sqlite import SqliteLog


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "log.db"


async def write_some(path: pathlib.Path, count: int = 200) -> None:
    log = SqliteLog(path)
    await log.append([Row(n, "configmaps", f"ns/{n}", b'{"metadata":{"name":"%d"}}' % n) for n in range(1, count + 1)])
    await log.close()


async def test_only_its_owner_can_read_the_file(path: pathlib.Path) -> None:
    await write_some(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_start_that_was_killed_leaves_nothing_that_matters(path: pathlib.Path) -> None:
    for end in ("", "-wal", "-shm", "-journal"):
        path.with_name(f".{path.name}.new{end}").write_bytes(b"half of something")
    await SqliteLog(path).close()
    assert [found.name for found in path.parent.iterdir() if found.name.startswith(".")] == []


async def test_two_servers_never_share_a_file(path: pathlib.Path) -> None:
    first = SqliteLog(path)
    with pytest.raises(StorageError, match="in use by another API server"):
        SqliteLog(path)
    await first.close()
    second = SqliteLog(path)
    await second.close()


async def test_a_flipped_bit_in_a_value_is_refused_and_says_how_to_restore(path: pathlib.Path) -> None:
    await write_some(path)
    data = path.read_bytes()
    position = data.index(b'"name":"77"')
    path.write_bytes(data[:position] + b'"name":"78"' + data[position + 11 :])
    log = SqliteLog(path)
    with pytest.raises(CorruptLog, match=r"revision 77 .* does not match its checksum.*restore BACKUP_FILE"):
        list(log.load()[1])
    await log.close()


async def test_a_torn_file_is_refused(path: pathlib.Path) -> None:
    await write_some(path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(CorruptLog, match=r"damaged.*restore BACKUP_FILE"):
        SqliteLog(path)


async def test_garbage_is_refused(path: pathlib.Path) -> None:
    path.write_bytes(b"not a database at all, but long enough to look at " * 100)
    with pytest.raises(CorruptLog, match="restore BACKUP_FILE"):
        SqliteLog(path)


async def test_another_programs_database_is_refused(path: pathlib.Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE t (x); PRAGMA user_version = 1")
    other.close()
    with pytest.raises(StorageError, match="not one of an API server"):
        SqliteLog(path)


async def test_a_newer_format_is_refused_by_name(path: pathlib.Path) -> None:
    await write_some(path)
    other = apsw.Connection(str(path))
    other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(StorageError, match="newer Fairlead"):
        SqliteLog(path)


async def test_a_full_disk_refuses_the_batch_and_keeps_what_was_there(path: pathlib.Path) -> None:
    log = SqliteLog(path)
    await log.append([Row(1, "configmaps", "ns/1", b"{}")])
    pages = log._connection.execute("PRAGMA page_count").fetchone()
    assert pages is not None
    log._connection.execute(f"PRAGMA max_page_count = {pages[0] + 2}")
    with pytest.raises(DiskFull, match="no room left"):
        await log.append([Row(n, "configmaps", f"ns/{n}", b"x" * 4096) for n in range(2, 50)])
    assert [row.revision for row in log.load()[1]] == [1]
    await log.append([Row(50, "configmaps", "ns/50", b"{}")])
    await log.close()


async def test_a_backup_of_a_live_log_holds_one_consistent_state(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    log = SqliteLog(path)
    await log.append([Row(n, "configmaps", f"ns/{n}", b"{}") for n in range(1, 11)])
    target = tmp_path / "backup.db"
    copy_database(path, target)
    await log.append([Row(11, "configmaps", "ns/11", b"{}")])
    await log.close()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    copied = SqliteLog(target)
    assert [row.revision for row in copied.load()[1]] == list(range(1, 11))
    await copied.close()


async def test_a_backup_never_overwrites(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    await write_some(path)
    target = tmp_path / "backup.db"
    target.write_text("precious")
    with pytest.raises(StorageError, match="never overwrites"):
        copy_database(path, target)
    assert target.read_text() == "precious"


async def test_a_damaged_log_is_not_backed_up(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    await write_some(path)
    data = bytearray(path.read_bytes())
    data[4096 : 4096 + 64] = b"\xff" * 64
    path.write_bytes(bytes(data))
    with pytest.raises(StorageError):
        copy_database(path, tmp_path / "backup.db")
    assert not (tmp_path / "backup.db").exists()


async def test_files_travel_with_a_copy_and_no_further(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    await write_some(path)
    first, second = tmp_path / "first.db", tmp_path / "second.db"
    copy_database(path, first, {"ca.key": b"secret"})
    assert read_enclosed(first) == {"ca.key": b"secret"}
    copy_database(first, second)
    assert read_enclosed(second) == {}
    assert b"secret" not in second.read_bytes()


async def test_what_may_only_be_read_is_refused_at_once(path: pathlib.Path) -> None:
    await write_some(path)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        with pytest.raises(StorageError, match=r"log\.db cannot be written: this user may only read it"):
            require_writable(connection, path)
    finally:
        connection.close()
