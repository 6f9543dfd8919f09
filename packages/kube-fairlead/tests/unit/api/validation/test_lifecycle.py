from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import pytest

from kube_fairlead.api import reserved, wire
from kube_fairlead.api.lifecycle_v1alpha1 import (
    LEGAL_MOVES,
    TERMINAL,
    ClaimStatus,
    LifecycleEvent,
    LifecycleEventStatus,
    LifecycleTransition,
    Progress,
)
from kube_fairlead.api.validation import lifecycle
from tests.unit.api import spec_validation

NODE_SHUTDOWN: dict[str, Any] = {
    "start": "shutdown-drain-started",
    "end": "shutdown-drain-complete",
    "driver": "fairlead.dev/shutdown",
}
ONE_OF = "exactly one of `nodeName`, `nodeSelector`, `allNodes` is required"
TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}


def transition(name: str = "drain", drop: tuple[str, ...] = (), **spec: Any) -> LifecycleTransition:
    fields = {"start": "DrainStarted", "end": "DrainComplete", "driver": "example.com/drain", "allNodes": True} | spec
    fields = {key: value for key, value in fields.items() if key not in drop}
    return wire.from_dict(LifecycleTransition, {"metadata": {"name": name}, "spec": fields})


def event(status: dict[str, Any] | None = None, **spec: Any) -> LifecycleEvent:
    fields = {"transitionName": "drain", "bindingNode": "node-1"} | spec
    return wire.from_dict(LifecycleEvent, {"metadata": {"name": "e"}, "spec": fields, "status": status or {}})


def texts(errors: list[Any]) -> list[str]:
    return [str(error) for error in errors]


@pytest.mark.parametrize(
    "good",
    [
        transition(),
        transition(sla="12h"),
        transition(sla="+1.5h30m"),
        transition(sla="1ns"),
        transition(driver="example.com/server_side_kubectl_drain"),
        transition(driver="drain"),
        transition(drop=("allNodes",), nodeName="node-1"),
        transition(drop=("allNodes",), nodeSelector={"nodeSelectorTerms": [TERM, {}]}),
        transition("node-shutdown", **NODE_SHUTDOWN),
        transition("node-drain", driver=reserved.DRIVER_DRAIN),
        transition("node-drain"),
        transition("mine", start="MaintenanceComplete", end="MaintenancePlanned"),
        transition("mine", start="Uncordoning", end="Other"),
    ],
)
def test_good_transitions(good: LifecycleTransition) -> None:
    assert spec_validation.validate_transition(good) == []


@pytest.mark.parametrize(
    ("bad", "errors"),
    [
        (transition(drop=("start",)), ["spec.start: Required value"]),
        (transition(end=""), ["spec.end: Required value"]),
        (transition(start="x" * 129), ["spec.start: Too long: may not be more than 128 characters"]),
        (transition(drop=("driver",)), ["spec.driver: Required value"]),
        (transition(drop=("allNodes",)), [f"spec: Required value: {ONE_OF}"]),
        (
            transition(nodeName="n"),
            [f'spec: Invalid value: "{{`nodeName`, `allNodes`}}": {ONE_OF}, but multiple fields are set'],
        ),
        (
            transition(nodeName="n", nodeSelector={"nodeSelectorTerms": [TERM]}, drop=("allNodes",)),
            [f'spec: Invalid value: "{{`nodeName`, `nodeSelector`}}": {ONE_OF}, but multiple fields are set'],
        ),
        (
            transition(allNodes=False),
            [
                "spec.allNodes: Invalid value: false: must be either unset or set to true",
                f"spec: Required value: {ONE_OF}",
            ],
        ),
        (transition(sla="12"), ['spec.sla: Invalid value: "12": time: missing unit in duration "12"']),
        (transition(sla="1d"), ['spec.sla: Invalid value: "1d": time: unknown unit "d" in duration "1d"']),
        (
            transition(drop=("allNodes",), nodeSelector={}),
            [
                "spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
            ],
        ),
        (
            transition("node-shutdown"),
            [
                (
                    "spec: Forbidden: the transition node-shutdown is reserved: it goes from shutdown-drain-started "
                    "to shutdown-drain-complete by driver fairlead.dev/shutdown"
                )
            ],
        ),
        (
            transition("mine", **NODE_SHUTDOWN),
            [
                f"spec.{field}: Forbidden: reserved for the transition node-shutdown"
                for field in ("start", "end", "driver")
            ],
        ),
        (
            transition("node-drain", end="Other"),
            ["spec: Forbidden: the transition node-drain is reserved: it goes from DrainStarted to DrainComplete"],
        ),
        (
            transition("mine", start="DrainComplete", end="Uncordoning"),
            [
                (
                    "spec.end: Forbidden: DrainStarted and Uncordoning are reserved: a transition may only start with "
                    "them"
                ),
                "spec.start: Forbidden: DrainComplete is reserved: a transition may only end with it",
            ],
        ),
        (
            transition(start="shutdown-drain-complete"),
            ["spec.start: Forbidden: reserved for the transition node-shutdown"],
        ),
    ],
)
def test_bad_transitions(bad: LifecycleTransition, errors: list[str]) -> None:
    assert texts(spec_validation.validate_transition(bad)) == errors


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (transition(driver="a b"), "spec.driver"),
        (transition(driver="a/b/c"), "spec.driver"),
        (transition(driver="X.com/a"), "spec.driver"),
        (transition(drop=("allNodes",), nodeName="Node01"), "spec.nodeName"),
        (transition(drop=("allNodes",), nodeName=""), "spec.nodeName"),
    ],
)
def test_malformed_names(bad: LifecycleTransition, field: str) -> None:
    (error,) = spec_validation.validate_transition(bad)
    assert error.field == field


