"""Drivers that are registered and do not answer, seen through a whole agent on virtual time."""

from __future__ import annotations

import dataclasses
import datetime as dt

from kube_fairlead.api.core_v1 import Event
from kube_fairlead.api.lifecycle_v1alpha1 import Progress as StoredProgress
from kube_fairlead.claimant.driver_directory import Registration
from kube_fairlead.driverapi.memory_channel import MemoryChannel
from kube_fairlead.driverapi.messages import OfferedTransition, Progress
from kube_fairlead.drivers.sdk.service import Service
from tests.unit.claimant.world import DRIVER, Deed, RunningAgent, World

OTHER = "example.com/patch"


def add_another_driver(here: World, agent: RunningAgent) -> Deed:
    """A second driver, which answers."""
    driver = Deed()
    driver.name = OTHER
    offered = OfferedTransition(name="patch", start="Patching", end="Patched")
    driver.transitions = (offered,)
    channel = MemoryChannel(Service(driver, here.clock))
    agent.agent.directory.add(Registration(driver=OTHER, endpoint="", owner=0, channel=channel, transitions=(offered,)))
    return driver


async def test_nothing_is_claimed_for_a_dead_driver_and_other_events_continue(here: World) -> None:
    here.channel.connected = False
    agent = here.start_agent()
    other = add_another_driver(here, agent)
    await here.offer("patch", start="Patching", end="Patched", driver=OTHER)
    await here.create("a")
    await here.clock.advance(5)
    stored = await here.events.get("a")
    assert stored.status.message.startswith(f"waiting: driver {DRIVER} unreachable since 2026-03-01T12:00:0")
    assert stored.status.message.endswith(": the driver is not connected")
    assert stored.status.claimed_by == ""
    await here.create("b", "patch")
    await here.clock.advance(5)
    assert other.effects == ["start b", "end b"]
    assert here.seen("a") == ["Pending"]


async def test_a_dead_driver_fails_the_event_after_five_minutes(here: World) -> None:
    here.channel.connected = False
    here.start_agent()
    await here.create()
    await here.clock.advance(290)
    assert here.seen() == ["Pending"]
    await here.clock.advance(20)
    assert here.seen() == ["Pending", "Failed", "gone"]


async def test_an_event_is_claimed_when_its_driver_is_reachable_again(here: World) -> None:
    here.channel.connected = False
    here.start_agent()
    await here.create()
    await here.clock.advance(100)
    here.channel.connected = True
    await here.clock.advance(10)
    assert here.seen() == ["Pending", "Claimed", "Succeeded", "gone"]


async def test_a_driver_that_is_stopped_does_not_answer_either(here: World) -> None:
    """As one that got SIGSTOP: the kernel accepts the connection, and no answer comes."""
    here.driver.hold_questions()
    here.start_agent()
    await here.create()
    await here.clock.advance(12)
    assert "unreachable since" in (await here.events.get("e")).status.message
    here.driver.answer_questions()
    await here.clock.advance(20)
    assert here.seen()[-2:] == ["Succeeded", "gone"]


async def test_a_driver_lost_in_the_middle_is_reported_and_the_event_fails_after_a_while(here: World) -> None:
    here.settings = dataclasses.replace(here.settings, driver_lost=dt.timedelta(minutes=2))
    here.driver.hold["end"].clear()
    agent = here.start_agent()
    await here.create()
    await here.clock.advance(1)
    here.channel.break_off()
    await here.clock.advance(5)
    status = (await here.events.get("e")).status
    assert status.driver_unreachable_time is not None
    assert status.message == (
        f"driver {DRIVER} unreachable since {status.driver_unreachable_time:%Y-%m-%dT%H:%M:%SZ}: "
        "the driver is not connected"
    )
    seen = [event.reason for event in (await here.admin.of(Event).list()).items]
    assert {"DriverUnreachable", "LifecycleDriverUnreachable"} <= set(seen)
    # The agent is killed meanwhile: the next one continues to count.
    await agent.kill()
    await here.clock.advance(61)
    here.start_agent()
    await here.clock.advance(70)
    assert here.seen()[-2:] == ["Failed", "gone"]


async def test_a_driver_lost_for_a_moment_is_not_reported(here: World) -> None:
    here.driver.hold["end"].clear()
    here.start_agent()
    await here.create()
    await here.clock.advance(1)
    here.channel.break_off()
    await here.clock.advance(0.01)
    here.channel.connected = True
    await here.clock.advance(10)
    status = (await here.events.get("e")).status
    assert (status.message, status.driver_unreachable_time) == ("", None)
    here.driver.hold["end"].set()
    await here.clock.advance(1)
    assert here.seen()[-2:] == ["Succeeded", "gone"]


async def test_a_driver_that_dies_at_every_call_does_not_block_its_node_for_ever(here: World) -> None:
    """It answers every question: only its work kills it."""
    here.settings = dataclasses.replace(here.settings, driver_lost=dt.timedelta(minutes=2))
    here.driver.hold["start"].clear()
    here.driver.on_start = lambda _work: here.channel.break_off()
    here.channel.heal_after_seconds = 1.0
    here.start_agent()
    await here.create()
    await here.clock.advance(200)
    assert here.seen()[-2:] == ["Failed", "gone"]
    assert 5 < len(here.driver.calls) < 100


async def test_a_driver_that_dies_a_while_into_every_call_does_not_block_its_node_for_ever(here: World) -> None:
    """Each call lasts longer than it takes to count as reached, and none comes to an end."""
    here.settings = dataclasses.replace(here.settings, driver_lost=dt.timedelta(minutes=2))
    here.driver.hold["end"].clear()
    here.channel.heal_after_seconds = 1.0
    here.start_agent()
    await here.create()
    for _ in range(40):
        await here.clock.advance(7)
        here.channel.break_off()
    assert here.seen()[-2:] == ["Failed", "gone"]


async def test_a_driver_that_is_restarted_now_and_then_is_not_lost(here: World) -> None:
    """A drain may wait for days. Its driver works for longer than a lost one is waited for, each time."""
    here.settings = dataclasses.replace(here.settings, driver_lost=dt.timedelta(minutes=2))
    here.driver.hold["end"].clear()
    here.channel.heal_after_seconds = 1.0
    here.start_agent()
    await here.create()
    for _ in range(12):
        await here.clock.advance(150)
        here.channel.break_off()
    await here.clock.advance(30)
    assert (await here.events.get("e")).status.claim_status == "Claimed"
    here.driver.hold["end"].set()
    await here.clock.advance(30)
    assert here.seen()[-2:] == ["Succeeded", "gone"]


async def test_progress_that_came_with_the_result_is_stored(here: World) -> None:
    here.settings = dataclasses.replace(here.settings, keep_finished=dt.timedelta(hours=1))
    here.driver.progress = [Progress(done=done, total=3, unit="pods") for done in (1, 2, 3)]
    here.start_agent()
    await here.create()
    await here.clock.advance(5)
    status = (await here.events.get("e")).status
    assert (status.claim_status, status.progress) == ("Succeeded", StoredProgress(done=3, total=3, unit="pods"))


async def test_events_of_one_second_are_carried_out_in_the_order_of_their_creation(here: World) -> None:
    for name in ("c", "a", "b"):
        await here.create(name)
    here.start_agent()
    await here.clock.advance(5)
    assert here.driver.effects == [f"{step} {name}" for name in ("c", "a", "b") for step in ("start", "end")]
