"""The real log, through the real SQLite, on a disk that loses its power at any write: nothing acknowledged is lost."""

from __future__ import annotations

import contextlib
import io
import itertools
import pathlib
import random
from collections.abc import Iterator
from typing import Any

import apsw
import pytest

from kube_fairlead_apiserver.storage import database
from kube_fairlead_apiserver.storage.interface import CorruptLog, Row, StorageError
from kube_fairlead_apiserver.storage.sqlite import SqliteLog
from kube_fairlead_apiserver.storage.wal import damage_behind
from tests.unit.storage.failing_disk import Disk, File

Rows = dict[int, Row]
_names = itertools.count()


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "log.db"


@contextlib.contextmanager
def on_failing_disk(
    path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, *, synchronous: str = "FULL"
) -> Iterator[Disk]:
    """A fresh log on such a disk; `SqliteLog` opens it there."""
    path.unlink(missing_ok=True)
    database.create(path)
    disk = Disk(f"failing-{next(_names)}")
    disk.files[str(path)] = File(bytearray(path.read_bytes()), path.read_bytes())
    connect = apsw.Connection

    class Connection(connect):  # type: ignore[misc,valid-type] # a variable is no type to mypy
        def __init__(self, filename: str) -> None:
            super().__init__(filename, vfs=disk.name)
            # Without shared memory, which a disk has nothing to do with.
            super().execute("PRAGMA locking_mode = EXCLUSIVE")

        def execute(self, statements: str, bindings: object = None) -> Any:
            if statements == "PRAGMA synchronous = FULL":
                statements = f"PRAGMA synchronous = {synchronous}"
            elif statements.startswith("PRAGMA wal_autocheckpoint"):
                statements = "PRAGMA wal_autocheckpoint = 20"  # so that there are some
            return super().execute(statements, bindings)

    with monkeypatch.context() as patch:
        patch.setattr(apsw, "Connection", Connection)
        yield disk
    disk.unregister()


async def write_until_the_power_goes(log: SqliteLog, chance: random.Random, stored: Rows) -> Rows:
    """Keep `stored` at what is acknowledged; the rows, or their absence, of which nobody knows."""
    revision = max(stored, default=0)
    while True:
        if stored and chance.random() < 0.15:
            dropped = chance.sample(sorted(stored), k=chance.randint(1, min(20, len(stored))))
            try:
                await log.compact(max(dropped), dropped)
            except StorageError:
                return {number: row for number, row in stored.items() if number not in dropped}
            for number in dropped:
                del stored[number]
            continue
        batch = {}
        for _ in range(chance.choice([1, 1, 1, 2, 5, 80])):
            revision += 1
            value = None if chance.random() < 0.1 else chance.randbytes(chance.choice([10, 300, 3000]))
            batch[revision] = Row(revision, "pods", f"default/p-{chance.randint(0, 9)}", value)
        try:
            await log.append(list(batch.values()))
        except StorageError:
            return {**stored, **batch}
        stored.update(batch)


def require_no_damage(disk: Disk, path: pathlib.Path) -> None:
    """What a loss of power leaves of the write-ahead log is never taken for damage."""
    connection = apsw.Connection(str(path))
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.execute("SELECT count(*) FROM log").fetchall()
    readable, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    connection.close()
    left = bytes(disk.files[f"{path}-wal"].seen)
    assert damage_behind(io.BytesIO(left), max(readable, 0), 4096) is None


async def survive(disk: Disk, path: pathlib.Path, chance: random.Random, losses: int) -> None:
    stored: Rows = {}
    for _ in range(losses):
        log = SqliteLog(path)
        disk.operations_left = chance.randint(1, 400)
        perhaps = await write_until_the_power_goes(log, chance, stored)
        with contextlib.suppress(StorageError, apsw.Error):
            await log.close()
        log._lock.close()
        assert disk.files[f"{path}-wal"].seen, "it is the log ahead of the database that is tested"
        disk.lose_power(chance)
        require_no_damage(disk, path)
        again = SqliteLog(path)
        _, rows = again.load()
        found = {row.revision: row for row in rows}
        await again.close()
        assert found in (stored, perhaps), f"{sorted(stored.keys() - found.keys())[:5]} are lost"
        stored = found


@pytest.mark.parametrize("seed", range(24))
async def test_what_was_acknowledged_is_there_and_nothing_is_there_in_part(
    path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    with on_failing_disk(path, monkeypatch) as disk:
        await survive(disk, path, random.Random(seed), losses=6)


async def test_the_disk_is_as_bad_as_it_says(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that does not wait for the disk loses something within a few losses of power, and is refused then."""

    async def survive_often() -> None:
        for seed in range(20):
            with on_failing_disk(path, monkeypatch, synchronous="NORMAL") as disk:
                await survive(disk, path, random.Random(seed), losses=6)

    with pytest.raises(CorruptLog, match="has lost writes that were acknowledged"):
        await survive_often()
