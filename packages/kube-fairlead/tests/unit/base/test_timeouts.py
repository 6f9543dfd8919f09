from __future__ import annotations

import asyncio
import contextlib

import pytest

from kube_fairlead.base import tasks
from kube_fairlead.base.timeouts import _Reliable, timeout


@pytest.fixture(params=["this Python's", "our own"])
def make(request: pytest.FixtureRequest) -> object:
    return timeout if request.param == "this Python's" else lambda seconds: _Reliable(asyncio.timeout(seconds))


async def test_in_time_nothing_happens(make: object) -> None:
    assert callable(make)
    async with make(60) as made:
        await asyncio.sleep(0)
    assert not made.expired()


async def test_a_task_that_has_survived_a_cancellation_is_told_of_the_time(make: object) -> None:
    assert callable(make)

    async def work() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        try:
            async with make(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "too late"
        return "in time"

    async with tasks.TaskScope("test") as scope:
        task = scope.start(work(), name="work")
        await asyncio.sleep(0)
        task.cancel()
    assert task.result() == "too late"


async def test_a_cancellation_from_outside_is_one(make: object) -> None:
    assert callable(make)

    async def work() -> None:
        async with make(60):
            await asyncio.Event().wait()

    async with tasks.TaskScope("test") as scope:
        task = scope.start(work(), name="work")
        await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()


async def test_an_error_comes_out_as_it_is(make: object) -> None:
    assert callable(make)
    with pytest.raises(LookupError):
        async with make(0):
            raise LookupError
