from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from kube_fairlead.base.tasks import OnExit, TaskScope, TaskSet, cancel_and_wait, live_tasks


async def forever() -> None:
    await asyncio.Event().wait()


async def fail(message: str) -> None:
    raise KeyError(message)


async def stubborn(released: asyncio.Event, log: list[str]) -> None:
    """Takes its time to tidy up, as a task may."""
    try:
        await forever()
    finally:
        log.append("cancelled")
        await released.wait()
        log.append("gone")


async def test_tasks_carry_owner_and_name() -> None:
    async with TaskScope("agent", on_exit=OnExit.CANCEL) as scope:
        task = scope.start(forever(), name="claims")
        assert task.get_name() == "agent/claims"


async def test_waiting_scope_lets_its_tasks_finish() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    async with TaskScope("test") as scope:
        task = scope.start(work(), name="work")
    assert task.result() == 7


async def test_cancelling_scope_waits_until_its_tasks_are_gone() -> None:
    log: list[str] = []
    released = asyncio.Event()
    async with TaskScope("test", on_exit=OnExit.CANCEL) as scope:
        scope.start(stubborn(released, log), name="stubborn")
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(released.set)
    assert log == ["cancelled", "gone"]


@pytest.mark.parametrize("on_exit", OnExit)
async def test_a_failure_cancels_block_and_siblings(on_exit: OnExit) -> None:
    siblings: list[asyncio.Task[None]] = []

    async def block() -> None:
        async with TaskScope("test", on_exit=on_exit) as scope:
            siblings.append(scope.start(forever(), name="sibling"))
            scope.start(fail("first"), name="failing")
            await forever()

    with pytest.raises(ExceptionGroup) as caught:
        await block()
    assert caught.group_contains(KeyError, match="first")
    assert siblings[0].cancelled()


@pytest.mark.parametrize("on_exit", OnExit)
async def test_cancelling_the_block_cancels_the_tasks_and_goes_on(on_exit: OnExit) -> None:
    inner: list[asyncio.Task[None]] = []

    async def component() -> None:
        async with TaskScope("component", on_exit=on_exit) as scope:
            inner.append(scope.start(forever(), name="inner"))
            await forever()

    async with TaskScope("test") as outer:
        task = outer.start(component(), name="component")
        await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()
    assert inner[0].cancelled()


@pytest.mark.parametrize("on_exit", OnExit)
async def test_an_error_of_the_block_cancels_the_tasks_and_comes_out_as_it_is(on_exit: OnExit) -> None:
    tasks: list[asyncio.Task[None]] = []

    async def block() -> None:
        async with TaskScope("test", on_exit=on_exit) as scope:
            tasks.append(scope.start(forever(), name="x"))
            raise LookupError

    with pytest.raises(LookupError):
        await block()
    assert tasks[0].cancelled()


async def test_errors_of_the_block_and_of_a_task_come_out_together() -> None:
    async def fails_on_the_way_out() -> None:
        try:
            await forever()
        finally:
            raise KeyError("task")

    async def block() -> None:
        async with TaskScope("test") as scope:
            scope.start(fails_on_the_way_out(), name="x")
            await asyncio.sleep(0)
            raise LookupError("block")

    with pytest.raises(ExceptionGroup) as caught:
        await block()
    assert caught.group_contains(KeyError, match="task")
    assert caught.group_contains(LookupError, match="block")


async def test_live_tasks_say_where_they_were_started() -> None:
    async with TaskScope("one", on_exit=OnExit.CANCEL) as one, TaskScope("two", on_exit=OnExit.CANCEL) as two:
        one.start(forever(), name="a")
        two.start(forever(), name="b")
        assert [(task.owner, task.name) for task in live_tasks("two")] == [("two", "b")]
        assert {task.name for task in live_tasks()} >= {"a", "b"}
        (leak,) = live_tasks("one")
        assert "test_tasks.py" in leak.started_at[0]
        assert "test_live_tasks_say_where_they_were_started" in str(leak)
    assert live_tasks("one") == live_tasks("two") == ()


