from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable

import pytest

from kube_fairlead.base.tasks import TaskScope, cancel_and_wait
from kube_fairlead_apiserver.offload import LARGE_BYTES, Offload, begin_request, weigh


async def test_a_small_request_stays_on_the_event_loop() -> None:
    begin_request("alice")
    weigh(LARGE_BYTES - 1)
    assert await Offload().run(threading.get_ident) == threading.get_ident()


async def test_a_large_request_leaves_it() -> None:
    begin_request("alice")
    weigh(LARGE_BYTES)
    weigh(1)  # the largest of what it works on counts
    offload = Offload()
    first = await offload.run(threading.get_ident)
    assert first != threading.get_ident()
    assert await offload.run(threading.get_ident) == first


async def test_the_next_request_is_small_again() -> None:
    weigh(LARGE_BYTES)
    begin_request("alice")
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


async def test_users_take_turns() -> None:
    """One user's many steps stand before another user's as one step, not as all of them."""
    weigh(LARGE_BYTES)
    offload = Offload()
    order: list[str] = []
    may_end = threading.Event()

    async def ask(user: str, number: int) -> None:
        begin_request(user)
        weigh(LARGE_BYTES)
        await offload.run(order.append, f"{user}-{number}")

    async with TaskScope("test") as scope:
        scope.start(offload.run(may_end.wait, 60), name="first")
        for number in range(5):
            scope.start(ask("loud", number), name="loud")
        for number in range(2):
            scope.start(ask("quiet", number), name="quiet")
        await asyncio.sleep(0)
        may_end.set()
    assert order == ["loud-0", "quiet-0", "loud-1", "quiet-1", "loud-2", "loud-3", "loud-4"]


async def test_a_step_whose_request_is_cancelled_while_it_waits_does_not_run() -> None:
    weigh(LARGE_BYTES)
    offload = Offload()
    ran: list[int] = []
    may_end = threading.Event()
    async with TaskScope("test") as scope:
        first = scope.start(offload.run(may_end.wait, 60), name="first")
        steps = [scope.start(offload.run(ran.append, number), name="step") for number in range(3)]
        await asyncio.sleep(0)
        steps[1].cancel()
        may_end.set()
        await first
    assert ran == [0, 2]


async def test_a_step_that_is_cancelled_while_it_waits_is_let_go_at_once() -> None:
    """It holds the body of its request, which no budget counts any more."""
    weigh(LARGE_BYTES)
    offload = Offload()
    may_end = threading.Event()

    class Body: ...

    body = Body()
    held = weakref.ref(body)
    async with TaskScope("test") as scope:
        scope.start(offload.run(may_end.wait, 60), name="first")
        waiting = scope.start(offload.run(lambda kept: kept, body), name="second")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await cancel_and_wait(waiting)
        del body, waiting
        assert held() is None
        may_end.set()


async def test_a_thread_that_cannot_be_started_stops_no_later_step(monkeypatch: pytest.MonkeyPatch) -> None:
    weigh(LARGE_BYTES)
    offload = Offload()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await offload.run(lambda: 1)
    assert await offload.run(lambda: 2) == 2


def _refuse(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


compared: list[int] = []


class Name(str):
    """A user's name that counts how often it is compared."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        compared.append(1)
        return str.__eq__(self, other)


async def test_a_mass_of_requests_that_are_cancelled_is_dropped_without_a_search() -> None:
    offload, may_end = Offload(), threading.Event()

    async def ask(step: Callable[[], object]) -> None:
        begin_request(Name("alice"))
        weigh(LARGE_BYTES)
        await offload.run(step)

    async with TaskScope("test") as scope:
        running = scope.start(ask(may_end.wait), name="running")
        await asyncio.sleep(0)
        waiting = [scope.start(ask(int), name="waiting") for _ in range(500)]
        await asyncio.sleep(0)
        compared.clear()
        for task in reversed(waiting):
            await cancel_and_wait(task)
        assert len(compared) < 5 * len(waiting)
        may_end.set()
        await running