def test_specs_never_change() -> None:
    old = transition()
    assert spec_validation.validate_transition_update(transition(), old) == []
    (error,) = spec_validation.validate_transition_update(transition(sla="1h"), old)
    assert str(error).startswith('spec: Invalid value: {"allNodes":true,')
    assert str(error).endswith("field is immutable")
    (error,) = spec_validation.validate_event_update(event(bindingNode="node-2"), event())
    assert str(error) == ('spec: Invalid value: {"bindingNode":"node-2","transitionName":"drain"}: field is immutable')
    assert spec_validation.validate_event_update(event(), event()) == []


def test_events() -> None:
    assert spec_validation.validate_event(event()) == []
    assert texts(spec_validation.validate_event(LifecycleEvent())) == [
        "spec.transitionName: Required value",
        "spec.bindingNode: Required value",
    ]
    (error,) = spec_validation.validate_event(event(bindingNode="Node01"))
    assert error.field == "spec.bindingNode"
    (error,) = spec_validation.validate_event(event(transitionName="nodeDrain"))
    assert error.field == "spec.transitionName"


@pytest.mark.parametrize(("source", "target"), list(itertools.product(["", *ClaimStatus], repeat=2)))
def test_only_the_legal_moves_are_allowed(source: str, target: str) -> None:
    before, after = event({"claimStatus": source}), event({"claimStatus": target})
    legal = after.claim_status in LEGAL_MOVES[before.claim_status] or after.claim_status is before.claim_status
    errors = lifecycle.validate_event_status_update(after, before)
    assert (errors == []) is legal
    if not legal:
        assert errors[0].field == "status.claimStatus"


def test_what_an_illegal_move_is_told() -> None:
    errors = lifecycle.validate_event_status_update(
        event({"claimStatus": "Failed"}), event({"claimStatus": "Succeeded"})
    )
    assert texts(errors) == ['status.claimStatus: Invalid value: "Failed": Succeeded is terminal and never changes']
    errors = lifecycle.validate_event_status_update(event({"claimStatus": "Succeeded"}), event())
    assert texts(errors) == [
        'status.claimStatus: Invalid value: "Succeeded": Pending may only become Claimed or Failed'
    ]
    errors = lifecycle.validate_event_status_update(event({"claimStatus": "Done"}), event())
    assert texts(errors) == [
        (
            'status.claimStatus: Unsupported value: "Done": supported values: '
            '"Claimed", "Failed", "Pending", "SlaExpired", "Succeeded"'
        )
    ]


