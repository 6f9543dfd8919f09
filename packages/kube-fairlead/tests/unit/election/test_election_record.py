from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api import wire
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import ANNOTATION_PREFERRED_HOLDER
from kube_fairlead.election.election_record import LeaderElectionRecord, Timing

NOW = dt.datetime(2026, 7, 1, 12, 0, 0, 123456, tzinfo=dt.UTC)
EARLIER = NOW - dt.timedelta(minutes=5)


def test_defaults_are_upstreams() -> None:
    timing = Timing()
    assert (timing.lease_duration_seconds, timing.renew_deadline_seconds, timing.retry_period_seconds) == (15, 10, 2)
    assert timing.attempt_seconds == 5
    assert timing.exit_seconds == 14


@pytest.mark.parametrize(
    ("timing", "problem"),
    [
        ({"lease_duration_seconds": 10}, "lease_duration_seconds, in whole seconds, must be greater than renew"),
        ({"lease_duration_seconds": 10.9}, "10 is not greater than 10"),
        ({"renew_deadline_seconds": 2.4}, r"renew_deadline_seconds must be greater than retry_period_seconds \* 1.2"),
        ({"retry_period_seconds": 0}, "retry_period_seconds must be greater than zero"),
        ({"lease_duration_seconds": 0.5, "renew_deadline_seconds": 0.3, "retry_period_seconds": 0.1}, "0 is not"),
    ],
)
def test_timing_that_does_not_fit_is_refused(timing: dict[str, float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Timing(**timing)


def test_the_fields_are_those_of_client_go() -> None:
    record = LeaderElectionRecord(
        holder="a_1", lease_duration_seconds=15, acquire_time=EARLIER, renew_time=NOW, transitions=3, strategy="x/y"
    )
    assert wire.to_dict(record.onto(Lease()))["spec"] == {
        "holderIdentity": "a_1",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-07-01T11:55:00.123456Z",
        "renewTime": "2026-07-01T12:00:00.123456Z",
        "leaseTransitions": 3,
        "strategy": "x/y",
    }


def test_a_missing_field_is_an_empty_one() -> None:
    assert LeaderElectionRecord.of(Lease()) == LeaderElectionRecord()


def test_a_released_lease_has_an_empty_holder_and_one_second() -> None:
    held = LeaderElectionRecord(
        holder="a", lease_duration_seconds=15, acquire_time=EARLIER, renew_time=EARLIER, transitions=3
    )
    released = held.released(NOW)
    assert released == LeaderElectionRecord(lease_duration_seconds=1, acquire_time=NOW, renew_time=NOW, transitions=3)
    assert released.onto(Lease()).spec.holder_identity == ""


def test_a_new_term_counts_and_forgets_the_preference() -> None:
    before = LeaderElectionRecord(
        holder="a", lease_duration_seconds=60, transitions=3, preferred_holder="b", strategy="x/y"
    )
    assert before.taken_by("b", Timing(), NOW) == LeaderElectionRecord(
        holder="b", lease_duration_seconds=15, acquire_time=NOW, renew_time=NOW, transitions=4, strategy="x/y"
    )


def test_a_renewal_changes_the_renew_time_only() -> None:
    record = LeaderElectionRecord(
        holder="a", lease_duration_seconds=15, acquire_time=EARLIER, renew_time=EARLIER, transitions=3
    )
    assert record.renewed(Timing(), NOW) == LeaderElectionRecord(
        holder="a", lease_duration_seconds=15, acquire_time=EARLIER, renew_time=NOW, transitions=3
    )


records = st.builds(
    LeaderElectionRecord,
    holder=st.text(max_size=5),
    lease_duration_seconds=st.integers(0, 100),
    acquire_time=st.none() | st.datetimes(timezones=st.just(dt.UTC)),
    renew_time=st.none() | st.datetimes(timezones=st.just(dt.UTC)),
    transitions=st.integers(0, 100),
    preferred_holder=st.text(max_size=5),
    strategy=st.text(max_size=5),
)


@given(records)
def test_a_record_survives_the_wire(record: LeaderElectionRecord) -> None:
    sent = wire.encode(record.onto(Lease()))
    assert LeaderElectionRecord.of(wire.decode(Lease, sent)) == record


def test_a_preference_needs_no_strategy_and_leaves_no_trace() -> None:
    lease = Lease(metadata=ObjectMeta(annotations={"theirs": "x"}))
    asked = LeaderElectionRecord(holder="a", preferred_holder="b").onto(lease)
    assert asked.metadata.annotations == {"theirs": "x", ANNOTATION_PREFERRED_HOLDER: "b"}
    assert asked.spec.preferred_holder is None  # a server refuses one without a strategy
    taken = LeaderElectionRecord.of(asked).taken_by("b", Timing(), NOW).onto(asked)
    assert taken.metadata.annotations == {"theirs": "x"}
