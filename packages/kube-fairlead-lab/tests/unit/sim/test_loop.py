from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead_lab.sim.clock import SimClock
from kube_fairlead_lab.sim.loop import LoopStarved, Process, SimLoop, current_process


@pytest.fixture
def loop() -> SimLoop:
    return SimLoop(SeededRandomness(1))


def play(loop: SimLoop, seconds: float) -> None:
    try:
        loop.run_until_complete(loop.start(loop.harness, asyncio.sleep(seconds), name="play"))
    finally:
        loop.close()


def test_time_moves_to_the_next_timer(loop: SimLoop) -> None:
    seen: list[float] = []

    async def sleeper(seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append(loop.time())

    process = Process("p")
    for seconds in (3600.0, 0.5, 86400.0):
        loop.start(process, sleeper(seconds), name="sleeper")
    play(loop, 100_000.0)
    assert seen == [0.5, 3600.0, 86400.0]


def test_a_killed_process_runs_no_further_line(loop: SimLoop) -> None:
    process, lines = Process("p"), []

    async def work() -> None:
        try:
            await asyncio.sleep(1.0)
            lines.append("woke")
        finally:
            if process.is_alive:
                lines.append("finally")

    task = loop.start(process, work(), name="work")
    loop.call_at(0.5, loop.kill, process, context=loop.harness.context)
    play(loop, 10.0)
    assert (lines, task.done()) == ([], False)


def test_a_paused_process_runs_when_it_continues(loop: SimLoop) -> None:
    process, woke = Process("p"), []

    async def work() -> None:
        await asyncio.sleep(1.0)
        woke.append(loop.time())

    loop.start(process, work(), name="work")
    loop.call_at(0.5, loop.pause, process, context=loop.harness.context)
    loop.call_at(7.0, loop.resume, process, context=loop.harness.context)
    play(loop, 10.0)
    assert woke == [7.0]


def interleaving(seed: int) -> str:
    loop = SimLoop(SeededRandomness(seed))
    order: list[str] = []

    async def work() -> None:
        for _ in range(5):
            order.append(current_process().name)
            await asyncio.sleep(0)

    for name in "abc":
        loop.start(Process(name), work(), name=name)
    play(loop, 1.0)
    return "".join(order)


def test_the_seed_decides_which_process_runs() -> None:
    assert interleaving(1) == interleaving(1)
    assert len({interleaving(seed) for seed in range(20)}) > 10


def test_within_a_process_the_order_stays() -> None:
    loop = SimLoop(SeededRandomness(3))
    order: list[int] = []
    context = Process("p").context
    other = Process("q").context
    for number in range(50):
        loop.call_soon(order.append, number, context=context)
        loop.call_soon(lambda: None, context=other)
    play(loop, 1.0)
    assert order == list(range(50))


def test_each_process_has_its_own_task_factory(loop: SimLoop) -> None:
    made: list[str] = []

    def factory(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(current_process().name)
        return asyncio.Task(work, loop=loop, **options)

    async def main(*, own: bool) -> None:
        if own:
            asyncio.get_running_loop().set_task_factory(factory)
        await asyncio.create_task(asyncio.sleep(1.0))

    loop.start(Process("a"), main(own=True), name="a")
    loop.start(Process("b"), main(own=False), name="b")
    play(loop, 5.0)
    assert made == ["a"]


def test_a_loop_without_timers_is_an_error(loop: SimLoop) -> None:
    with pytest.raises(LoopStarved, match="no timer"):
        loop.run_until_complete(loop.start(loop.harness, asyncio.Event().wait(), name="for ever"))
    loop.close()


def test_clocks_differ_and_jump(loop: SimLoop) -> None:
    fast, slow = SimClock(loop, rate=2.0), SimClock(loop, rate=0.5, offset_seconds=10.0)
    begun = slow.now()

    async def main() -> None:
        await fast.sleep(10.0)
        assert (loop.time(), fast.monotonic(), slow.monotonic()) == (5.0, 10.0, 2.5)
        slow.jump(-100.0)
        assert (slow.now() - begun).total_seconds() == -97.5
        assert slow.monotonic() == 2.5
        with pytest.raises(TimeoutError):
            async with slow.timeout(1.0):
                await asyncio.sleep(60.0)
        assert loop.time() == 7.0

    loop.run_until_complete(loop.start(loop.harness, main(), name="main"))
    loop.close()
