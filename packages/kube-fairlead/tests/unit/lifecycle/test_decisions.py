from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, FrozenTransition, LifecycleTransitionSpec
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION, FINALIZER_CLAIMED, NODE_SHUTDOWN
from kube_fairlead.lifecycle import autoscaler_annotations
from kube_fairlead.lifecycle import steps as d
from kube_fairlead.lifecycle.decisions import decide
from kube_fairlead.lifecycle.facts import Calling, Ended, Precedence, Refused, Settings, Started
from tests.unit.lifecycle.world import DRIVER, NODE, START, World, event, node, transition

QUIET = Settings(hold_autoscalers=False, well_known_conditions=False)


def world(*, sla: str | None = "90s", settings: Settings = QUIET, registered: bool = True) -> World:
    made = World(settings)
    made.transitions["reboot"] = transition(sla=sla)
    if registered:
        made.offer(transition(sla=sla))
    made.add(event())
    return made


def names(decisions: list[d.Decision]) -> list[str]:
    return [type(decision).__name__ for decision in decisions]


def test_one_event_from_first_to_last() -> None:
    here = world(settings=Settings(keep_finished=dt.timedelta(seconds=5)))
    taken: list[d.Decision] = [here.step("e") for _ in range(4)]
    here.answer("e")
    taken += [here.step("e") for _ in range(3)]
    assert here.node is not None
    assert here.node.metadata.annotations == {
        **autoscaler_annotations.HOLDS,
        autoscaler_annotations.ANNOTATION_HELD: ",".join(autoscaler_annotations.HOLDS),
    }
    here.answer("e")
    taken += [here.step("e") for _ in range(6)]
    here.now += dt.timedelta(seconds=5)
    taken.append(here.step("e"))
    assert names(taken) == [
        "Claim",
        "AddFinalizer",
        "AnnotateNode",
        "StartDriver",
        "Publish",
        "RecordStart",
        "EndDriver",
        "Publish",
        "Finish",
        "AnnotateNode",
        "WriteRecord",
        "RemoveFinalizer",
        "WaitUntil",
        "Delete",
    ]
    assert here.events == {}
    assert here.node.metadata.annotations == {}
    assert here.reasons == [("uid-e", "reboot-a"), ("uid-e", "reboot-z")]
    assert here.calls == [("uid-e", "start"), ("uid-e", "end")]


def test_the_claim_says_everything_at_once() -> None:
    here = world()
    here.events["e"] = wire.replace_metadata(
        here.events["e"], annotations={"reboot.example.com/delay": "5s", "drain.fairlead.dev/force": "true"}
    )
    here.now += dt.timedelta(milliseconds=300)
    here.step("e")
    status = here.events["e"].status
    assert status.claim_status == ClaimStatus.CLAIMED
    assert (status.driver, status.claimed_by, status.node_uid) == (DRIVER, "node/node-1", "node-uid-1")
    assert status.transition == FrozenTransition(uid="uid-of-reboot", start="reboot-a", end="reboot-z")
    assert status.options == {"delay": "5s"}
    assert status.claim_time == status.first_seen_time == START
    # Never cut short by the API's whole seconds.
    assert status.sla == START + dt.timedelta(seconds=91)


@pytest.mark.parametrize("steps", range(12))
def test_a_restart_after_any_step_finds_the_missing_one(steps: int) -> None:
    here = world()
    for _ in range(steps):
        if "e" in here.events:
            here.step("e")
            here.answer("e")
    here.crash()
    for _ in range(12):
        if "e" in here.events:
            here.step("e")
            here.answer("e")
    assert here.events == {}
    assert here.statuses["uid-e"] == [ClaimStatus.PENDING, ClaimStatus.CLAIMED, ClaimStatus.SUCCEEDED]
    assert [reason for _, reason in here.reasons] == ["reboot-a", "reboot-z"]


def test_first_come_first_served() -> None:
    here = world()
    here.add(event("a", created=START + dt.timedelta(seconds=1)))
    here.add(event("b", created=START))
    for name in ("a", "e"):
        seen = here.step(name)
        assert isinstance(seen, d.MarkSeen)
        assert (seen.status.message, seen.for_its_turn) == ("waiting: another event of the node goes first", True)
        assert seen.status.first_seen_time is None, "the wait for a driver has not begun"
        assert here.decide(name) == d.Nothing("event b goes first")
    assert isinstance(here.step("b"), d.Claim)
    assert here.decide("e") == d.Nothing("event b goes first")


