from __future__ import annotations

import datetime as dt

import pytest

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleEventSpec, LifecycleEventStatus
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import FINALIZER_CLAIMED
from kube_fairlead.lifecycle import records
from kube_fairlead.lifecycle.garbage_collection import Retention, collect
from kube_fairlead.lifecycle.steps import Delete, Finish, Nothing, RemoveFinalizer, WaitUntil, WriteRecord

NOW = dt.datetime(2026, 7, 1, 12, 0, 0, tzinfo=dt.UTC)
RULES = Retention(keep=dt.timedelta(hours=1))
HERE = Node(metadata=ObjectMeta(name="n", uid="u1"))
REPLACED = Node(metadata=ObjectMeta(name="n", uid="u2"))


def ago(**units: float) -> dt.datetime:
    return NOW - dt.timedelta(**units)


def event(
    claim_status: str = "", *, age: dt.datetime = NOW, finalizer: bool = False, deleting: bool = False
) -> LifecycleEvent:
    finished = claim_status not in {"", "Pending", "Claimed"}
    return LifecycleEvent(
        metadata=ObjectMeta(
            name="e",
            creation_timestamp=age,
            finalizers=(FINALIZER_CLAIMED,) if finalizer else (),
            deletion_timestamp=NOW if deleting else None,
        ),
        spec=LifecycleEventSpec(transition_name="t", binding_node="n"),
        status=LifecycleEventStatus(
            claim_status=claim_status,
            node_uid="u1" if claim_status not in {"", "Pending"} else "",
            completion_time=age if finished else None,
        ),
    )


@pytest.mark.parametrize("claim_status", ["", "Claimed"])
def test_an_event_whose_node_is_there_is_its_claimants(claim_status: str) -> None:
    assert isinstance(collect(event(claim_status, age=ago(days=9)), HERE, RULES, NOW), Nothing)


@pytest.mark.parametrize("node", [None, REPLACED])
def test_a_claimed_event_of_a_node_that_is_gone_has_failed(node: Node | None) -> None:
    decision = collect(event("Claimed", finalizer=True), node, RULES, NOW)
    assert isinstance(decision, Finish)
    assert decision.status.claim_status == "Failed"
    assert decision.status.message == "node n with uid u1 no longer exists"
    assert decision.status.completion_time == NOW


def test_a_pending_event_waits_for_its_node_to_register() -> None:
    assert collect(event(age=ago(minutes=4)), None, RULES, NOW) == WaitUntil(
        ago(minutes=-1), "its node may still register"
    )
    decision = collect(event(age=ago(minutes=5)), None, RULES, NOW)
    assert isinstance(decision, Finish)
    assert decision.status.message == "there is no node n"


def test_a_creation_that_has_not_come_yet_is_not_counted_from() -> None:
    """Found by the simulation (seed 13000213): the API server's clock was an hour ahead when the event was made."""
    ahead = event(age=NOW + dt.timedelta(hours=1))
    assert collect(ahead, None, RULES, NOW, seen=ago(minutes=4)) == WaitUntil(
        ago(minutes=-1), "its node may still register"
    )
    assert isinstance(collect(ahead, None, RULES, NOW, seen=ago(minutes=5)), Finish)
    assert isinstance(collect(event(age=ago(minutes=4)), None, RULES, NOW, seen=ago(minutes=9)), WaitUntil)


@pytest.mark.parametrize(
    ("node", "age", "collected"),
    [
        (None, ago(minutes=59), False),
        (None, ago(minutes=60), True),
        (HERE, ago(minutes=69), False),  # its claimant deletes it
        (HERE, ago(minutes=70), True),  # but did not
        (REPLACED, ago(minutes=60), True),
    ],
)
@pytest.mark.parametrize("claim_status", ["Succeeded", "Failed", "SlaExpired"])
def test_finished_events_go_when_their_time_has_come(
    claim_status: str, node: Node | None, age: dt.datetime, collected: bool
) -> None:
    decision = collect(event(claim_status, age=age), node, RULES, NOW, recorded=True)
    assert isinstance(decision, Delete if collected else WaitUntil)


@pytest.mark.parametrize("finalizer", [True, False])
@pytest.mark.parametrize("node", [None, REPLACED])
def test_what_no_claimant_answers_for_is_recorded_first(node: Node | None, finalizer: bool) -> None:
    finished = event("Failed", age=ago(minutes=1), finalizer=finalizer)
    assert collect(finished, node, RULES, NOW) == WriteRecord(records.entry_of(finished))
    assert not isinstance(collect(finished, node, RULES, NOW, recorded=True), WriteRecord)


def test_an_abandoned_event_is_recorded_before_it_is_deleted() -> None:
    finished = event("Failed", age=ago(minutes=70))
    assert collect(finished, HERE, RULES, NOW) == WriteRecord(records.entry_of(finished))
    assert isinstance(collect(event("Failed", age=ago(minutes=69)), HERE, RULES, NOW), WaitUntil)


def test_the_finalizer_is_removed_only_where_no_claimant_can() -> None:
    finished = event("Succeeded", finalizer=True)
    assert isinstance(collect(finished, HERE, RULES, NOW), Nothing)
    assert collect(finished, None, RULES, NOW, recorded=True) == RemoveFinalizer()
    deleting = event("Succeeded", finalizer=True, deleting=True)
    assert collect(deleting, None, RULES, NOW, recorded=True) == RemoveFinalizer()


def test_what_is_being_deleted_is_not_deleted_again() -> None:
    deleting = event("Succeeded", age=ago(days=1), deleting=True)
    assert isinstance(collect(deleting, None, RULES, NOW, recorded=True), Nothing)
