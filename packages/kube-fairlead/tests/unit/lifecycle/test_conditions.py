from __future__ import annotations

import datetime as dt

import pytest

from kube_fairlead.api import reserved, wire
from kube_fairlead.api.core_v1 import NodeCondition, NodeStatus
from kube_fairlead.api.lifecycle_v1alpha1 import FrozenTransition, LifecycleEventStatus
from kube_fairlead.lifecycle import conditions, state_effects
from tests.unit.lifecycle.world import START, event, node

LATER = START + dt.timedelta(minutes=1, milliseconds=5)


def test_the_proposals_own_condition() -> None:
    (wanted,) = conditions.after_state("node-drain", "DrainStarted", well_known=False)
    written = wire.to_dict(conditions.written(wanted, None, START))
    assert written == {
        "type": "LifecycleTransition",
        "status": "True",
        "reason": "DrainStarted",
        "message": "Lifecycle Transition 'node-drain'",
        "lastHeartbeatTime": "2026-03-01T12:00:00Z",
        "lastTransitionTime": "2026-03-01T12:00:00Z",
    }


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("DrainStarted", {"DrainInProgress": "True", "Drained": "False"}),
        ("DrainComplete", {"DrainInProgress": "False", "Drained": "True"}),
        ("Uncordoning", {"Drained": "False"}),
        ("MaintenancePlanned", {"MaintenancePlanned": "True"}),
        ("MaintenanceInProgress", {"MaintenancePlanned": "False", "MaintenanceInProgress": "True"}),
        ("MaintenanceComplete", {"MaintenancePlanned": "False", "MaintenanceInProgress": "False"}),
        ("shutdown-drain-started", {"GracefulNodeShutdownInProgress": "True"}),
        ("shutdown-drain-complete", {"GracefulNodeShutdownInProgress": "True"}),
        ("firmware-updating", {}),
    ],
)
def test_well_known_conditions(state: str, expected: dict[str, str]) -> None:
    wanted = conditions.after_state("t", state, well_known=True)
    assert {one.type: one.status for one in wanted} == {"LifecycleTransition": "True", **expected}


def test_when_it_became_so() -> None:
    started, ended = (conditions.after_state("t", state, well_known=False)[0] for state in ("a", "z"))
    first = conditions.written(started, None, START)
    assert conditions.written(started, first, LATER).last_transition_time == START
    failed = wire.replace(first, message="Lifecycle Transition 't' failed: disk is full")
    assert conditions.written(started, failed, LATER).last_transition_time == LATER.replace(microsecond=0)
    moved = conditions.written(ended, first, LATER)
    assert moved.last_transition_time == LATER.replace(microsecond=0)
    assert conditions.outstanding([started], wire.replace(node(), status=NodeStatus(conditions=(first,)))) == ()
    assert conditions.outstanding([ended], wire.replace(node(), status=NodeStatus(conditions=(first,)))) == (ended,)


@pytest.mark.parametrize(
    ("status", "words"),
    [("Failed", "failed: disk is full"), ("SlaExpired", "did not end by its deadline: disk is full")],
)
def test_after_a_failure_the_reason_stays(status: str, words: str) -> None:
    ended = wire.replace(
        event(transition_name="node-drain"),
        status=LifecycleEventStatus(
            claim_status=status,
            message="disk is full",
            start_time=START,
            transition=FrozenTransition(start="DrainStarted", end="DrainComplete"),
        ),
    )
    current = NodeCondition(type=reserved.CONDITION_LIFECYCLE_TRANSITION, status="True", reason="DrainStarted")
    here = wire.replace(node(), status=NodeStatus(conditions=(current,)))
    own, draining = conditions.after_failure(ended, here, well_known=True)
    assert (own.reason, own.message) == ("DrainStarted", f"Lifecycle Transition 'node-drain' {words}")
    assert (draining.type, draining.status, draining.reason) == ("DrainInProgress", "False", "DrainFailed")
    assert conditions.after_failure(ended, node(), well_known=True) == ()
    assert conditions.after_failure(ended, here, well_known=False) == (own,)
    never_begun = wire.replace(ended, status=wire.replace(ended.status, start_time=None))
    elsewhere = wire.replace(node(), status=NodeStatus(conditions=(wire.replace(current, reason="Patched"),)))
    assert len(conditions.after_failure(never_begun, here, well_known=True)) == 2
    assert len(conditions.after_failure(never_begun, elsewhere, well_known=True)) == 1
    going_down = wire.replace(current, reason=reserved.NODE_SHUTDOWN.start)
    there = wire.replace(node(), status=NodeStatus(conditions=(going_down,)))
    assert conditions.after_failure(ended, there, well_known=True) == (draining,), "a shutdown has the word"


def test_reserved_transitions_are_listed_with_a_meaning() -> None:
    assert [one.name for one in state_effects.RESERVED] == ["node-shutdown", "node-drain", "node-uncordon"]
    for one in state_effects.RESERVED:
        assert state_effects.effects_of_state(one.start), one
        assert state_effects.effects_of_state(one.end), one
        assert one.name in (state_effects.__doc__ or "")
