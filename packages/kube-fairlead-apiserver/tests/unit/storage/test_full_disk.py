"""A full disk: what frees room goes on, everything else is refused, and nothing of it is lost."""

from __future__ import annotations

import contextlib
import errno
import pathlib
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import apsw
import pytest

from kube_fairlead_apiserver.storage.copies import copy_database
from kube_fairlead_apiserver.storage.disk_reserve import DiskReserve, bytes_to_hold, last_bytes, wanted_bytes
from kube_fairlead_apiserver.storage.interface import DiskFull, Row, StorageError
from kube_fairlead_apiserver.storage.sqlite import SqliteLog
from tests.smalldisk import fill, small_disk

MEGABYTE = 1 << 20


@pytest.fixture
def disk(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    with small_disk(tmp_path / "disk", megabytes=12) as folder:
        yield folder


async def fill_log(log: SqliteLog, first: int = 1) -> int:
    """Write until there is no room; the newest revision that was stored."""
    revision = first
    while True:
        try:
            await log.append([Row(revision, "configmaps", f"ns/{revision}", b"x" * 50_000)])
        except DiskFull:
            return revision - 1
        revision += 1


def test_how_much_is_set_aside() -> None:
    assert wanted_bytes(1 << 40) == 32 * MEGABYTE
    assert wanted_bytes(64 * MEGABYTE) == 4 * MEGABYTE
    assert wanted_bytes(MEGABYTE) == 256 << 10
    wanted = 8 * MEGABYTE
    assert bytes_to_hold(16 * MEGABYTE, 0, wanted) == wanted
    assert bytes_to_hold(16 * MEGABYTE - 1, 0, wanted) == 0
    assert bytes_to_hold(4 * MEGABYTE, wanted, wanted) == 2 * MEGABYTE, "new rows fit into the database itself"
    assert bytes_to_hold(4 * MEGABYTE - 1, wanted, wanted) == 0
    assert bytes_to_hold(4 * MEGABYTE, wanted - 1, wanted) == 0


async def test_deletions_and_compaction_go_on_and_make_room(disk: pathlib.Path) -> None:
    log = SqliteLog(disk / "log.db")
    list(log.load()[1])
    assert await log.make_room() is None
    assert (disk / "log.db-reserve").stat().st_size == 12 * MEGABYTE // 16
    with pytest.raises(DiskFull, match="no room left on the disk; only deletions are stored"):
        await log.append([Row(n, "configmaps", f"ns/{n}", b"x" * MEGABYTE) for n in range(1, 20)])
    assert await log.make_room() is None, "it was one large write that did not fit"
    stored = await fill_log(log)
    assert not (disk / "log.db-reserve").exists()
    assert await log.make_room() is not None
    fill(disk, leave=600 << 10)
    deleted = list(range(1, stored + 1, 2))
    for number, revision in enumerate(deleted, start=1):
        await log.append([Row(stored + number, "configmaps", f"ns/{revision}", None)])
    newest = stored + len(deleted)
    await log.compact(newest, [*deleted, *range(stored + 1, newest + 1)])
    assert await log.make_room() is None, "the database has room inside"
    await log.append([Row(newest + 1, "configmaps", "ns/new", b"y" * 50_000)])
    await log.close()
    again = SqliteLog(disk / "log.db")
    assert [row.revision for row in again.load()[1]] == [*range(2, stored + 1, 2), newest + 1]
    await again.close()


async def test_writes_go_on_when_another_program_has_made_room(disk: pathlib.Path) -> None:
    log = SqliteLog(disk / "log.db")
    await log.make_room()
    ballast = fill(disk)
    stored = await fill_log(log)
    assert await log.make_room() is not None
    ballast.unlink()
    assert await log.make_room() is None
    await log.append([Row(stored + 1, "configmaps", "ns/new", b"y" * 50_000)])
    await log.close()


async def test_a_log_opens_on_a_disk_without_a_free_byte(disk: pathlib.Path) -> None:
    log = SqliteLog(disk / "log.db")
    await log.append([Row(1, "configmaps", "ns/1", b"{}")])
    await log.make_room()
    await log.close()
    fill(disk)
    again = SqliteLog(disk / "log.db")
    assert [row.revision for row in again.load()[1]] == [1]
    assert await again.make_room() is not None
    await again.append([Row(2, "configmaps", "ns/1", None)])
    await again.close()


async def test_without_a_reserve_the_reason_is_said(disk: pathlib.Path) -> None:
    log = SqliteLog(disk / "log.db")
    await log.append([Row(1, "configmaps", "ns/1", b"{}")])
    await log.close()
    fill(disk)
    with pytest.raises(StorageError):
        SqliteLog(disk / "log.db")


async def test_a_copy_that_does_not_fit_says_where_and_leaves_nothing(
    disk: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    log = SqliteLog(tmp_path / "log.db")
    await log.append([Row(n, "configmaps", f"ns/{n}", b"x" * 100_000) for n in range(1, 100)])
    fill(disk, leave=MEGABYTE)
    with pytest.raises(DiskFull, match=r"backup\.db: no room left on the disk for the copy"):
        copy_database(tmp_path / "log.db", disk / "backup.db")
    assert [found.name for found in disk.iterdir()] == ["ballast"]
    await log.close()


class Faulty(apsw.VFS):
    """A file system on which writes to the write-ahead log fail with one error number."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(name, "unix")
        self.name = name
        self.number = number
        self.failing = False

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        return _FaultyFile(self, name, flags)

    def xGetLastError(self) -> tuple[int, str]:  # noqa: N802 - SQLite's name
        return self.number, errno.errorcode[self.number]


class _FaultyFile(apsw.VFSFile):
    def __init__(self, vfs: Faulty, name: Any, flags: list[int]) -> None:
        self._vfs = vfs
        self._is_wal = bool(flags[0] & apsw.SQLITE_OPEN_WAL)
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        if self._vfs.failing and self._is_wal:
            full = self._vfs.number == errno.ENOSPC
            failure: Any = apsw.FullError() if full else apsw.IOError()
            failure.extendedresult = apsw.SQLITE_FULL if full else apsw.SQLITE_IOERR_WRITE  # what SQLite is answered
            raise failure
        super().xWrite(data, offset)


@contextlib.contextmanager
def on_faulty_disk(number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    disk = Faulty(f"faulty-{number}", number)
    connect = apsw.Connection
    with monkeypatch.context() as patch:
        patch.setattr(apsw, "Connection", lambda name, **options: connect(name, vfs=disk.name, **options))
        yield disk
    disk.unregister()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
async def test_a_quota_that_is_used_up_is_a_full_disk(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with on_faulty_disk(number, monkeypatch) as disk:
        log = SqliteLog(tmp_path / "log.db")
        await log.append([Row(1, "configmaps", "ns/1", b"{}")])
        disk.failing = True
        with pytest.raises(DiskFull):
            await log.append([Row(2, "configmaps", "ns/2", b"{}")])
        disk.failing = False
        await log.append([Row(3, "configmaps", "ns/3", b"{}")])
        assert [row.revision for row in log.load()[1]] == [1, 3]
        await log.close()


async def test_a_failing_disk_is_not_a_full_one(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_faulty_disk(errno.EIO, monkeypatch) as disk:
        log = SqliteLog(tmp_path / "log.db")
        disk.failing = True
        with pytest.raises(StorageError) as failure:
            await log.append([Row(1, "configmaps", "ns/1", b"{}")])
        assert not isinstance(failure.value, DiskFull), "nothing is known of the disk any more: the server must end"
        disk.failing = False
        await log.close()


def test_a_reserve_that_cannot_be_made_leaves_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_descriptor: int, _offset: int, _size: int) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr("os.posix_fallocate", refuse)
    reserve = DiskReserve(tmp_path / "reserve")
    assert not reserve.hold(0)
    assert not (tmp_path / "reserve").exists()


@pytest.mark.parametrize("whole", [0, 1], ids=["the last one half made", "the first one half made"])
def test_a_reserve_that_was_half_made_at_a_crash_is_made_anew(tmp_path: pathlib.Path, whole: int) -> None:
    """The process is killed while it makes the first or the second file: no half of a file is taken for the whole."""
    killed = f"""
import os, pathlib
from kube_fairlead_apiserver.storage.disk_reserve import DiskReserve
made = []
allocate = os.posix_fallocate
def half(descriptor, offset, size):
    if len(made) == {whole}:
        allocate(descriptor, offset, size // 2)
        os.kill(os.getpid(), 9)
    allocate(descriptor, offset, size)
    made.append(descriptor)
os.posix_fallocate = half
DiskReserve(pathlib.Path({str(tmp_path / "reserve")!r})).hold(0)
"""
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == -9
    assert len(list(tmp_path.iterdir())) == whole + 1
    reserve = DiskReserve(tmp_path / "reserve")
    assert not reserve.held
    assert reserve.hold(0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["reserve", "reserve-last"]
    assert reserve.size == wanted_bytes(shutil.disk_usage(tmp_path).total)
    assert (tmp_path / "reserve-last").stat().st_size == last_bytes(reserve.size)


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])
def test_a_file_system_that_cannot_set_room_aside_is_written_to(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(_descriptor: int, _offset: int, _size: int) -> None:
        raise OSError(number, "not supported")

    monkeypatch.setattr("os.posix_fallocate", refuse)
    reserve = DiskReserve(tmp_path / "reserve")
    assert reserve.hold(0)
    content = (tmp_path / "reserve").read_bytes()
    assert len(content) == reserve.size > 0
    assert len(zlib.compress(content[: 1 << 20])) > 0.99 * min(len(content), 1 << 20), "it takes the room it is to take"
    assert (tmp_path / "reserve-last").stat().st_size == last_bytes(reserve.size)


async def test_the_last_reserve_is_for_removals_and_compaction(disk: pathlib.Path) -> None:
    log = SqliteLog(disk / "log.db")
    assert await log.make_room() is None
    stored = await fill_log(log)
    assert await log.make_room() is not None
    fill(disk)
    assert await fill_log(log, stored + 1) == stored, "the first reserve is another program's by now"
    assert (disk / "log.db-reserve-last").exists()
    await log.append([Row(stored + 1, "configmaps", "ns/1", None)])
    await log.compact(stored + 1, [1, stored + 1])
    await log.close()
    again = SqliteLog(disk / "log.db")
    assert [row.revision for row in again.load()[1]] == list(range(2, stored + 1))
    await again.close()
