"""What every log promises (numbers as in `storage.interface`), kept by each implementation."""

from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator, Callable

import pytest

from kube_fairlead_apiserver.storage.interface import Log, Row
from kube_fairlead_apiserver.storage.memory_log import MemoryLog
from kube_fairlead_apiserver.storage.sqlite import SqliteLog

Reopen = Callable[[], Log]


@pytest.fixture(params=["memory", "sqlite"])
async def reopen(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> AsyncIterator[Reopen]:
    """Opens the same log again, as a restarted process would."""
    opened: list[Log] = []
    memory = MemoryLog()

    def open_log() -> Log:
        log: Log = memory if request.param == "memory" else SqliteLog(tmp_path / "log.db")
        opened.append(log)
        return log

    yield open_log
    for log in opened:
        await log.close()


async def test_rows_come_back_in_order_after_a_restart(reopen: Reopen) -> None:
    log = reopen()
    rows = [Row(n, "pods", f"ns/{n}", b'{"metadata":{"n":%d}}' % n) for n in range(1, 6)]
    await log.append(rows[:2])
    await log.append(rows[2:])
    await log.append([Row(6, "pods", "ns/1", None)])
    await log.close()
    compacted, loaded = reopen().load()
    assert compacted == 0
    assert list(loaded) == [*rows, Row(6, "pods", "ns/1", None)]


async def test_compaction_drops_the_named_rows_and_is_remembered(reopen: Reopen) -> None:
    log = reopen()
    await log.append([Row(n, "pods", "ns/a", b"x%d" % n) for n in range(1, 5)])
    await log.compact(3, [1, 2])
    await log.close()
    compacted, loaded = reopen().load()
    assert compacted == 3
    assert [row.revision for row in loaded] == [3, 4]


async def test_an_empty_batch_changes_nothing(reopen: Reopen) -> None:
    log = reopen()
    await log.append([])
    compacted, loaded = log.load()
    assert (compacted, list(loaded)) == (0, [])
