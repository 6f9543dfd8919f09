from __future__ import annotations

import asyncio
import threading

import pytest

from kube_fairlead.base import tasks
from kube_fairlead.cloud.threads import Threads


async def test_a_call_runs_elsewhere_and_its_result_and_errors_come_back() -> None:
    async with Threads("test") as threads:
        assert await threads.run(lambda: threading.current_thread().name) != threading.current_thread().name
        with pytest.raises(ZeroDivisionError):
            await threads.run(divmod, 1, 0)


async def test_who_is_cancelled_waits_for_the_call_to_end() -> None:
    begun, go_on = threading.Event(), threading.Event()
    ended: list[str] = []

    def call() -> None:
        begun.set()
        go_on.wait(30)
        ended.append("call")

    async def caller(threads: Threads) -> None:
        try:
            await threads.run(call)
        finally:
            ended.append("caller")

    async with Threads("test") as threads, tasks.TaskScope("test") as scope:
        task = scope.start(caller(threads), name="caller")
        await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        await asyncio.sleep(0)
        assert ended == []
        go_on.set()
        await asyncio.wait([task])
        assert ended == ["call", "caller"]
        assert task.cancelled()


async def test_nothing_is_left_behind() -> None:
    async with Threads("leaving-nothing") as threads:
        await threads.run(int)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("leaving-nothing")]
    with pytest.raises(RuntimeError, match="outside of its block"):
        await threads.run(int)
