"""A node that reports its shutdown: no other event begins there or writes its conditions (invariant 10)."""

from __future__ import annotations

import datetime as dt

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus
from kube_fairlead.api.reserved import NODE_SHUTDOWN
from kube_fairlead.lifecycle import autoscaler_annotations, claims, phases
from kube_fairlead.lifecycle import steps as d
from kube_fairlead.lifecycle.facts import DriverTraits, Ended, Precedence, Settings
from tests.unit.lifecycle.world import DRIVER, START, World, event, transition

HOUR = dt.timedelta(hours=1)
SECOND = dt.timedelta(seconds=1)


def world(*, sla: str | None = None) -> World:
    made = World(Settings(hold_autoscalers=False, well_known_conditions=False))
    made.offer(transition(sla=sla))
    made.add(event("e"))
    return made


@pytest.mark.parametrize(
    ("reason", "believed"), [(NODE_SHUTDOWN.start, HOUR), (NODE_SHUTDOWN.end, dt.timedelta(minutes=2))]
)
def test_nothing_is_claimed_there_and_the_event_says_why(reason: str, believed: dt.timedelta) -> None:
    here = world()
    here.say_of_shutdown(reason)
    assert isinstance(here.step("e"), d.MarkSeen)
    assert here.events["e"].status.message == f"{phases.WAITING}the node is going down"
    assert here.step("e") == d.WaitUntil(START + believed, "the node is going down")
    # A stale shutdown condition does not block the node forever.
    here.now += believed
    assert isinstance(here.step("e"), d.Claim)


def test_after_the_condition_is_cleared_the_event_continues() -> None:
    here = world()
    here.say_of_shutdown(NODE_SHUTDOWN.start)
    here.settle()
    here.say_of_shutdown("")
    assert isinstance(here.step("e"), d.Claim)


@pytest.mark.parametrize("is_answered", [False, True])
@pytest.mark.parametrize("steps", range(2, 9))
def test_what_is_under_way_says_nothing_and_begins_nothing(steps: int, is_answered: bool) -> None:
    """In every state of the event: claimed, started, called for the second time, or ended and not published."""
    here = world()
    for _ in range(steps):
        here.answer("e")
        here.step("e")
    if is_answered:
        here.answer("e")
    calls, reasons = list(here.calls), list(here.reasons)
    here.say_of_shutdown(NODE_SHUTDOWN.start)
    if here.events["e"].claim_status is ClaimStatus.CLAIMED:
        here.settle()
        assert (here.calls, here.reasons) == (calls, reasons)
    here.say_of_shutdown("")
    while here.events and here.events["e"].claim_status is ClaimStatus.CLAIMED:
        here.step("e")
        here.answer("e")
    assert here.statuses["uid-e"][-1] is ClaimStatus.SUCCEEDED


def test_a_deadline_is_not_prolonged_by_it() -> None:
    here = world(sla="60s")
    here.step("e")
    here.say_of_shutdown(NODE_SHUTDOWN.start)
    here.settle()
    decision = here.decide("e")
    assert isinstance(decision, d.WaitUntil)
    assert decision.moment == here.events["e"].status.sla
    here.now = decision.moment + SECOND
    assert isinstance(here.step("e"), d.Finish)
    assert here.events["e"].claim_status is ClaimStatus.SLA_EXPIRED


def test_a_claimer_leaves_the_lease_to_the_nodes_own_agent() -> None:
    here = world()
    here.say_of_shutdown(NODE_SHUTDOWN.start)
    assert here.node is not None
    offered = here.transitions["reboot"]
    drivers = {DRIVER: frozenset({(offered.spec.start, offered.spec.end)})}
    since = claims.lease_needed_from(
        here.node, here.events.values(), here.transitions, drivers, claimant="claimer/central", keep=HOUR
    )
    assert since == START + HOUR


def test_a_driver_that_has_kept_its_deadline_is_not_waited_for_by_it() -> None:
    """The end was reached in time, and cannot be said while the node goes down; the deadline passes meanwhile."""
    here = world(sla="60s")
    while not isinstance(here.step("e"), d.EndDriver):
        here.answer("e")
    here.answer("e")
    here.say_of_shutdown(NODE_SHUTDOWN.start)
    here.now += 61 * SECOND
    assert here.decide("e") == d.WaitUntil(START + HOUR, "the node is going down")
    here.say_of_shutdown("")
    here.settle()
    assert here.statuses["uid-e"][-1] is ClaimStatus.SUCCEEDED


def shutdown_world(settings: Settings | None = None) -> World:
    """A driver with precedence, which writes the conditions of its states itself."""
    made = World(settings or Settings(hold_autoscalers=False, well_known_conditions=False))
    made.offer(transition("down"))
    made.traits = {DRIVER: DriverTraits(writes_conditions=True)}
    made.precedence = Precedence(driver=DRIVER, why="node is shutting down", deadline=START + HOUR)
    made.add(event("e", "down"))
    return made


