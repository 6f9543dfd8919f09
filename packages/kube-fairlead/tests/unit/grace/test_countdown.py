from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest

from kube_fairlead import grace
from kube_fairlead.api.time import format_time
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock


def deleting(clock: VirtualClock, seconds: int | None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"deletionTimestamp": format_time(clock.now() + dt.timedelta(seconds=seconds or 0))}
    if seconds is not None:
        metadata["deletionGracePeriodSeconds"] = seconds
    return {"metadata": metadata}


class Waiting:
    """Somebody who waits for a countdown, and when it was over for him."""

    def __init__(self, clock: VirtualClock, countdown: grace.Countdown) -> None:
        self.clock, self.countdown = clock, countdown
        self.over: list[float] = []

    async def run(self) -> None:
        await self.countdown.wait()
        self.over.append(self.clock.monotonic())


async def test_it_waits_for_the_deadline() -> None:
    clock = VirtualClock()
    waiting = Waiting(clock, grace.Countdown(clock, deleting(clock, 300)))
    async with tasks.TaskScope("test") as scope:
        scope.start(waiting.run(), name="wait")
        await clock.advance(299)
        assert waiting.over == []
        assert waiting.countdown.remaining == 1
        await clock.advance(10)
    assert waiting.over == [300]
    assert waiting.countdown.remaining == 0


async def test_it_wakes_when_the_deadline_moves_earlier() -> None:
    clock = VirtualClock()
    countdown = grace.Countdown(clock, deleting(clock, 300))
    waiting = Waiting(clock, countdown)
    async with tasks.TaskScope("test") as scope:
        scope.start(waiting.run(), name="wait")
        await clock.advance(100)
        countdown.update(deleting(clock, 10))
        await clock.advance(9)
        assert waiting.over == []
        await clock.advance(200)
    assert waiting.over == [110]


async def test_it_wakes_at_once_when_forced() -> None:
    clock = VirtualClock()
    countdown = grace.Countdown(clock, deleting(clock, 300), native=True)
    waiting = Waiting(clock, countdown)
    async with tasks.TaskScope("test") as scope:
        scope.start(waiting.run(), name="wait")
        await clock.advance(5)
        countdown.update(deleting(clock, 0))
        await clock.settle()
        assert countdown.is_forced
    assert waiting.over == [5]


async def test_without_a_deadline_it_waits_for_one() -> None:
    clock = VirtualClock()
    countdown = grace.Countdown(clock, deleting(clock, None), native=True)
    waiting = Waiting(clock, countdown)
    async with tasks.TaskScope("test") as scope:
        scope.start(waiting.run(), name="wait")
        await clock.advance(100_000)
        assert waiting.over == []
        assert countdown.remaining is None
        countdown.update(deleting(clock, 0))
    assert waiting.over == [100_000]


async def test_the_default_applies_when_nobody_named_a_deadline() -> None:
    clock = VirtualClock()
    waiting = Waiting(clock, grace.Countdown(clock, deleting(clock, None), default_seconds=45))
    async with tasks.TaskScope("test") as scope:
        scope.start(waiting.run(), name="wait")
        await clock.advance(60)
    assert waiting.over == [45]


async def test_an_object_that_is_not_deleted_has_all_the_time() -> None:
    clock = VirtualClock()
    countdown = grace.Countdown(clock, {"metadata": {}}, default_seconds=45)
    waiting = Waiting(clock, countdown)
    async with tasks.TaskScope("test") as scope:
        scope.start(waiting.run(), name="wait")
        await clock.advance(100)
        assert (countdown.is_forced, countdown.deadline, waiting.over) == (False, None, [])
        countdown.gone()
    assert waiting.over == [100]


async def test_what_has_expired_stays_expired() -> None:
    clock = VirtualClock()
    countdown = grace.Countdown(clock, deleting(clock, 10))
    late = deleting(clock, 300)
    async with tasks.TaskScope("test") as scope:
        scope.start(countdown.wait(), name="wait")
        await clock.advance(10)
    countdown.update(late)
    await countdown.wait()
    assert countdown.remaining == 0


async def test_work_that_is_done_in_time() -> None:
    clock = VirtualClock()
    countdown = grace.Countdown(clock, deleting(clock, 10))

    async def work() -> str:
        await clock.sleep(9)
        return "clean"

    async with tasks.TaskScope("test") as scope:
        result = scope.start(countdown.within(work()), name="within")
        await clock.advance(9)
    assert result.result() == "clean"
    assert tasks.live_tasks() == ()


async def test_work_that_takes_too_long_is_cancelled_and_has_ended() -> None:
    clock = VirtualClock()
    countdown = grace.Countdown(clock, deleting(clock, 10))
    ended = []

    async def work() -> None:
        try:
            await clock.sleep(11)
        finally:
            ended.append(clock.monotonic())

    with pytest.RaisesGroup(pytest.RaisesExc(grace.DeadlinePassed, match="the grace period is over")):
        async with tasks.TaskScope("test") as scope:
            scope.start(countdown.within(work()), name="within")
            await clock.advance(12)
    assert ended == [10]


async def test_work_for_an_object_that_has_gone_is_cancelled() -> None:
    clock = VirtualClock()
    countdown = grace.Countdown(clock, deleting(clock, 10))
    with pytest.RaisesGroup(pytest.RaisesExc(grace.DeadlinePassed, match="the object has gone")):
        async with tasks.TaskScope("test") as scope:
            scope.start(countdown.within(clock.sleep(5)), name="within")
            await clock.advance(2)
            countdown.gone()
            await clock.settle()


async def test_work_that_fails_fails() -> None:
    clock = VirtualClock()

    async def work() -> None:
        raise LookupError("no such machine")

    with pytest.raises(LookupError):
        await grace.Countdown(clock, deleting(clock, 10)).within(work())
    assert tasks.live_tasks() == ()


async def test_work_that_cannot_stop_at_the_deadline_still_counts() -> None:
    clock = VirtualClock()

    async def work() -> str:
        try:
            await clock.sleep(20)
        except asyncio.CancelledError:
            return "clean after all"
        return "unreachable"

    async with tasks.TaskScope("test") as scope:
        result = scope.start(grace.Countdown(clock, deleting(clock, 10)).within(work()), name="within")
        await clock.advance(10)
    assert result.result() == "clean after all"


async def test_cancelling_the_wait_ends_the_work() -> None:
    clock = VirtualClock()
    countdown = grace.Countdown(clock, deleting(clock, 10))
    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(countdown.within(clock.sleep(20)), name="within")
        await clock.advance(1)
    assert tasks.live_tasks() == ()
    assert clock.sleepers == 0