def test_an_event_that_waits_for_its_driver_blocks_no_other() -> None:
    here = world()
    here.transitions["later"] = transition("later", driver="example.com/absent")
    here.add(event("a", "later"))
    seen = here.step("a")
    assert isinstance(seen, d.MarkSeen)
    assert seen.status.message == "waiting: driver example.com/absent is not registered on node node-1"
    assert isinstance(here.step("e"), d.Claim)


def test_the_next_event_waits_until_the_last_is_released() -> None:
    here = world()
    here.step("e")
    here.step("e")
    here.step("e")
    here.runs["uid-e"] = Refused(here.now, "disk is full")
    here.step("e")
    here.add(event("f", created=START + dt.timedelta(seconds=1)))
    assert here.events["e"].claim_status is ClaimStatus.FAILED
    here.step("f")
    assert here.decide("f") == d.Nothing("event e goes first")
    assert isinstance(here.step("e"), d.WriteRecord)
    here.step("e")
    assert isinstance(here.decide("f"), d.Claim)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "there is no LifecycleTransition missing; waited 300 s for it"),
        ("reboot", "driver example.com/reboot is not registered on node node-1; waited 300 s for it"),
    ],
)
def test_no_driver_for_five_minutes_is_a_failure(name: str, message: str) -> None:
    here = world(registered=False)
    here.add(event("f", name))
    assert isinstance(here.step("f"), d.MarkSeen)
    assert here.decide("f") == d.WaitUntil(START + dt.timedelta(minutes=5), message.partition(";")[0])
    here.now += dt.timedelta(minutes=5)
    here.step("f")
    assert here.events["f"].claim_status is ClaimStatus.FAILED
    assert here.events["f"].status.message == message
    assert isinstance(here.step("f"), d.WriteRecord)
    assert [(one.event_name, one.result, one.message) for one in here.records] == [("f", "Failed", message)]
    assert isinstance(here.step("f"), d.Delete)


def test_a_driver_that_offers_other_states_is_no_driver_for_it() -> None:
    here = world()
    here.drivers[DRIVER] = frozenset({("x", "y")})
    seen = here.step("e")
    assert isinstance(seen, d.MarkSeen)
    assert "does not offer the transition from reboot-a to reboot-z" in seen.status.message


def test_a_transition_for_other_nodes_is_refused() -> None:
    here = world()
    spec = LifecycleTransitionSpec(start="reboot-a", end="reboot-z", node_name="node-2", driver=DRIVER)
    here.transitions["reboot"] = wire.replace(here.transitions["reboot"], spec=spec)
    here.step("e")
    assert here.events["e"].status.message == "LifecycleTransition reboot is not for node node-1"


@pytest.mark.parametrize(
    "annotations", [{f"reboot.example.com/{n}": "" for n in range(65)}, {"reboot.example.com/x": "y" * 1025}]
)
def test_options_that_cannot_be_stored_are_refused(annotations: dict[str, str]) -> None:
    here = world()
    here.events["e"] = wire.replace_metadata(here.events["e"], annotations=annotations)
    here.step("e")
    assert here.events["e"].claim_status is ClaimStatus.FAILED


def test_a_malformed_sla_is_refused_and_not_a_crash() -> None:
    here = world(sla="soon")
    here.step("e")
    assert here.events["e"].status.message.startswith("the sla of LifecycleTransition reboot is malformed")


def claimed(here: World, *, started: bool = True) -> None:
    for _ in range(3):
        here.step("e")
    if started:
        here.answer("e")
        for _ in range(3):
            here.step("e")
        assert here.events["e"].status.start_time is not None


@pytest.mark.parametrize(("started", "reason"), [(False, ""), (True, "reboot-a")])
def test_the_deadline_ends_it(started: bool, reason: str) -> None:
    here = world()
    claimed(here, started=started)
    assert here.decide("e") == d.WaitUntil(START + dt.timedelta(seconds=90), "the driver works")
    here.now += dt.timedelta(seconds=90)
    here.step("e")
    ended = here.events["e"]
    assert ended.claim_status is ClaimStatus.SLA_EXPIRED
    assert ended.status.completion_time == here.now
    here.settle()
    assert here.node is not None
    condition = here.node.condition(CONDITION_LIFECYCLE_TRANSITION)
    # The reason stays at the state that was really reached, and the message says what happened.
    assert (condition.reason if condition else "") == reason
    assert condition is None or condition.message == (
        "Lifecycle Transition 'reboot' did not end by its deadline: "
        "the driver had not finished by the deadline 2026-03-01T12:01:30Z"
    )