def test_the_claim_of_a_driver_with_precedence_has_the_deadline_that_comes_with_it() -> None:
    here = shutdown_world()
    here.step("e")
    assert here.events["e"].status.sla == START + HOUR
    other = world(sla="60s")
    other.precedence = Precedence(driver=DRIVER, why="node is shutting down", deadline=START + HOUR)
    other.step("e")
    assert other.events["e"].status.sla == START + dt.timedelta(seconds=60), "what the transition says comes first"


def late_world() -> World:
    """A claimed event whose driver survives a reboot, in a new process and after the deadline."""
    made = World(Settings(hold_autoscalers=False, well_known_conditions=False))
    made.offer(transition("down", sla="60s"))
    made.traits = {DRIVER: DriverTraits(writes_conditions=True, survives_reboot=True)}
    made.add(event("e", "down"))
    while not made.calls or made.calls[-1][1] != "end":
        made.step("e")
        if made.calls and made.calls[-1][1] == "start":
            made.answer("e")
    made.calls.clear()
    made.runs.clear()
    made.now += HOUR
    return made


@pytest.mark.parametrize("refusal", ["", "the shutdown of the node was cancelled"])
def test_a_driver_that_survives_a_reboot_answers_after_the_deadline(refusal: str) -> None:
    here = late_world()
    here.settle()
    assert here.calls == [("uid-e", "end")]
    here.now += HOUR
    here.answer("e", refusal=refusal)
    here.settle()
    assert here.statuses["uid-e"][-1] is (ClaimStatus.FAILED if refusal else ClaimStatus.SUCCEEDED)


@pytest.mark.parametrize("survives_reboot", [True, False])
def test_autoscalers_are_held_only_where_the_claimant_can_release_them(survives_reboot: bool) -> None:
    """A machine that goes down may never return: an autoscaler must be able to remove its node."""
    here = shutdown_world(Settings(well_known_conditions=False))
    here.traits = {DRIVER: DriverTraits(writes_conditions=True, survives_reboot=survives_reboot)}
    here.settle()
    assert here.calls == [("uid-e", "start")]
    assert here.node is not None
    assert (autoscaler_annotations.ANNOTATION_HELD in here.node.metadata.annotations) is not survives_reboot


def test_its_answer_counts_though_it_has_left_since() -> None:
    here = late_world()
    here.settle()
    here.answer("e")
    del here.drivers[DRIVER]
    here.settle()
    assert here.statuses["uid-e"][-1] is ClaimStatus.SUCCEEDED


def test_it_has_the_time_to_register_that_every_driver_has() -> None:
    here = late_world()
    drivers = dict(here.drivers)
    del here.drivers[DRIVER]
    here.drivers_known_at = here.now + dt.timedelta(seconds=30)
    assert here.decide("e") == d.WaitUntil(here.drivers_known_at, f"driver {DRIVER} may still register")
    here.now = here.drivers_known_at
    decision = here.decide("e")
    assert isinstance(decision, d.Finish)
    assert decision.status.claim_status is ClaimStatus.SLA_EXPIRED
    here.drivers.update(drivers)
    assert isinstance(here.decide("e"), d.EndDriver)


def test_the_deadline_counts_for_what_it_does_in_this_boot() -> None:
    here = late_world()
    here.precedence = Precedence(driver=DRIVER, why="node is shutting down", event_name="e")
    decision = here.decide("e")
    assert isinstance(decision, d.Finish)
    assert decision.status.claim_status is ClaimStatus.SLA_EXPIRED
    here.precedence = Precedence(driver=DRIVER, why="node is shutting down", event_name="another")
    assert isinstance(here.decide("e"), d.EndDriver)


@pytest.mark.parametrize("refusal", ["", "the shutdown of the node was cancelled"])
def test_what_a_driver_writes_on_the_node_itself_is_not_written_for_it(refusal: str) -> None:
    here = shutdown_world()
    here.say_of_shutdown(NODE_SHUTDOWN.end)
    shown = here.node
    here.transitions["down"] = wire.replace(
        here.transitions["down"],
        spec=wire.replace(here.transitions["down"].spec, start=NODE_SHUTDOWN.start, end=NODE_SHUTDOWN.end),
    )
    here.offer(here.transitions["down"])
    while here.events:
        here.step("e")
        is_ending = bool(here.calls) and here.calls[-1][1] == "end"
        here.answer("e", refusal=refusal if is_ending else "")
    assert here.calls == [("uid-e", "start"), ("uid-e", "end")]
    assert here.statuses["uid-e"][-1] is (ClaimStatus.FAILED if refusal else ClaimStatus.SUCCEEDED)
    assert here.node == shown


def test_the_driver_with_precedence_ends_an_event_as_it_says() -> None:
    here = shutdown_world()
    while not here.calls or here.calls[-1][1] != "end":
        here.step("e")
        here.answer("e")
    here.runs["uid-e"] = Ended(here.now, "the node shut down and started again")
    assert isinstance(here.step("e"), d.Finish)
    assert here.events["e"].status.message == "the node shut down and started again"
