from __future__ import annotations

import asyncio
import datetime as dt
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.base.clock import Clock, ClockStalled, RealClock, VirtualClock
from kube_fairlead.base.tasks import OnExit, TaskScope
from kube_fairlead_lab.testing import import_real

START = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


async def test_virtual_time_stands_still(clock: VirtualClock) -> None:
    await asyncio.sleep(0)
    assert clock.now() == START
    assert clock.monotonic() == 0


async def test_both_scales_move_together(clock: VirtualClock) -> None:
    await clock.advance(90.5)
    assert clock.now() == START + dt.timedelta(seconds=90.5)
    assert clock.monotonic() == 90.5


@given(st.lists(st.integers(min_value=0, max_value=50), max_size=12), st.integers(min_value=1, max_value=60))
def test_sleepers_wake_in_order_and_on_time(delays: list[int], step: int) -> None:
    """However far each step goes, everyone sees the clock at exactly his own deadline, in order."""

    async def run() -> list[tuple[int, float]]:
        clock = VirtualClock(START)
        wakened: list[tuple[int, float]] = []

        async def sleeper(number: int, seconds: int) -> None:
            await clock.sleep(seconds)
            wakened.append((number, clock.monotonic()))

        async with TaskScope("test") as scope:
            for number, seconds in enumerate(delays):
                scope.start(sleeper(number, seconds), name=str(number))
            while clock.monotonic() <= 50:
                await clock.advance(step)
        assert clock.sleepers == 0
        return wakened

    order = sorted(range(len(delays)), key=lambda number: (delays[number], number))
    assert asyncio.run(run()) == [(number, delays[number]) for number in order]


async def test_a_wakened_task_may_sleep_again_within_one_advance(clock: VirtualClock) -> None:
    seen: list[float] = []

    async def ticking() -> None:
        while True:
            await clock.sleep(10)
            seen.append(clock.monotonic())

    async with TaskScope("test", on_exit=OnExit.CANCEL) as scope:
        scope.start(ticking(), name="ticking")
        await clock.advance(35)
    assert seen == [10, 20, 30]
    assert clock.monotonic() == 35


async def test_what_a_wakening_sets_off_runs_before_time_moves_on(clock: VirtualClock) -> None:
    """A chain of twenty tasks, each waking the next, all at the same moment."""
    links = [asyncio.Event() for _ in range(21)]
    seen: list[float] = []

    async def link(number: int) -> None:
        await links[number].wait()
        seen.append(clock.monotonic())
        links[number + 1].set()

    async def first() -> None:
        await clock.sleep(5)
        links[0].set()

    async with TaskScope("test") as scope:
        scope.start(first(), name="first")
        for number in range(20):
            scope.start(link(number), name=f"link-{number}")
        await clock.advance(100)
    assert seen == [5.0] * 20


async def test_a_cancelled_sleeper_is_forgotten(clock: VirtualClock) -> None:
    async with TaskScope("test") as scope:
        sleeping = scope.start(clock.sleep(10), name="sleeping")
        await clock.settle()
        assert clock.sleepers == 1
        sleeping.cancel()
        await clock.settle()
        assert (clock.sleepers, clock.next_deadline) == (0, None)
        await clock.advance(20)


@pytest.mark.parametrize("seconds", [0, -1])
async def test_sleeping_no_time_yields_once(clock: VirtualClock, seconds: float) -> None:
    turns: list[str] = []

    async def other() -> None:
        turns.append("other")

    async with TaskScope("test") as scope:
        scope.start(other(), name="other")
        await clock.sleep(seconds)
        turns.append("me")
    assert turns == ["other", "me"]


async def test_timeout_ends_a_block_at_its_moment(clock: VirtualClock) -> None:
    ended: list[float] = []

    async def patient() -> None:
        with pytest.raises(TimeoutError):
            async with clock.timeout(3):
                await asyncio.Event().wait()
        ended.append(clock.monotonic())

    async with TaskScope("test") as scope:
        scope.start(patient(), name="patient")
        await clock.advance(2.5)
        assert ended == []
        await clock.advance(10)
    assert ended == [3.0]
    assert clock.sleepers == 0