async def test_an_owner_owns_what_its_parts_own() -> None:
    async with TaskScope("manager/event-gc", on_exit=OnExit.CANCEL) as scope:
        scope.start(forever(), name="loop")
        assert [task.name for task in live_tasks("manager")] == ["loop"]
        assert live_tasks("man") == live_tasks("manager/event") == ()


async def test_a_finished_task_is_not_kept_alive() -> None:
    async with TaskScope("test") as scope:
        task = scope.start(asyncio.sleep(0), name="x")
        gone = weakref.ref(task)
        await task
    del task, scope
    await asyncio.sleep(0)  # the loop itself lets go of what it ran last
    gc.collect()
    assert gone() is None


class TestTaskSet:
    async def test_close_cancels_and_waits(self) -> None:
        log: list[str] = []
        released = asyncio.Event()
        tasks = TaskSet("informer")
        tasks.start(stubborn(released, log), name="stubborn")
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(released.set)
        assert len(tasks) == 1
        await tasks.close()
        assert log == ["cancelled", "gone"]
        assert len(tasks) == 0
        assert live_tasks("informer") == ()

    async def test_close_twice(self) -> None:
        tasks = TaskSet("informer")
        await tasks.close()
        await tasks.close()

    async def test_a_closed_set_starts_nothing(self) -> None:
        tasks = TaskSet("informer")
        await tasks.close()
        with pytest.raises(RuntimeError, match="informer is closed and cannot start late"):
            tasks.start(forever(), name="late")

    async def test_a_failure_nobody_heard_of_comes_out_of_close_once(self) -> None:
        tasks = TaskSet("informer")
        task = tasks.start(fail("boom"), name="x")
        await asyncio.wait([task])
        with pytest.raises(ExceptionGroup) as caught:
            await tasks.close()
        assert caught.group_contains(KeyError, match="boom")
        await tasks.close()

    async def test_a_failure_while_closing_comes_out_too(self) -> None:
        async def fails_on_the_way_out() -> None:
            try:
                await forever()
            finally:
                raise KeyError("late")

        tasks = TaskSet("informer")
        tasks.start(fails_on_the_way_out(), name="x")
        await asyncio.sleep(0)
        with pytest.raises(ExceptionGroup) as caught:
            await tasks.close()
        assert caught.group_contains(KeyError, match="late")

    async def test_a_failure_is_told_when_it_happens(self) -> None:
        heard: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        tasks = TaskSet("informer", on_failure=heard.set_result)
        tasks.start(fail("boom"), name="x")
        assert isinstance(await heard, KeyError)
        await tasks.close()


class TestCancelAndWait:
    async def test_waits_until_all_are_gone(self) -> None:
        log: list[str] = []
        released = asyncio.Event()
        async with TaskScope("test") as scope:
            first = scope.start(stubborn(released, log), name="first")
            second = scope.start(forever(), name="second")
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_soon(released.set)
            await cancel_and_wait(first, second)
            assert (log, first.cancelled(), second.cancelled()) == (["cancelled", "gone"], True, True)

    async def test_nothing_and_finished_tasks_are_fine(self) -> None:
        await cancel_and_wait()
        async with TaskScope("test") as scope:
            done = scope.start(asyncio.sleep(0), name="done")
            await done
            await cancel_and_wait(done)

    async def test_errors_on_the_way_out_are_raised(self) -> None:
        tasks = TaskSet("test", on_failure=lambda failure: None)
        task = tasks.start(fail("boom"), name="x")
        await asyncio.wait([task])
        with pytest.raises(ExceptionGroup) as caught:
            await cancel_and_wait(task)
        assert caught.group_contains(KeyError, match="boom")
        await tasks.close()

    async def test_being_cancelled_meanwhile_goes_on_at_once(self) -> None:
        released = asyncio.Event()
        async with TaskScope("test") as scope:
            slow = scope.start(stubborn(released, []), name="slow")
            await asyncio.sleep(0)
            waiter = scope.start(cancel_and_wait(slow), name="waiter")
            await asyncio.sleep(0)
            waiter.cancel()
            await asyncio.wait([waiter])
            assert waiter.cancelled()
            assert not slow.done()
            released.set()

    async def test_not_itself(self) -> None:
        me = asyncio.current_task()
        assert me is not None
        with pytest.raises(ValueError, match="cannot cancel itself"):
            await cancel_and_wait(me)
