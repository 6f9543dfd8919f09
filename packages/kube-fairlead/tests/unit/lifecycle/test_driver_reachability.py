"""Drivers that do not answer: before a claim, and in the middle of one."""

from __future__ import annotations

import datetime as dt

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, Progress
from kube_fairlead.api.reserved import FINALIZER_CLAIMED
from kube_fairlead.lifecycle import claims
from kube_fairlead.lifecycle import steps as d
from kube_fairlead.lifecycle.facts import Calling, Ended, Settings, Unreachable
from tests.unit.lifecycle.world import DRIVER, START, World, event, transition

SECOND = dt.timedelta(seconds=1)
OFFER = (DRIVER, "reboot-a", "reboot-z")
REFUSED = "connection refused"


def world(*, sla: str | None = None, driver_lost: dt.timedelta = 60 * SECOND) -> World:
    made = World(Settings(hold_autoscalers=False, well_known_conditions=False, driver_lost=driver_lost))
    made.offer(transition(sla=sla))
    made.add(event())
    return made


def fall_silent(here: World, since: dt.datetime) -> None:
    """The driver is registered and does not answer."""
    here.drivers.clear()
    here.unreachable[DRIVER] = Unreachable(since, REFUSED)


def claimed(here: World) -> None:
    """A world whose driver has been called to start."""
    while not isinstance(here.step("e"), d.StartDriver):
        pass


def test_a_driver_is_asked_before_it_is_claimed_for() -> None:
    here = world()
    here.unasked.append(OFFER)
    assert here.step("e") == d.AskDriver(OFFER)
    assert isinstance(here.step("e"), d.Claim)


def test_nothing_is_claimed_for_a_driver_that_does_not_answer_and_the_wait_is_bounded() -> None:
    here = world()
    fall_silent(here, START)
    assert isinstance(here.step("e"), d.MarkSeen)
    assert here.events["e"].status.message == (
        f"waiting: driver {DRIVER} unreachable since 2026-03-01T12:00:00Z: {REFUSED}"
    )
    here.now += 299 * SECOND
    assert isinstance(here.step("e"), d.WaitUntil)
    here.now += SECOND
    assert isinstance(here.step("e"), d.Finish)
    status = here.events["e"].status
    assert (status.claim_status, REFUSED in status.message) == (ClaimStatus.FAILED, True)


def test_an_event_of_another_driver_is_not_held_up_by_one_that_does_not_answer() -> None:
    here = world()
    fall_silent(here, START)
    here.offer(transition("patch", driver="example.com/patch"))
    here.add(event("later", "patch", START + SECOND))
    here.step("e")
    assert isinstance(here.step("later"), d.Claim)


def test_a_lost_driver_is_reported_and_so_is_its_return() -> None:
    here = world()
    claimed(here)
    here.runs["uid-e"] = Calling(Unreachable(START, REFUSED))
    assert here.decide("e") == d.WaitUntil(START + 2 * SECOND, "the driver may be back in a moment")
    here.now += 2 * SECOND
    assert isinstance(here.step("e"), d.NoteDriver)
    status = here.events["e"].status
    assert status.driver_unreachable_time == START
    assert status.message == f"driver {DRIVER} unreachable since 2026-03-01T12:00:00Z: {REFUSED}"
    here.runs["uid-e"] = Calling()
    assert isinstance(here.step("e"), d.NoteDriver)
    status = here.events["e"].status
    assert (status.driver_unreachable_time, status.message) == (None, "")


def test_without_an_sla_a_lost_driver_fails_the_event_after_a_bounded_time() -> None:
    here = world()
    claimed(here)
    here.now += 5 * SECOND
    here.runs["uid-e"] = Calling(Unreachable(here.now - 3 * SECOND, REFUSED))
    here.step("e")
    # The claimant is killed and forgets everything but what is stored. The next one does not begin to wait anew.
    here.crash()
    fall_silent(here, here.now)
    here.now += 50 * SECOND
    assert isinstance(here.step("e"), d.WaitUntil)
    here.now += 10 * SECOND
    assert isinstance(here.step("e"), d.Finish)
    status = here.events["e"].status
    assert status.claim_status == ClaimStatus.FAILED
    assert status.message == (f"driver {DRIVER} unreachable since 2026-03-01T12:00:02Z: {REFUSED}; waited 60 s for it")


def test_with_an_sla_its_deadline_counts_and_the_last_error_is_kept() -> None:
    here = world(sla="90s")
    claimed(here)
    here.runs["uid-e"] = Calling(Unreachable(START, REFUSED))
    here.now += 89 * SECOND
    here.settle()
    assert here.events["e"].claim_status is ClaimStatus.CLAIMED
    here.runs["uid-e"] = Calling(Unreachable(START, "no answer within 10 s"))
    here.now += SECOND
    here.step("e")
    status = here.events["e"].status
    assert status.claim_status == ClaimStatus.SLA_EXPIRED
    assert status.message.endswith(f"driver {DRIVER} unreachable since 2026-03-01T12:00:00Z: no answer within 10 s")


def test_the_progress_that_came_with_the_result_is_stored_with_it() -> None:
    here = world()
    claimed(here)
    here.answer("e")
    while not isinstance(here.step("e"), d.EndDriver):
        pass
    here.progress["uid-e"] = Progress(done=3, total=3, unit="pods")
    here.runs["uid-e"] = Ended(here.now)
    while not isinstance(here.step("e"), d.Finish):
        pass
    assert here.events["e"].status.progress == Progress(done=3, total=3, unit="pods")


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_within_one_second_the_order_of_creation_counts_not_the_name(names: tuple[str, str]) -> None:
    here = World(Settings(hold_autoscalers=False, well_known_conditions=False))
    here.offer(transition())
    first, second = (
        wire.replace_metadata(event(name), resource_version=str(version))
        for name, version in zip(names, (9, 10), strict=True)
    )
    here.add(first)
    here.add(second)
    assert isinstance(here.step(second.name), d.MarkSeen)
    assert here.events[second.name].status.sequence == 10
    # Later writes change the resourceVersion, and not the place in the queue.
    touched = wire.replace_metadata(here.events[first.name], resource_version="11")
    here.events[first.name] = wire.replace(touched, status=wire.replace(touched.status, sequence=9))
    assert min(here.events.values(), key=claims.order).name == first.name
    assert isinstance(here.step(first.name), d.Claim)


def test_a_pending_event_that_holds_our_finalizer_can_be_deleted() -> None:
    here = world()
    target = wire.replace_metadata(here.events["e"], finalizers=(FINALIZER_CLAIMED,), deletion_timestamp=START)
    here.events["e"] = target
    assert here.decide("e") == d.RemoveFinalizer()
    here.step("e")
    assert FINALIZER_CLAIMED not in (here.events["e"].metadata.finalizers if "e" in here.events else ())
