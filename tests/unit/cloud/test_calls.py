from __future__ import annotations

import pytest

from fairlead.base import tasks
from fairlead.base.clock import VirtualClock
from fairlead.base.metrics import PrometheusMetrics
from fairlead.base.randomness import SeededRandomness
from fairlead.cloud.calls import CloudCalls
from fairlead.cloud.errors import CloudRefused, CloudUnavailable


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


def make() -> tuple[VirtualClock, Cloud, CloudCalls, PrometheusMetrics]:
    clock, metrics = VirtualClock(), PrometheusMetrics()
    calls = CloudCalls("aws", clock=clock, randomness=SeededRandomness(1), metrics=metrics, per_second=2, burst=4)
    return clock, Cloud(clock), calls, metrics


async def test_calls_are_counted() -> None:
    _, cloud, calls, metrics = make()
    assert await calls.call("describe", cloud.ask) == "answer"
    cloud.failure = CloudRefused("no")
    with pytest.raises(CloudRefused):
        await calls.call("describe", cloud.ask)
    text = metrics.exposition().decode()
    assert 'fairlead_cloud_calls_total{call="describe",outcome="ok",provider="aws"} 1.0' in text
    assert 'fairlead_cloud_calls_total{call="describe",outcome="CloudRefused",provider="aws"} 1.0' in text


async def test_calls_are_not_too_fast() -> None:
    clock, cloud, calls, _ = make()
    async with tasks.TaskScope("test") as scope:
        for number in range(8):
            scope.start(calls.call("describe", cloud.ask), name=str(number))
        await clock.advance(10)
    assert cloud.asked == [0, 0, 0, 0, 0.5, 1, 1.5, 2]


async def test_an_outage_slows_everybody_down_until_the_first_answer() -> None:
    clock, cloud, calls, _ = make()
    cloud.failure = CloudUnavailable("down")

    async def keep_asking() -> None:
        while True:
            try:
                await calls.call("describe", cloud.ask)
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
        await calls.call("describe", cloud.ask)
    cloud.failure = None
    async with tasks.TaskScope("test") as scope:
        scope.start(calls.call("describe", cloud.ask), name="asking")
        await clock.advance(1)
