from __future__ import annotations

import datetime as dt

import pytest

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.tasks import TaskScope
from kube_fairlead_apiserver.storage.group_commit import GroupCommit


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(dt.datetime(2026, 1, 1, tzinfo=dt.UTC))


async def committed(
    group_commit: GroupCommit, clock: VirtualClock, seconds: float, *, answered: int, waiting: int
) -> None:
    began = group_commit.begin()
    await clock.advance(seconds)
    group_commit.end(began, answered=answered, waiting=waiting)


async def test_who_writes_alone_never_waits(clock: VirtualClock) -> None:
    group_commit = GroupCommit(clock)
    await group_commit.wait(1)
    await committed(group_commit, clock, 5.0, answered=1, waiting=1)
    await group_commit.wait(1)  # with a clock that stands still, a wait would never end


async def test_a_crowd_is_waited_for_until_it_is_there(clock: VirtualClock) -> None:
    group_commit = GroupCommit(clock)
    await committed(group_commit, clock, 0.008, answered=16, waiting=16)
    async with TaskScope("test") as scope:
        waiting = scope.start(group_commit.wait(16), name="wait")
        await clock.advance(0.001)
        group_commit.arrived(31)
        await clock.advance(0.001)
        assert not waiting.done()
        group_commit.arrived(32)
        await waiting
    assert clock.monotonic() < 0.011


@pytest.mark.parametrize(("commit_seconds", "patience_seconds"), [(0.008, 0.004), (3.0, 0.01)])
async def test_and_not_for_long(clock: VirtualClock, commit_seconds: float, patience_seconds: float) -> None:
    group_commit = GroupCommit(clock)
    await committed(group_commit, clock, commit_seconds, answered=30, waiting=0)
    async with TaskScope("test") as scope:
        waiting = scope.start(group_commit.wait(1), name="wait")
        await clock.advance(patience_seconds * 0.9)
        assert not waiting.done()
        await clock.advance(patience_seconds * 0.2)
        await waiting


async def test_a_quick_disk_is_not_waited_for(clock: VirtualClock) -> None:
    group_commit = GroupCommit(clock)
    await committed(group_commit, clock, 0.0005, answered=30, waiting=0)
    await group_commit.wait(1)


async def test_without_a_clock_nobody_waits() -> None:
    group_commit = GroupCommit(None)
    group_commit.end(group_commit.begin(), answered=30, waiting=30)
    await group_commit.wait(1)
