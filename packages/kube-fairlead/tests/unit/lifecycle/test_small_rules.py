"""Phases, deadlines, options, retention, autoscaling and the checks of the invariants, case by case."""

from __future__ import annotations

import datetime as dt

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.lifecycle_v1alpha1 import (
    LEGAL_MOVES,
    ClaimStatus,
    FrozenTransition,
    LifecycleEvent,
    LifecycleEventStatus,
)
from kube_fairlead.api.reserved import FINALIZER_CLAIMED
from kube_fairlead.api.validation.lifecycle import MESSAGE_MAX_LENGTH, OPTION_MAX_LENGTH, OPTIONS_MAX
from kube_fairlead.lifecycle import (
    autoscaler_annotations,
    claims,
    deadlines,
    driver_options,
    invariants,
    phases,
    retention,
)
from tests.unit.lifecycle.world import START, event

SECOND = dt.timedelta(seconds=1)


@pytest.mark.parametrize("source", ClaimStatus)
@pytest.mark.parametrize("target", ClaimStatus)
def test_only_the_table_leads_anywhere(source: ClaimStatus, target: ClaimStatus) -> None:
    status = LifecycleEventStatus(claim_status=source)
    if target in LEGAL_MOVES[source]:
        assert phases.advance(status, target, message="m") == LifecycleEventStatus(claim_status=target, message="m")
    else:
        with pytest.raises(phases.IllegalPhaseChange, match=f"{source} cannot become {target}"):
            phases.advance(status, target)


def test_an_empty_status_is_pending() -> None:
    assert phases.phase_of(LifecycleEventStatus()) is ClaimStatus.PENDING


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (dt.timedelta(seconds=5), START + 5 * SECOND),
        (dt.timedelta(milliseconds=1), START + SECOND),
        (dt.timedelta.max, dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)),
    ],
)
def test_a_deadline_is_never_early(length: dt.timedelta, expected: dt.datetime) -> None:
    assert deadlines.deadline_after(START, length) == expected


def test_without_an_sla_nothing_expires() -> None:
    assert not deadlines.expired(LifecycleEventStatus(), START)
    assert deadlines.expired(LifecycleEventStatus(sla=START), START)
    assert not deadlines.expired(LifecycleEventStatus(sla=START), START - SECOND)


@pytest.mark.parametrize(
    ("driver", "prefix"),
    [("fairlead.dev/drain", "drain.fairlead.dev/"), ("reboot", "reboot/"), ("a.b/c_d", "c_d.a.b/")],
)
def test_annotations_for_a_driver(driver: str, prefix: str) -> None:
    assert driver_options.annotation_prefix(driver) == prefix
    found = driver_options.options_for(driver, {f"{prefix}b": "2", f"{prefix}a": "1", "x/y": "z"})
    assert list(found.items()) == [("a", "1"), ("b", "2")]
    assert driver_options.options_problem(found) == ""


def finished(**metadata: object) -> LifecycleEvent:
    status = LifecycleEventStatus(claim_status="Failed", completion_time=START)
    return wire.replace_metadata(wire.replace(event(), status=status), **metadata)


def test_the_wait_for_a_driver() -> None:
    wait, hour = 60 * SECOND, 3600 * SECOND
    assert deadlines.driver_wait_ends(event(), wait, START) == START + wait
    seen = wire.replace(event(), status=LifecycleEventStatus(first_seen_time=START + SECOND))
    assert deadlines.driver_wait_ends(seen, wait, START + SECOND) == START + SECOND + wait
    # Seen by a clock that ran an hour ahead and has been set right: the event's own age counts.
    future = wire.replace(event(), status=LifecycleEventStatus(first_seen_time=START + hour))
    assert deadlines.driver_wait_ends(future, wait, START + SECOND) == START + wait
    ageless = wire.replace_metadata(future, creation_timestamp=None)
    assert deadlines.driver_wait_ends(ageless, wait, START) == START + hour + wait