def test_an_answer_in_time_counts_though_it_is_written_late() -> None:
    here = world()
    claimed(here)
    here.runs["uid-e"] = Ended(START + dt.timedelta(seconds=89))
    here.now += dt.timedelta(seconds=120)
    here.settle()
    assert here.statuses["uid-e"][-1] is ClaimStatus.SUCCEEDED


def test_an_answer_too_late_does_not() -> None:
    here = world()
    claimed(here)
    here.runs["uid-e"] = Ended(START + dt.timedelta(seconds=90))
    here.now += dt.timedelta(seconds=120)
    here.settle()
    assert here.statuses["uid-e"][-1] is ClaimStatus.SLA_EXPIRED


def test_an_error_of_the_driver_fails_the_event_with_its_message() -> None:
    here = world(sla=None)
    claimed(here)
    assert here.decide("e") == d.Nothing("the driver works")
    here.answer("e", refusal="x" * 40_000)
    here.step("e")
    message = here.events["e"].status.message
    assert len(message) == 32_768
    assert message.endswith("...")


def test_a_node_of_the_same_name_is_not_the_same_node() -> None:
    here = world()
    claimed(here)
    here.node = node("node-uid-2")
    here.settle()
    assert here.statuses["uid-e"][-1] is ClaimStatus.FAILED
    assert here.node.status.conditions == ()


def test_a_claim_whose_node_is_gone_fails() -> None:
    here = world()
    claimed(here)
    here.node = None
    here.settle()
    assert here.statuses["uid-e"][-1] is ClaimStatus.FAILED


def test_without_the_lease_nothing_is_touched() -> None:
    here = world()
    here.holds_lease = False
    assert here.decide("e") == d.Nothing("another claimant holds the node's lease")


@pytest.mark.parametrize("whose", ["claimer/central", ""])
def test_anothers_claim_is_left_alone(whose: str) -> None:
    """Also one of the proposal's own fields alone, which does not say whose it is."""
    here = world()
    status = wire.replace(here.events["e"].status, claim_status="Claimed", driver="x.example.com/y", claimed_by=whose)
    here.events["e"] = wire.replace(here.events["e"], status=status)
    here.add(event("f"))
    here.step("f")
    assert here.decide("e") == d.Nothing(f"{whose or 'another claimant'} has claimed it")
    assert here.decide("f") == d.Nothing("event e goes first")
    here.events["e"] = wire.replace(here.events["e"], status=wire.replace(status, claim_status="Succeeded"))
    assert here.decide("e") == d.Nothing(f"{whose or 'another claimant'} has claimed it")
    assert isinstance(here.decide("f"), d.Claim)


def test_an_event_that_the_server_rejects_blocks_no_other() -> None:
    here = world()
    here.add(event("f"))
    facts = dataclasses.replace(here.facts(), refused=frozenset({"uid-e"}))
    assert isinstance(decide(here.events["f"], facts, here.now), d.Claim)


def test_a_call_for_an_event_that_is_gone_goes_first() -> None:
    here = world()
    here.runs["uid-of-one-that-is-gone"] = Calling()
    assert here.decide("e") == d.Nothing("the driver of another event still works")
    here.runs["uid-of-one-that-is-gone"] = Ended(here.now)
    assert isinstance(here.decide("e"), d.Claim)


def test_why_it_waits_is_written_whenever_it_changes() -> None:
    here = world(registered=False)
    offered = here.transitions.pop("reboot")
    here.step("e")
    first_seen = here.events["e"].status.first_seen_time
    assert isinstance(here.decide("e"), d.WaitUntil)
    here.transitions["reboot"] = offered
    here.now += dt.timedelta(seconds=60)
    here.step("e")
    status = here.events["e"].status
    assert status.message == f"waiting: driver {DRIVER} is not registered on node {NODE}"
    assert status.first_seen_time == first_seen
    assert isinstance(here.decide("e"), d.WaitUntil)


def test_a_pending_event_under_deletion_is_not_claimed() -> None:
    here = world()
    here.events["e"] = wire.replace_metadata(here.events["e"], finalizers=("x/y",))
    here.delete("e")
    assert here.decide("e") == d.Nothing("it is being deleted")