async def test_timeout_does_not_touch_a_block_that_is_in_time(clock: VirtualClock) -> None:
    async with clock.timeout(3):
        pass
    assert clock.sleepers == 0
    await clock.advance(10)


@pytest.mark.parametrize("make", [lambda: VirtualClock(START), RealClock], ids=["virtual", "real"])
class TestEveryClock:
    async def test_no_limit(self, make: type[RealClock]) -> None:
        clock: Clock = make()
        async with clock.timeout(None):
            await asyncio.sleep(0)

    @pytest.mark.parametrize("seconds", [0, -1])
    async def test_a_limit_that_is_over(self, make: type[RealClock], seconds: float) -> None:
        clock: Clock = make()
        with pytest.raises(TimeoutError):
            async with clock.timeout(seconds):
                await asyncio.Event().wait()

    async def test_timeout_passes_on_what_the_block_raises(self, make: type[RealClock]) -> None:
        clock: Clock = make()
        with pytest.raises(KeyError):
            async with clock.timeout(10):
                raise KeyError

    async def test_timeout_is_not_mistaken_for_cancellation(self, make: type[RealClock]) -> None:
        clock: Clock = make()

        async def waiting() -> None:
            async with clock.timeout(1000):
                await asyncio.Event().wait()

        async with TaskScope("test") as scope:
            task = scope.start(waiting(), name="waiting")
            await asyncio.sleep(0)
            task.cancel()
        assert task.cancelled()

    async def test_time_is_aware_and_in_utc(self, make: type[RealClock]) -> None:
        clock: Clock = make()
        assert clock.now().tzinfo is dt.UTC

    async def test_monotonic_never_goes_back(self, make: type[RealClock]) -> None:
        clock: Clock = make()
        before = clock.monotonic()
        await clock.sleep(0)
        assert clock.monotonic() >= before


async def test_real_sleep_takes_its_time() -> None:
    clock = RealClock()
    before = clock.monotonic()
    await clock.sleep(0.01)
    assert clock.monotonic() - before >= 0.009


async def test_jumping_from_sleeper_to_sleeper(clock: VirtualClock) -> None:
    async with TaskScope("test") as scope:
        scope.start(clock.sleep(7), name="a")
        scope.start(clock.sleep(3600), name="b")
        assert await clock.advance_to_next()
        assert clock.monotonic() == 7
        assert clock.next_deadline == 3600
        assert await clock.advance_to_next()
        assert clock.monotonic() == 3600
        assert not await clock.advance_to_next()


async def test_a_task_that_never_waits_is_found(clock: VirtualClock) -> None:
    async def spinning() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    async with TaskScope("test", on_exit=OnExit.CANCEL) as scope:
        scope.start(spinning(), name="spinning")
        with pytest.raises(ClockStalled, match="still busy"):
            await clock.advance(1)


async def test_time_cannot_go_back(clock: VirtualClock) -> None:
    with pytest.raises(ValueError, match="backwards"):
        await clock.advance(-1)


def test_the_start_must_be_aware() -> None:
    with pytest.raises(ValueError, match="aware"):
        VirtualClock(dt.datetime(2026, 1, 1))  # noqa: DTZ001 - the mistake under test


def test_virtual_time_runs_on_other_event_loops() -> None:
    uvloop = import_real("uvloop", remedy="Windows has none")

    async def run() -> list[float]:
        clock = VirtualClock(START)
        seen: list[float] = []

        async def sleeper() -> None:
            await clock.sleep(1)
            seen.append(clock.monotonic())
            await clock.sleep(1)
            seen.append(clock.monotonic())

        async with TaskScope("test") as scope:
            scope.start(sleeper(), name="sleeper")
            await clock.advance(5)
        return seen

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(run()) == [1.0, 2.0]
