"""The test kit, and that docs/drivers.md shows it as it is."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.drivers import sdk
from kube_fairlead.drivers.sdk import testing

PAGE = (Path(__file__).parents[6] / "docs" / "drivers.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"<!-- run: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))


class Steps(sdk.Driver):
    """Three steps; it waits at the second for as long as it is held. What is done outlives the process."""

    name = "example.com/steps"
    transitions = (sdk.Transition(name="walk", start="Walking", end="Arrived", sla="1m"),)

    def __init__(self, world: list[str]) -> None:
        self.world = world
        self.held = asyncio.Event()
        self.held.set()

    async def start(self, work: sdk.Work) -> None:
        self.world.append(f"start {work.event_uid}")

    async def end(self, work: sdk.Work, report: sdk.Report) -> None:
        if "fail" in work.options:
            raise sdk.Refused("there is no way")
        report(sdk.Progress(done=1, total=2))
        try:
            await self.held.wait()
        except asyncio.CancelledError:
            self.world.append("stopped")
            raise
        report(sdk.Progress(done=2, total=2))


async def test_an_event_from_beginning_to_end() -> None:
    async with testing.agent(Steps([])) as agent:
        outcome = await agent.carry_out("walk")
    assert (outcome.status, outcome.reached) == ("Succeeded", ("Walking", "Arrived"))
    assert [report.done for report in outcome.progress] == [1, 2]


async def test_a_refusal_fails_it_with_its_words() -> None:
    async with testing.agent(Steps([])) as agent:
        outcome = await agent.begin("walk", options={"fail": "yes"}).result()
    assert (outcome.status, outcome.message, outcome.reached) == ("Failed", "there is no way", ("Walking",))


async def test_the_deadline_cancels_the_driver() -> None:
    clock, world = VirtualClock(), list[str]()
    driver = Steps(world)
    driver.held.clear()
    async with testing.agent(driver, clock=clock) as agent:
        event = agent.begin("walk")
        await event.next_progress()
        await clock.advance(59)
        assert not event.is_over
        await clock.advance(2)
        assert (await event.result()).status == "SlaExpired"
    assert world[-1] == "stopped"


async def test_a_cancelled_event_fails_and_its_driver_is_stopped() -> None:
    world: list[str] = []
    driver = Steps(world)
    driver.held.clear()
    async with testing.agent(driver) as agent:
        event = agent.begin("walk")
        await event.next_progress()
        assert (await agent.cancel(event)).message == "cancelled"
        with pytest.raises(EOFError, match="ended without another report"):
            await event.next_progress()
    assert world[-1] == "stopped"


async def test_a_restarted_agent_calls_again_and_only_for_the_rest() -> None:
    world: list[str] = []
    driver = Steps(world)
    driver.held.clear()
    async with testing.agent(driver) as agent:
        event = agent.begin("walk")
        await event.next_progress()
        driver.held.set()
        await agent.restart()
        assert (await event.result()).status == "Succeeded"
    assert world.count("start uid-of-event-1") == 1


async def test_a_restarted_driver_is_called_from_the_start() -> None:
    world: list[str] = []
    driver = Steps(world)
    driver.held.clear()
    async with testing.agent(driver) as agent:
        event = agent.begin("walk")
        await event.next_progress()
        await agent.restart_driver(Steps(world))
        assert (await event.result()).status == "Succeeded"
    assert world.count("start uid-of-event-1") == 2


async def test_a_transition_that_is_not_offered() -> None:
    async with testing.agent(Steps([])) as agent:
        with pytest.raises(LookupError, match=r"example\.com/steps offers walk, not run"):
            agent.begin("run")


async def test_the_page() -> None:
    """The driver and its test, as they stand there, in one file."""
    values: dict[str, Any] = {}
    source = PROGRAMS["driver"] + PROGRAMS["test"].replace("from reboot import Reboot\n", "")
    exec(compile(source, "docs/drivers.md", "exec"), values)
    await values["play"]()