def test_deleted_between_claim_and_finalizer() -> None:
    here = world()
    here.events["e"] = wire.replace_metadata(here.events["e"], finalizers=("x/y",))
    here.step("e")
    here.delete("e")
    here.step("e")
    assert here.events["e"].status.message == "it was deleted before its driver was started"
    assert here.calls == []


def test_deleted_without_its_finalizer_after_the_start_it_is_run_to_its_end() -> None:
    here = world()
    claimed(here)
    here.answer("e")
    here.step("e")
    here.events["e"] = wire.replace_metadata(here.events["e"], finalizers=("x/y",))
    here.delete("e")
    here.crash()
    assert here.events["e"].status.start_time is not None
    assert not isinstance(here.decide("e"), d.Finish)


def test_deleted_while_claimed_it_is_run_to_its_end() -> None:
    here = world()
    claimed(here)
    here.delete("e")
    here.answer("e")
    here.settle()
    assert here.events == {}
    assert here.statuses["uid-e"][-1] is ClaimStatus.SUCCEEDED


def test_a_removed_finalizer_is_added_again() -> None:
    here = world()
    claimed(here)
    here.events["e"] = wire.replace_metadata(here.events["e"], finalizers=())
    assert isinstance(here.step("e"), d.AddFinalizer)
    assert FINALIZER_CLAIMED in here.events["e"].metadata.finalizers


def test_a_driver_that_is_gone_is_waited_for() -> None:
    here = world()
    here.step("e")
    here.step("e")
    del here.drivers[DRIVER]
    lost = f"driver {DRIVER} unreachable since 2026-03-01T12:00:00Z: it is not registered on node {NODE}"
    assert isinstance(here.step("e"), d.NoteDriver)
    assert here.events["e"].status.message == lost
    assert here.decide("e") == d.WaitUntil(START + dt.timedelta(seconds=90), lost)
    here.runs["uid-e"] = Started(here.now)
    here.settle()
    assert here.decide("e") == d.WaitUntil(START + dt.timedelta(seconds=90), lost)
    here.now += dt.timedelta(seconds=90)
    assert isinstance(here.step("e"), d.Finish)
    status = here.events["e"].status
    assert status.claim_status == ClaimStatus.SLA_EXPIRED
    assert lost in status.message


def test_a_shutdown_ends_the_claim_and_claims_nothing_but_itself() -> None:
    here = world()
    claimed(here)
    here.precedence = Precedence(driver=NODE_SHUTDOWN.driver, why="node is shutting down")
    here.settle()
    assert here.statuses["uid-e"][-1] is ClaimStatus.FAILED
    here.add(event("f"))
    assert here.decide("f") == d.Nothing("node is shutting down")
    shutdown = transition(NODE_SHUTDOWN.name, driver=NODE_SHUTDOWN.driver)
    here.offer(shutdown)
    here.add(event("g", NODE_SHUTDOWN.name))
    assert isinstance(here.step("g"), d.Claim)
    assert isinstance(here.step("g"), d.AddFinalizer)


def test_events_on_a_node_that_is_not_there_wait() -> None:
    here = world()
    here.node = None
    assert here.decide("e") == d.Nothing(f"there is no node {NODE}")


@pytest.mark.parametrize(
    "content", [{}, {"driver": DRIVER}, {"transition": FrozenTransition(start="reboot-a", end="reboot-z")}]
)
def test_a_claim_without_its_whole_content_fails(content: dict[str, Any]) -> None:
    here = world()
    status = wire.replace(here.events["e"].status, claim_status="Claimed", claimed_by="node/node-1", **content)
    here.events["e"] = wire.replace(here.events["e"], status=status)
    here.step("e")
    assert here.events["e"].status.message == "the claim does not say what was claimed"


def test_another_clients_autoscaler_annotation_stays() -> None:
    here = world(settings=Settings())
    mine = {"karpenter.sh/do-not-disrupt": "until-monday"}
    assert here.node is not None
    here.node = wire.replace_metadata(here.node, annotations=mine)
    claimed_node: Node | None = None
    for _ in range(20):
        if "e" in here.events:
            here.step("e")
            here.answer("e")
            claimed_node = claimed_node or (
                here.node if autoscaler_annotations.ANNOTATION_HELD in here.node.metadata.annotations else None
            )
    assert claimed_node is not None
    assert claimed_node.metadata.annotations["karpenter.sh/do-not-disrupt"] == "until-monday"
    assert here.node.metadata.annotations == mine
