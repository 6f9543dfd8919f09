from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.metrics import PrometheusMetrics
from kube_fairlead.base.randomness import SeededRandomness
from kube_fairlead.cloud.calls import CloudCalls
from kube_fairlead.cloud.errors import CloudRefused, CloudUnavailable
from kube_fairlead.cloud.requests import before_request
from kube_fairlead.election import NotLeading


async def text() -> str:
    """What the protocol of these tests promises."""
    raise NotImplementedError


async def change() -> None:
    """The same, of a change."""
    raise NotImplementedError


async def number() -> int:
    """The same."""
    raise NotImplementedError


class Cloud:
    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.asked: list[float] = []
        self.failure: Exception | None = None

    async def ask(self) -> str:
        self.asked.append(self.clock.monotonic())
        if self.failure is not None:
            raise self.failure
        return "answer"


def make(**more: Any) -> tuple[VirtualClock, Cloud, CloudCalls, PrometheusMetrics]:
    clock, metrics = VirtualClock(), PrometheusMetrics()
    calls = CloudCalls(
        "aws", clock=clock, randomness=SeededRandomness(1), metrics=metrics, per_second=2, burst=4, **more
    )
    return clock, Cloud(clock), calls, metrics


async def test_calls_are_counted() -> None:
    _, cloud, calls, metrics = make()
    assert await calls.call(text, cloud.ask) == "answer"
    cloud.failure = CloudRefused("no")
    with pytest.raises(CloudRefused):
        await calls.call(text, cloud.ask)
    told = metrics.exposition().decode()
    assert 'fairlead_cloud_calls_total{call="text",outcome="ok",provider="aws"} 1.0' in told
    assert 'fairlead_cloud_calls_total{call="text",outcome="CloudRefused",provider="aws"} 1.0' in told


async def test_calls_are_not_too_fast() -> None:
    clock, cloud, calls, _ = make()
    async with tasks.TaskScope("test") as scope:
        for number in range(8):
            scope.start(calls.call(text, cloud.ask), name=str(number))
        await clock.advance(10)
    assert cloud.asked == [0, 0, 0, 0, 0.5, 1, 1.5, 2]


async def test_an_outage_slows_everybody_down_until_the_first_answer() -> None:
    clock, cloud, calls, _ = make()
    cloud.failure = CloudUnavailable("down")

    async def keep_asking() -> None:
        while True:
            try:
                await calls.call(text, cloud.ask)
            except CloudUnavailable:
                continue
            return

    async with tasks.TaskScope("test") as scope:
        scope.start(keep_asking(), name="asking")
        await clock.advance(300)
        gaps = [later - earlier for earlier, later in zip(cloud.asked, cloud.asked[1:], strict=False)]
        assert 0.8 <= gaps[0] <= 1
        assert all(48 <= gap <= 60 for gap in gaps[6:])
        cloud.failure = None
        await clock.advance(60)
    cloud.failure = CloudUnavailable("down")
    with pytest.raises(CloudUnavailable):
        await calls.call(text, cloud.ask)
    cloud.failure = None
    async with tasks.TaskScope("test") as scope:
        scope.start(calls.call(text, cloud.ask), name="asking")
        await clock.advance(1)


async def test_every_request_of_a_call_has_its_turn() -> None:
    clock, cloud, calls, _ = make()

    async def ask_in_pages() -> None:
        for _ in range(8):
            await before_request()
            await cloud.ask()

    async with tasks.TaskScope("test") as scope:
        scope.start(calls.call(change, ask_in_pages), name="asking")
        await clock.advance(10)
    assert cloud.asked == [0, 0, 0, 0, 0.5, 1, 1.5, 2]


async def test_outside_of_a_call_requests_are_not_held_up() -> None:
    async with asyncio.timeout(30):
        for _ in range(100):
            await before_request()


