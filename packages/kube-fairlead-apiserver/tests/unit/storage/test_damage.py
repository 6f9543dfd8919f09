"""Damage to the files of a log is found before anything is lost, and a crash is never taken for damage."""

from __future__ import annotations

import contextlib
import pathlib
import random
import re
import shutil
from collections.abc import Callable

import apsw
import pytest

from kube_fairlead_apiserver.storage import highwater
from kube_fairlead_apiserver.storage.copies import copy_database
from kube_fairlead_apiserver.storage.highwater import DatabaseContent, Mark, loss_of
from kube_fairlead_apiserver.storage.interface import CorruptLog, ForeignDatabase, Row, StorageError
from kube_fairlead_apiserver.storage.sqlite import SqliteLog

FILES = ("", "-wal", "-acknowledged")
FRAME_BYTES = 24 + 4096
Damage = Callable[[pathlib.Path, random.Random], None]


def beside(path: pathlib.Path, end: str) -> pathlib.Path:
    return path.with_name(path.name + end)


def wal(path: pathlib.Path) -> pathlib.Path:
    return beside(path, "-wal")


async def crashed(
    folder: pathlib.Path, *, commits: int = 60, seed: int = 1, checkpointed: bool = False
) -> pathlib.Path:
    """The files of a log as a killed process leaves them, with so many commits acknowledged."""
    chance = random.Random(seed)
    living = folder / "living" / "log.db"
    living.parent.mkdir()
    log = SqliteLog(living)
    revision = 0
    for number in range(commits):
        rows = []
        for _ in range(chance.choice([1, 1, 2, 40])):
            revision += 1
            rows.append(Row(revision, "configmaps", f"ns/{revision}", chance.randbytes(chance.choice([20, 900, 6000]))))
        await log.append(rows)
        if number == commits // 2:
            await log.compact(revision // 2, list(range(1, revision // 2)))
            if checkpointed:
                log._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
    path = folder / "log.db"
    for end in FILES:
        shutil.copyfile(beside(living, end), beside(path, end))
    await log.close()
    shutil.rmtree(living.parent)
    return path


async def loaded(path: pathlib.Path, **options: int) -> dict[int, bytes | None]:
    log = SqliteLog(path, **options)
    try:
        return {row.revision: row.value for row in log.load()[1]}
    finally:
        await log.close()


def image(path: pathlib.Path) -> dict[str, bytes]:
    found = {end: beside(path, end).read_bytes() for end in FILES if beside(path, end).exists()}
    return {end: content for end, content in found.items() if content or end != "-wal"}  # SQLite makes an empty one


def put_back(path: pathlib.Path, content: dict[str, bytes]) -> None:
    for end in (*FILES, "-shm"):
        beside(path, end).unlink(missing_ok=True)
    for end, data in content.items():
        beside(path, end).write_bytes(data)


def flip(path: pathlib.Path, chance: random.Random) -> None:
    data = bytearray(wal(path).read_bytes())
    position = chance.randrange(len(data))
    data[position] ^= 1 << chance.randrange(8)
    wal(path).write_bytes(bytes(data))


def flip_last_commit(path: pathlib.Path, chance: random.Random) -> None:
    data = bytearray(wal(path).read_bytes())
    data[len(data) - 1 - chance.randrange(4096)] ^= 1 << chance.randrange(8)
    wal(path).write_bytes(bytes(data))


def cut(path: pathlib.Path, chance: random.Random) -> None:
    data = wal(path).read_bytes()
    wal(path).write_bytes(data[: chance.randrange(len(data))])


def cut_in_half(path: pathlib.Path, chance: random.Random) -> None:
    del chance
    data = wal(path).read_bytes()
    wal(path).write_bytes(data[: len(data) // 2])


def overwrite(path: pathlib.Path, chance: random.Random) -> None:
    data = bytearray(wal(path).read_bytes())
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.choice([16, 512, 4096, 20_000]))
    data[start:end] = b"\xa5" * (end - start)
    wal(path).write_bytes(bytes(data))


def remove(path: pathlib.Path, chance: random.Random) -> None:
    del chance
    wal(path).unlink()


async def test_a_killed_server_starts_without_a_word(tmp_path: pathlib.Path) -> None:
    path = await crashed(tmp_path)
    assert max(await loaded(path)) == max(await loaded(path))


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("damage", [flip, flip_last_commit, cut, cut_in_half, overwrite, remove])
async def test_a_damaged_write_ahead_log_is_refused_with_the_ways_out(
    tmp_path: pathlib.Path, damage: Damage, checkpointed: bool
) -> None:
    path = await crashed(tmp_path, checkpointed=checkpointed)
    whole = image(path)
    acknowledged = await loaded(path)
    chance = random.Random(7)
    refusals: list[str] = []
    for _ in range(12):
        put_back(path, whole)
        damage(path, chance)
        damaged = image(path)
        try:
            found = await loaded(path)
        except CorruptLog as error:
            refusals.append(str(error))
            assert image(path) == damaged, "what is refused is left as it is"
        else:
            assert found == acknowledged, "nothing is lost in silence"
    assert all(re.search(r"restore BACKUP_FILE.*--accept-data-loss-since \d+$", refusal) for refusal in refusals)
    # After a checkpoint the log holds frames of before, which may be damaged without harm.
    assert len(refusals) >= (1 if checkpointed else 11)


async def test_commits_behind_a_bad_frame_tell_when_the_mark_is_as_old_as_a_loss_of_power_leaves_it(
    tmp_path: pathlib.Path,
) -> None:
    path = await crashed(tmp_path)
    mark = highwater.read_mark(beside(path, "-acknowledged"))
    assert mark is not None
    old = Mark(mark.identity, 0, DatabaseContent(0, 0, 0, 0))
    highwater.HighWaterMark.create(beside(path, "-acknowledged"), old)
    whole = image(path)
    frames = (len(whole["-wal"]) - 32) // FRAME_BYTES
    assert frames > 200
    for frame in range(0, frames - 100, 17):
        for position in (2, 100):  # in the header of the frame, and in its page
            put_back(path, whole)
            data = bytearray(whole["-wal"])
            data[32 + frame * FRAME_BYTES + position] ^= 4
            wal(path).write_bytes(bytes(data))
            with pytest.raises(CorruptLog, match="with later commits behind it"):
                await loaded(path)
    put_back(path, {**whole, "-wal": b"\xff" + whole["-wal"][1:]})
    with pytest.raises(CorruptLog, match="damaged in frame 1, with later commits behind it"):
        await loaded(path)


async def test_a_commit_that_was_never_acknowledged_may_be_torn(tmp_path: pathlib.Path) -> None:
    """The mark lags by one commit, as when the process ends between the disk and the mark."""
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    await log.append([Row(n, "pods", f"ns/{n}", b"x" * 500) for n in range(1, 50)])
    frames = wal(path).stat().st_size
    before = image(path)
    await log.append([Row(n, "pods", f"ns/{n}", b"y" * 500) for n in range(50, 150)])
    after = wal(path).read_bytes()
    await log.close()
    for torn in range(frames, len(after), 1500):
        for rest in (b"", bytes(600) + after[torn + 600 :]):
            put_back(path, {**before, "-wal": after[:torn] + rest})
            assert max(await loaded(path)) in (49, 149)


async def test_the_loss_can_be_accepted_by_the_revision_that_was_named(tmp_path: pathlib.Path) -> None:
    path = await crashed(tmp_path)
    acknowledged = await loaded(path)
    shutil.rmtree(tmp_path / "again", ignore_errors=True)
    (tmp_path / "again").mkdir()
    path = await crashed(tmp_path / "again")
    cut_in_half(path, random.Random(0))
    damaged = wal(path).read_bytes()
    with pytest.raises(CorruptLog) as refusal:
        await loaded(path)
    since = int(str(refusal.value).rpartition(" ")[2])
    assert 0 < since < max(acknowledged)
    with pytest.raises(CorruptLog, match=f"--accept-data-loss-since {since}"):
        await loaded(path, accept_loss_since=since + 1)
    log = SqliteLog(path, accept_loss_since=since)
    compacted, rows = log.load()
    assert {row.revision: row.value for row in rows}.items() <= acknowledged.items() | {
        (revision, value) for revision, value in (await older(tmp_path, since)).items()
    }
    assert compacted > max(acknowledged), "no revision is given a second time"
    await log.append([Row(compacted + 1, "configmaps", "ns/new", b"{}")])
    await log.close()
    assert beside(path, f"-wal.lost-since-{since}").read_bytes() == damaged
    assert compacted + 1 in await loaded(path), "and from then on it starts as always"
    assert compacted + 1 in await loaded(path, accept_loss_since=since), "whatever the flag still says"


async def test_a_crash_after_the_loss_was_accepted_is_only_a_crash(tmp_path: pathlib.Path) -> None:
    """What was behind the damage is not found a second time."""
    path = await crashed(tmp_path)
    data = bytearray(wal(path).read_bytes())
    data[32 + 20 * FRAME_BYTES + 100] ^= 1
    wal(path).write_bytes(bytes(data))
    with pytest.raises(CorruptLog, match="with later commits behind it") as refusal:
        await loaded(path)
    log = SqliteLog(path, accept_loss_since=int(str(refusal.value).rpartition(" ")[2]))
    newest = log.load()[0] + 1
    await log.append([Row(newest, "configmaps", "ns/new", b"{}")])
    after = image(path)
    await log.close()
    put_back(path, after)
    assert newest in await loaded(path)


async def older(folder: pathlib.Path, until: int) -> dict[int, bytes | None]:
    """What the log of `crashed` held before its compaction dropped it."""
    (folder / "older").mkdir()
    path = await crashed(folder / "older", commits=30)
    return {revision: value for revision, value in (await loaded(path)).items() if revision <= until}


async def test_a_missing_mark_is_refused(tmp_path: pathlib.Path) -> None:
    path = await crashed(tmp_path)
    beside(path, "-acknowledged").unlink()
    with pytest.raises(CorruptLog, match=r"log\.db-acknowledged, which says what was acknowledged, is missing"):
        SqliteLog(path)


async def test_an_older_copy_of_the_database_alone_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    await log.append([Row(1, "pods", "ns/1", b"{}")])
    await log.close()
    older_copy = path.read_bytes()
    log = SqliteLog(path)
    await log.append([Row(2, "pods", "ns/2", b"{}")])
    await log.close()
    path.write_bytes(older_copy)
    with pytest.raises(CorruptLog, match=r"acknowledged up to revision 2.*ends at revision 1"):
        SqliteLog(path)


async def test_another_programs_checkpoint_changes_nothing(tmp_path: pathlib.Path) -> None:
    path = await crashed(tmp_path)
    with contextlib.closing(apsw.Connection(str(path))) as other:
        rows = other.execute("SELECT count(*) FROM log").fetchone()
    assert not wal(path).exists()
    assert rows is not None
    assert len(await loaded(path)) == rows[0]


@pytest.mark.parametrize("damage", [cut_in_half, remove])
async def test_a_damaged_log_is_not_backed_up_and_stays_as_it_is(tmp_path: pathlib.Path, damage: Damage) -> None:
    path = await crashed(tmp_path)
    damage(path, random.Random(0))
    before = image(path)
    with pytest.raises(CorruptLog, match="has lost writes that were acknowledged"):
        copy_database(path, tmp_path / "backup.db")
    assert image(path) == before
    assert not (tmp_path / "backup.db").exists()


async def test_the_backup_of_a_killed_server_takes_nothing_from_it(tmp_path: pathlib.Path) -> None:
    path = await crashed(tmp_path)
    before = image(path)
    copy_database(path, tmp_path / "backup.db")
    assert image(path) == before
    assert await loaded(path) == await loaded(tmp_path / "backup.db")


@pytest.mark.parametrize("left", ["-wal", "-acknowledged"])
async def test_what_is_left_of_a_removed_database_is_not_taken_for_a_new_one(tmp_path: pathlib.Path, left: str) -> None:
    path = await crashed(tmp_path)
    for end in FILES:
        if end != left:
            beside(path, end).unlink()
    with pytest.raises(CorruptLog, match=r"log\.db is missing, and .* is there"):
        SqliteLog(path)
    assert beside(path, left).stat().st_size


async def test_an_empty_database_beside_a_write_ahead_log_is_refused_and_left(tmp_path: pathlib.Path) -> None:
    path = await crashed(tmp_path)
    path.write_bytes(b"")
    before = image(path)
    with pytest.raises(CorruptLog, match="is empty beside a write-ahead log"):
        SqliteLog(path)
    with pytest.raises(StorageError, match="is empty"):
        copy_database(path, tmp_path / "backup.db")
    assert image(path) == before


async def test_an_empty_database_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "log.db").write_bytes(b"")
    with pytest.raises(CorruptLog, match="is empty, and a log never is"):
        SqliteLog(tmp_path / "log.db")


@pytest.mark.parametrize(
    "statements",
    [
        "CREATE TABLE t (x)",  # without any version: that of a new log
        "CREATE TABLE t (x); PRAGMA application_id = 252006673; PRAGMA user_version = 1",
        "CREATE TABLE log (x); CREATE TABLE facts (x); PRAGMA user_version = 1",
    ],
)
async def test_another_programs_database_is_refused_and_not_changed(tmp_path: pathlib.Path, statements: str) -> None:
    path = tmp_path / "log.db"
    with contextlib.closing(apsw.Connection(str(path))) as other:
        other.execute(statements).fetchall()
    before = path.read_bytes()
    with pytest.raises(ForeignDatabase, match="not one of an API server"):
        SqliteLog(path)
    assert path.read_bytes() == before
    assert sorted(found.name for found in tmp_path.iterdir()) == ["log.db", "log.db.lock"]


def test_a_mark_half_written_leaves_the_one_before_it(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "mark"
    highwater.HighWaterMark.create(path, Mark(7, 0, DatabaseContent(0, 0, 0, 0)))
    mark = highwater.HighWaterMark(path, Mark(7, 0, DatabaseContent(0, 0, 0, 0)))
    for revision in range(1, 4):
        mark.advance(DatabaseContent(revision, 0, 0, revision))
    mark.close()
    whole = bytearray(path.read_bytes())
    whole[4096 + 20] ^= 1  # the third is in the second slot
    path.write_bytes(bytes(whole))
    found = highwater.read_mark(path)
    assert found is not None
    assert found.content == DatabaseContent(2, 0, 0, 2)


def test_rows_are_counted_only_at_the_moment_of_the_mark() -> None:
    mark = DatabaseContent(revision=10, compacted=4, dropped=3, rows=7)
    assert loss_of(mark, mark) is None
    assert loss_of(DatabaseContent(10, 4, 3, 6), mark) == "7 rows were stored and 6 are there"
    assert loss_of(DatabaseContent(10, 4, 5, 5), mark) is None
    assert loss_of(DatabaseContent(11, 4, 3, 8), mark) is None
    assert loss_of(DatabaseContent(9, 4, 3, 6), mark) == "writes were acknowledged up to revision 10"
    assert loss_of(DatabaseContent(11, 0, 0, 11), mark) is not None
