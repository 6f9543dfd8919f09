from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt

import pytest

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.driverapi.errors import DriverGone
from kube_fairlead.driverapi.messages import Progress
from kube_fairlead.drivers import sdk
from kube_fairlead.drivers.sdk.service import Service
from tests.unit.driverapi.scripted import OFFERED, WORK


class Counting(sdk.Driver):
    """Counts what it does, and does it as slowly as it is told."""

    name = "example.com/reboot"
    transitions = (OFFERED,)

    def __init__(self) -> None:
        self.did: list[str] = []
        self.entered = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.error: Exception | None = None
        self.at_once = 0
        self.most_at_once = 0

    async def start(self, work: sdk.Work) -> None:
        await self._do(f"start {work.event_uid}")

    async def end(self, work: sdk.Work, report: sdk.Report) -> None:
        report(Progress(done=1, total=1))
        await self._do(f"end {work.event_uid}")

    async def _do(self, what: str) -> None:
        self.did.append(what)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.entered.set()
        try:
            await self.may_go_on.wait()
            if self.error is not None:
                raise self.error
        finally:
            self.at_once -= 1


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(dt.datetime(2026, 3, 1, 11, 59, tzinfo=dt.UTC))


async def test_what_is_done_is_not_done_again(clock: VirtualClock) -> None:
    driver = Counting()
    service = Service(driver, clock)
    for _ in range(3):
        assert (await service.start(WORK)).state == "Rebooting"
        assert (await service.end(WORK, lambda _: None)).state == "Rebooted"
    assert driver.did == ["start uid-1", "end uid-1"]
    await service.start(dataclasses.replace(WORK, event_uid="uid-2"))
    assert driver.did[-1] == "start uid-2"


async def test_what_failed_may_be_tried_again(clock: VirtualClock) -> None:
    driver = Counting()
    driver.error = sdk.Refused("not now")
    service = Service(driver, clock)
    with pytest.raises(sdk.Refused):
        await service.start(WORK)
    driver.error = None
    await service.start(WORK)
    assert driver.did == ["start uid-1", "start uid-1"]


async def test_one_call_at_a_time_for_one_event(clock: VirtualClock) -> None:
    driver = Counting()
    driver.may_go_on.clear()
    service = Service(driver, clock)
    async with tasks.TaskScope("test") as scope:
        first = scope.start(service.end(WORK, lambda _: None), name="first")
        await driver.entered.wait()
        second = scope.start(service.end(WORK, lambda _: None), name="second")
        await clock.settle()
        first.cancel()
        await clock.settle()
        # The first one was hung up on before it was done, so the second does it.
        assert driver.did == ["end uid-1", "end uid-1"]
        assert driver.most_at_once == 1
        driver.may_go_on.set()
        assert (await second).state == "Rebooted"


async def test_nothing_runs_beyond_its_deadline(clock: VirtualClock) -> None:
    driver = Counting()
    driver.may_go_on.clear()
    service = Service(driver, clock)

    async def call() -> None:
        with pytest.raises(DriverGone, match="deadline"):
            await service.start(WORK)

    async with tasks.TaskScope("test") as scope:
        scope.start(call(), name="call")
        await driver.entered.wait()
        await clock.advance(61)
    assert driver.at_once == 0
    with pytest.raises(DriverGone):
        await service.start(WORK)
    assert driver.did == ["start uid-1"]


async def test_a_timeout_of_the_drivers_own_is_its_answer(clock: VirtualClock) -> None:
    driver = Counting()
    driver.error = TimeoutError("the disk did not answer")
    with pytest.raises(TimeoutError, match="the disk"):
        await Service(driver, clock).start(WORK)
    with pytest.raises(TimeoutError, match="the disk"):
        await Service(driver, clock).start(dataclasses.replace(WORK, deadline=None))


async def test_memory_is_bounded(clock: VirtualClock) -> None:
    driver = Counting()
    service = Service(driver, clock)
    for number in range(1100):
        await service.start(dataclasses.replace(WORK, event_uid=f"uid-{number}"))
    assert len(service._done) == 1000
    assert service._locks == {}