async def test_calls_that_fail_together_are_one_failure() -> None:
    clock, cloud, calls, _ = make()
    cloud.failure = CloudUnavailable("a blip")

    async def ask_slowly() -> None:
        await clock.sleep(0.1)
        await cloud.ask()

    failures: list[BaseException] = []
    owned = tasks.TaskSet("test", on_failure=failures.append)
    for number in range(4):
        owned.start(calls.call(change, ask_slowly, changes=True), name=str(number))
    await clock.advance(1)
    assert len(failures) == 4
    cloud.failure = None
    async with tasks.TaskScope("test") as scope:
        scope.start(calls.call(text, cloud.ask), name="asking")
        await clock.advance(10)
    assert cloud.asked[-1] <= 1.1  # a second of silence, not as many steps of it as there were calls


async def test_nothing_is_begun_once_asked_to_stop() -> None:
    stopping = asyncio.Event()
    clock, _, calls, _ = make(stopping=stopping)
    begun: list[bool] = []

    async def begin() -> None:
        begun.append(stopping.is_set())
        await clock.sleep(3)

    failures: list[BaseException] = []
    owned = tasks.TaskSet("test", on_failure=failures.append)
    for number in range(8):
        owned.start(calls.call(change, begin, changes=True), name=str(number))
    await clock.advance(0.1)
    stopping.set()
    await clock.advance(20)
    assert begun == [False] * 4  # those that were under way
    assert len(failures) == 4


async def test_a_question_is_given_up_between_requests() -> None:
    stopping = asyncio.Event()
    clock, cloud, calls, _ = make(stopping=stopping)

    async def ask_in_pages() -> None:
        for _ in range(40):
            await before_request()
            await cloud.ask()

    failures: list[BaseException] = []
    owned = tasks.TaskSet("test", on_failure=failures.append)
    owned.start(calls.call(change, ask_in_pages), name="asking")
    await clock.advance(1)
    stopping.set()
    await clock.settle()
    assert len(failures) == 1
    assert len(cloud.asked) < 8


async def test_without_the_lease_nothing_is_changed() -> None:
    leads = True

    def check() -> None:
        if not leads:
            raise NotLeading("lost")

    _, cloud, calls, _ = make(check=check)

    async def change_in_steps() -> None:
        nonlocal leads
        for _ in range(3):
            await before_request()
            await cloud.ask()
            leads = False  # e.g. the machine was asleep

    with pytest.raises(NotLeading):
        await calls.call(change, change_in_steps, changes=True)
    assert len(cloud.asked) == 1
    with pytest.raises(NotLeading):
        await calls.call(text, cloud.ask, changes=True)
    assert len(cloud.asked) == 1
    assert await calls.call(text, cloud.ask) == "answer"  # to ask is harmless


async def test_a_cloud_that_never_answers_is_not_waited_for() -> None:
    """A provider that has no limit of its own must not stop a controller for good."""
    clock, cloud, calls, _ = make()

    async def never() -> str:
        await asyncio.Event().wait()
        return "never"

    failures: list[BaseException] = []
    owned = tasks.TaskSet("test", on_failure=failures.append)
    owned.start(calls.call(text, never), name="asking")
    await clock.advance(119)
    assert failures == []
    await clock.advance(2)
    assert [str(failure) for failure in failures] == ["no answer for 120 s"]
    assert isinstance(failures[0], CloudUnavailable)
    owned.start(calls.call(text, cloud.ask), name="asking again")
    await clock.advance(2)
    assert len(cloud.asked) == 1
    await owned.close()


async def test_a_long_call_that_gets_answers_goes_on() -> None:
    """Whether it waits for its turn or for the cloud: what counts is the silence after a request."""
    clock, cloud, calls, _ = make()

    async def ask_in_pages() -> int:
        for _ in range(600):  # five minutes of turns
            await before_request()
            await cloud.ask()
        for _ in range(5):
            await before_request()
            await clock.sleep(100)
        return 1

    async with tasks.TaskScope("test") as scope:
        answer = scope.start(calls.call(number, ask_in_pages), name="asking")
        await clock.advance(1000)
    assert answer.result() == 1
