from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.base.workqueue import QueueShutDown, WorkQueue


def make(clock: VirtualClock | None = None) -> WorkQueue[str]:
    return WorkQueue(clock or VirtualClock(), SeededRandomness(0))


async def test_keys_come_out_in_order_and_once() -> None:
    queue = make()
    for key in ("a", "b", "a", "c", "b"):
        queue.add(key)
    assert len(queue) == 3
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


async def test_a_key_in_work_waits_again_only_when_done() -> None:
    queue = make()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert len(queue) == 1
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_done_without_a_new_add_leaves_nothing() -> None:
    queue = make()
    queue.add("a")
    async with queue.take() as key:
        assert key == "a"
    assert len(queue) == 0


@pytest.mark.parametrize("seconds", [1e-14, 1e-7, 1e-6])
async def test_a_delay_lets_time_pass_however_short_it_is(seconds: float) -> None:
    clock = VirtualClock()
    queue = make(clock)
    queue.add_after("a", seconds)
    async with tasks.TaskScope("test") as scope:
        getting = scope.start(queue.get(), name="get")
        await clock.settle()
        assert not getting.done()
        await clock.advance(1.0)
        assert await getting == "a"


async def test_a_failed_block_is_done_too() -> None:
    queue = make()
    queue.add("a")
    with pytest.raises(ZeroDivisionError):
        async with queue.take():
            raise ZeroDivisionError
    queue.add("a")
    assert len(queue) == 1


async def test_a_worker_waits_for_a_key() -> None:
    clock = VirtualClock()
    queue = make(clock)
    async with tasks.TaskScope("test") as scope:
        taken = scope.start(queue.get(), name="worker")
        await clock.settle()
        assert not taken.done()
        queue.add("a")
    assert taken.result() == "a"


async def test_a_delayed_key_comes_at_its_time() -> None:
    clock = VirtualClock()
    queue = make(clock)
    queue.add_after("late", 10)
    queue.add_after("early", 5)
    async with tasks.TaskScope("test") as scope:
        worker = scope.start(queue.get(), name="worker")
        await clock.advance(4.9)
        assert not worker.done()
        await clock.advance(0.2)
    assert worker.result() == "early"
    assert len(queue) == 0
    await clock.advance(5)
    assert len(queue) == 1


async def test_of_several_delays_the_shortest_counts() -> None:
    clock = VirtualClock()
    queue = make(clock)
    queue.add_after("a", 10)
    queue.add_after("a", 3)
    queue.add_after("a", 7)
    await clock.advance(3)
    assert len(queue) == 1
    assert await queue.get() == "a"
    queue.done("a")
    await clock.advance(20)
    assert len(queue) == 0


async def test_failures_are_delayed_longer_each_time_until_forgotten() -> None:
    clock = VirtualClock()
    queue = make(clock)
    delays = []
    for _ in range(4):
        queue.add_rate_limited("a")
        before = clock.monotonic()
        while not len(queue):
            await clock.advance(0.001)
        delays.append(round(clock.monotonic() - before, 3))
        queue.done(await queue.get())
    assert delays == [0.005, 0.01, 0.02, 0.04]
    assert queue.failures("a") == 4
    queue.forget("a")
    assert queue.failures("a") == 0


async def test_shut_down_hands_out_what_waits_and_then_ends() -> None:
    queue = make()
    queue.add("a")
    queue.add_after("b", 5)
    queue.shut_down()
    queue.add("c")
    queue.add_after("d", 1)
    assert queue.is_shut_down
    assert await queue.get() == "a"
    with pytest.raises(QueueShutDown):
        await queue.get()


async def test_shut_down_wakes_waiting_workers() -> None:
    clock = VirtualClock()
    queue = make(clock)

    async def work() -> str:
        try:
            return await queue.get()
        except QueueShutDown:
            return "over"

    async with tasks.TaskScope("test") as scope:
        workers = [scope.start(work(), name=f"worker-{number}") for number in range(3)]
        await clock.settle()
        queue.shut_down()
    assert [worker.result() for worker in workers] == ["over"] * 3


async def test_drain_waits_for_work_under_way() -> None:
    clock = VirtualClock()
    queue = make(clock)
    queue.add("a")
    queue.add("b")
    first = await queue.get()
    async with tasks.TaskScope("test") as scope:
        drained = scope.start(queue.drain(), name="drain")
        await clock.settle()
        assert not drained.done()
        queue.done(first)
        async with queue.take() as second:
            assert second == "b"
            await clock.settle()
            assert not drained.done()
    assert drained.done()


async def test_a_cancelled_worker_loses_no_key() -> None:
    clock = VirtualClock()
    queue = make(clock)
    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        worker = scope.start(queue.get(), name="worker")
        await clock.settle()
        queue.add("a")
        worker.cancel()
        await clock.settle()
        assert worker.cancelled()
    assert await queue.get() == "a"


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["add", "later", "take", "done", "wait"]), st.sampled_from("abc")), max_size=60
)


@given(OPERATIONS)
async def test_no_key_is_lost_or_worked_on_twice_at_once(operations: list[tuple[str, str]]) -> None:
    clock = VirtualClock()
    queue = make(clock)
    working: set[str] = set()
    owed: set[str] = set()  # added and not taken since
    for operation, key in operations:
        match operation:
            case "add":
                queue.add(key)
                owed.add(key)
            case "later":
                queue.add_after(key, 1)
                owed.add(key)
            case "take" if len(queue):
                taken = await queue.get()
                assert taken not in working
                working.add(taken)
                owed.discard(taken)
            case "done" if key in working:
                queue.done(key)
                working.discard(key)
            case _:
                await clock.advance(1)
    for key in working:
        queue.done(key)
    await clock.advance(2)
    left = {await queue.get() for _ in range(len(queue))}
    assert owed <= left