def test_retention() -> None:
    assert retention.collectable_at(event(), SECOND) is None
    assert retention.collectable_at(finished(), SECOND) == START + SECOND
    # Nothing is to be kept: not even an event that was finished in the future, by a clock that has been set right.
    future = wire.replace(finished(), status=wire.replace(finished().status, completion_time=START + 3600 * SECOND))
    at_once = retention.collectable_at(future, dt.timedelta(0))
    assert at_once is not None
    assert at_once < START
    unsaid = wire.replace(event(), status=LifecycleEventStatus(claim_status="Failed"))
    assert retention.collectable_at(unsaid, SECOND) == START + SECOND
    ageless = wire.replace_metadata(unsaid, creation_timestamp=None)
    collectable = retention.collectable_at(ageless, SECOND)
    assert collectable is not None
    assert collectable < START
    assert retention.is_released(finished())
    assert not retention.is_released(finished(finalizers=(FINALIZER_CLAIMED,)))
    assert not retention.is_released(event())


def test_holding_autoscalers_off_and_letting_go() -> None:
    first = autoscaler_annotations.hold({})
    held = {key: value for key, value in first.items() if value is not None}
    assert set(held) == {*autoscaler_annotations.HOLDS, autoscaler_annotations.ANNOTATION_HELD}
    assert autoscaler_annotations.hold(held) == {}
    assert autoscaler_annotations.release(held) == dict.fromkeys(held)
    assert autoscaler_annotations.release({}) == {}
    theirs = dict(autoscaler_annotations.HOLDS)
    assert autoscaler_annotations.hold(theirs) == {}
    # A key that the agent never sets is never removed.
    assert autoscaler_annotations.release({"a": "b", autoscaler_annotations.ANNOTATION_HELD: "a,b"}) == {
        autoscaler_annotations.ANNOTATION_HELD: None
    }


@pytest.mark.parametrize("over", [0, 1])
def test_what_is_just_short_enough_is_left_as_it_is(over: int) -> None:
    message = "x" * (MESSAGE_MAX_LENGTH + over)
    assert (phases.shortened(message) == message) is not bool(over)
    assert len(phases.shortened(message)) == MESSAGE_MAX_LENGTH
    assert bool(driver_options.options_problem({f"o-{n}": "" for n in range(OPTIONS_MAX + over)})) is bool(over)
    assert bool(driver_options.options_problem({"o": "x" * (OPTION_MAX_LENGTH + over)})) is bool(over)


def test_names_of_claimants() -> None:
    assert claims.node_claimant("n") == "node/n"
    assert claims.central_claimant("n") == "claimer/n"


def claim(**status: object) -> LifecycleEvent:
    made = LifecycleEventStatus(
        claim_status="Claimed",
        claimed_by="node/node-1",
        sla=START,
        transition=FrozenTransition(start="a", end="z"),
    )
    return wire.replace_metadata(
        wire.replace(event(), status=wire.replace(made, **status)), finalizers=(FINALIZER_CLAIMED,)
    )


def test_broken_invariants_are_reported_by_number() -> None:
    def breaks(number: int, check: object, *arguments: object) -> None:
        assert callable(check)
        with pytest.raises(invariants.InvariantBroken) as caught:
            check(*arguments)
        assert caught.value.number == number

    other = wire.replace_metadata(claim(), name="other")
    elsewhere = wire.replace(other, spec=wire.replace(other.spec, binding_node="node-2"))
    invariants.check_single_claim([claim(), elsewhere, event()])
    breaks(1, invariants.check_single_claim, [claim(), other])

    breaks(2, invariants.check_status_change, claim(claim_status="Failed"), claim())
    invariants.check_status_change(claim(), claim(claim_status="Failed"))
    for current in ("", "a", "z", "elsewhere"):
        invariants.check_reason(claim(), "a", current)
        breaks(2, invariants.check_reason, claim(), "z", current)
        breaks(2, invariants.check_reason, event(), "a", current)
    for current in ("a", "z"):
        invariants.check_reason(claim(start_time=START), "z", current)
        breaks(2, invariants.check_reason, claim(start_time=START), "a", current)
    for current in ("", "elsewhere"):
        invariants.check_reason(claim(start_time=START), "a", current)
        breaks(2, invariants.check_reason, claim(start_time=START), "z", current)

    invariants.check_may_start(claim(), "node/node-1")
    breaks(3, invariants.check_may_start, wire.replace_metadata(claim(), finalizers=()), "node/node-1")
    breaks(3, invariants.check_may_start, event(), "node/node-1")
    breaks(3, invariants.check_may_release, claim())
    invariants.check_may_release(claim(claim_status="Failed"))

    invariants.check_finished_in_time(claim(), START + invariants.SLACK)
    breaks(4, invariants.check_finished_in_time, claim(), START + invariants.SLACK + SECOND)
    breaks(5, invariants.check_may_start, claim(), "claimer/central")