@pytest.mark.parametrize(
    ("field", "value", "other"),
    [
        ("sequence", 7, 8),
        ("firstSeenTime", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
        ("startTime", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
        ("completionTime", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
    ],
)
def test_what_was_recorded_stays(field: str, value: Any, other: Any) -> None:
    before = event({field: value})
    assert lifecycle.validate_event_status_update(before, event()) == []
    assert lifecycle.validate_event_status_update(before, before) == []
    for changed in (event({field: other}), event()):
        (error,) = lifecycle.validate_event_status_update(changed, before)
        assert error.field == f"status.{field}"
        assert error.detail == "field is immutable once set"


@pytest.mark.parametrize(
    ("field", "value", "other"),
    [
        ("driver", "a/b", "a/c"),
        ("sla", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
        ("claimedBy", "node/a", "node/b"),
        ("nodeUID", "u1", "u2"),
        ("transition", {"uid": "u", "start": "a", "end": "b"}, {"uid": "u", "start": "a", "end": "c"}),
        ("options", {"force": "true"}, {"force": "false"}),
        ("claimTime", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
    ],
)
def test_what_belongs_to_a_claim_is_set_with_it_or_never(field: str, value: Any, other: Any) -> None:
    """A user who may write statuses cannot give a claim a deadline, or another driver, after the fact."""
    without, claimed = event({"claimStatus": "Claimed"}), event({"claimStatus": "Claimed", field: value})
    assert lifecycle.validate_event_status_update(claimed, event()) == []
    assert lifecycle.validate_event_status_update(claimed, claimed) == []
    changes = [
        (event({"claimStatus": "Claimed", field: other}), claimed),
        (without, claimed),
        (claimed, without),
        (event({field: value}), event()),
        (event({"claimStatus": "Failed", field: value}), without),
    ]
    for after, before in changes:
        (error,) = lifecycle.validate_event_status_update(after, before)
        assert error.field == f"status.{field}"
        assert error.detail == "may only be set together with the claim, and is immutable afterwards"


@pytest.mark.parametrize(
    "sla", ["9999999h", "1000000h", "123456789m", "99999999999s", "99999999999999ms", "999999h1s", "0s", "-1h"]
)
def test_an_sla_out_of_bounds_is_refused_in_plain_words(sla: str) -> None:
    (error,) = spec_validation.validate_transition(transition(sla=sla))
    assert str(error) == f'spec.sla: Invalid value: "{sla}": must be greater than zero and at most 999999h'


@pytest.mark.parametrize("sla", ["999999h", "1ns", "100h30m5.5s", "59999940m"])
def test_an_sla_within_bounds(sla: str) -> None:
    assert spec_validation.validate_transition(transition(sla=sla)) == []


def test_message_and_progress_may_change_within_bounds() -> None:
    before = event({"message": "a", "progress": {"done": 1, "total": 2, "unit": "pods"}})
    after = event({"message": "b", "progress": {"done": 2, "total": 3, "unit": "pods"}})
    assert lifecycle.validate_event_status_update(after, before) == []
    broken = wire.replace(after, status=LifecycleEventStatus(progress=Progress(done=-1), message="x" * 32769))
    assert texts(lifecycle.validate_event_status_update(broken, before)) == [
        "status.message: Too long: may not be more than 32768 characters",
        "status.progress.done: Invalid value: -1: must be greater than or equal to 0",
    ]


def test_the_table_is_the_designs() -> None:
    assert {ClaimStatus.SUCCEEDED, ClaimStatus.FAILED, ClaimStatus.SLA_EXPIRED} == TERMINAL
    assert set(LEGAL_MOVES) == set(ClaimStatus)
    assert LEGAL_MOVES[ClaimStatus.PENDING] == {ClaimStatus.CLAIMED, ClaimStatus.FAILED}
    assert LEGAL_MOVES[ClaimStatus.CLAIMED] == TERMINAL
    assert event().claim_status is ClaimStatus.PENDING
    assert not event({"claimStatus": "Claimed"}).finished
    assert event({"claimStatus": "SlaExpired"}).finished


def test_which_nodes_a_transition_covers() -> None:
    labels = {"zone": "a", "cores": "8"}
    assert transition().spec.covers("n", {})
    named = transition(drop=("allNodes",), nodeName="n").spec
    assert named.covers("n", {})
    assert not named.covers("m", {})
    assert not transition(drop=("allNodes",)).spec.covers("n", {})
    assert transition().spec.sla_duration is None
    assert transition(sla="90m").spec.sla_duration == dt.timedelta(minutes=90)
    for term, covered in [
        (TERM, True),
        ({}, False),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}, True),
        ({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]}, False),
        ({"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}]}, True),
        ({"matchExpressions": [{"key": "cores", "operator": "Lt", "values": ["4"]}]}, False),
        ({"matchExpressions": [{"key": "zone", "operator": "Like", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "zone", "operator": "In", "values": []}]}, False),
    ]:
        spec = transition(drop=("allNodes",), nodeSelector={"nodeSelectorTerms": [{}, term]}).spec
        assert spec.covers("n", labels) is covered
