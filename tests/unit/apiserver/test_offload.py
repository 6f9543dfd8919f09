from __future__ import annotations

import asyncio
import threading

import pytest

from fairlead.apiserver.offload import LARGE_BYTES, Offload, begin_request, weigh


async def test_a_small_request_stays_on_the_event_loop() -> None:
    begin_request()
    weigh(LARGE_BYTES - 1)
    assert await Offload().run(threading.get_ident) == threading.get_ident()


async def test_a_large_request_leaves_it() -> None:
    begin_request()
    weigh(LARGE_BYTES)
    weigh(1)  # the largest of what it works on counts
    offload = Offload()
    first = await offload.run(threading.get_ident)
    assert first != threading.get_ident()
    assert await offload.run(threading.get_ident) == first


async def test_the_next_request_is_small_again() -> None:
    weigh(LARGE_BYTES)
    begin_request()
    assert await Offload().run(threading.get_ident) == threading.get_ident()


async def test_an_error_is_the_callers() -> None:
    def fail(*, word: str) -> None:
        raise ValueError(word)

    weigh(LARGE_BYTES)
    with pytest.raises(ValueError, match="no"):
        await Offload().run(fail, word="no")


async def test_others_run_while_a_step_lasts() -> None:
    weigh(LARGE_BYTES)
    may_end = threading.Event()

    async def other() -> None:
        may_end.set()

    step, _ = await asyncio.gather(Offload().run(may_end.wait, 60), other())
    assert step


async def test_who_is_cancelled_does_not_wait() -> None:
    weigh(LARGE_BYTES)
    may_end = threading.Event()
    offload = Offload()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await offload.run(may_end.wait, 60)
    may_end.set()
    assert await offload.run(lambda: 1) == 1
