from __future__ import annotations

import asyncio

import pytest

from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead_apiserver.storage.interface import DiskFull, Row
from kube_fairlead_lab.sim.disk import Disk
from kube_fairlead_lab.sim.loop import Process, SimLoop

BATCH = [Row(1, "t", "a", b"{}"), Row(2, "t", "b", b"{}")]


def test_a_crash_leaves_all_of_a_batch_or_nothing() -> None:
    left = set()
    for kill_after in range(200):
        loop, disk = SimLoop(SeededRandomness(1)), Disk(SeededRandomness(1))
        process = Process("server")
        loop.start(process, disk.open().append(BATCH), name="append")
        loop.call_at(kill_after / 20_000, loop.kill, process, context=loop.harness.context)
        loop.run_until_complete(loop.start(loop.harness, asyncio.sleep(1.0), name="play"))
        left.add(len(list(disk.load()[1])))
        loop.close()
    assert left == {0, 2}


def test_a_full_disk_stores_nothing() -> None:
    loop, disk = SimLoop(SeededRandomness(1)), Disk(SeededRandomness(1))
    disk.is_full = True
    with pytest.raises(DiskFull):
        loop.run_until_complete(loop.start(loop.harness, disk.open().append(BATCH), name="append"))
    loop.close()
    assert list(disk.load()[1]) == []


def test_compaction_drops_the_named_rows() -> None:
    loop, disk = SimLoop(SeededRandomness(1)), Disk(SeededRandomness(1))
    disk.store(BATCH)
    loop.run_until_complete(loop.start(loop.harness, disk.open().compact(2, [1]), name="compact"))
    loop.close()
    compacted, rows = disk.load()
    assert (compacted, [row.revision for row in rows], disk.newest) == (2, [2], 2)
