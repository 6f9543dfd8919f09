"""What is kept of finished events: idempotent by uid, in one order, within bounds."""

from __future__ import annotations

import datetime as dt
import itertools
import random

import msgspec
import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.lifecycle_v1alpha1 import (
    FrozenTransition,
    LifecycleEvent,
    LifecycleEventSpec,
    LifecycleEventStatus,
    NodeLifecycleRecord,
    PodOutcome,
    RecordEntry,
    Requester,
)
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.recordrules import ENTRIES_MAX, MESSAGE_MAX_LENGTH
from kube_fairlead.api.reserved import ANNOTATION_REQUESTED_BY
from kube_fairlead.lifecycle import records

NOW = dt.datetime(2026, 7, 1, 12, 0, 0, tzinfo=dt.UTC)


def finished(name: str = "e", *, message: str = "", pods: int = 0) -> LifecycleEvent:
    return LifecycleEvent(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", creation_timestamp=NOW - dt.timedelta(minutes=5)),
        spec=LifecycleEventSpec(transition_name="node-drain", binding_node="n"),
        status=LifecycleEventStatus(
            claim_status="Succeeded",
            node_uid="u1",
            completion_time=NOW,
            message=message,
            transition=FrozenTransition(uid="t", start="DrainStarted", end="DrainComplete"),
            pods=tuple(PodOutcome(namespace="ns", name=f"p{i}", uid=f"{i}", attempts=1) for i in range(pods)),
        ),
    )


def entry(number: int, *, pods: int = 0, message: str = "") -> RecordEntry:
    return RecordEntry(
        event_uid=f"uid-{number:04}",
        event_name=f"e-{number}",
        transition_name="node-drain",
        completion_time=NOW + dt.timedelta(seconds=number),
        result="Failed",
        message=message,
        pods=tuple(PodOutcome(name=f"pod-{i}", uid=f"{i:036}", blocked_by="b" * 500) for i in range(pods)),
    )


def size(record: NodeLifecycleRecord) -> int:
    return sum(len(msgspec.json.encode(one)) for one in record.entries)


def filled(entries: list[RecordEntry]) -> NodeLifecycleRecord:
    record = records.new_record("n", entries[0])
    for one in entries[1:]:
        record = records.with_entry(record, one) or record
    return record


def test_the_entry_says_what_the_event_came_to() -> None:
    made = records.entry_of(finished(message="x" * 5000, pods=2))
    assert (made.event_uid, made.event_name, made.node_uid) == ("uid-e", "e", "u1")
    assert (made.start, made.end, made.result) == ("DrainStarted", "DrainComplete", "Succeeded")
    assert (made.request_time, made.completion_time) == (NOW - dt.timedelta(minutes=5), NOW)
    assert len(made.message) == MESSAGE_MAX_LENGTH
    assert [pod.name for pod in made.pods] == ["p0", "p1"]
    assert made.requested_by is None


def test_the_user_that_admission_recorded_asked_for_it() -> None:
    event = wire.replace_metadata(finished(), annotations={ANNOTATION_REQUESTED_BY: "alice"})
    assert records.requester_of(event) == Requester(name="alice", source="Admission")


def test_without_it_the_program_that_wrote_the_spec_is_named_and_marked() -> None:
    tree = wire.to_dict(finished())
    tree["metadata"]["managedFields"] = [
        {"manager": "agent", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}},
        {"manager": "labeller", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {}}}},
        {"manager": "kubectl-create", "operation": "Update", "fieldsV1": {"f:spec": {"f:bindingNode": {}}}},
    ]
    event = wire.from_dict(LifecycleEvent, tree)
    assert records.requester_of(event) == Requester(name="kubectl-create", source="FieldManager")


def test_an_event_is_recorded_once_however_often_it_is_written() -> None:
    first = records.new_record("n", entry(1))
    assert records.with_entry(first, entry(1)) is None
    assert records.with_entry(first, entry(1, message="other words")) is None
    second = records.with_entry(first, entry(2))
    assert second is not None
    assert [one.event_name for one in second.entries] == ["e-2", "e-1"]


def test_two_writers_agree_on_the_order() -> None:
    entries = [entry(number) for number in range(30)]
    expected = filled(entries).entries
    for seed in range(10):
        shuffled = random.Random(seed).sample(entries, len(entries))
        assert filled(shuffled).entries == expected


def test_what_completes_within_one_second_is_sorted_by_the_order_of_completion() -> None:
    """The uids, the names and all times say the opposite, or nothing."""
    drain = wire.replace_metadata(finished("z-drain"), resource_version="98")
    uncordon = wire.replace_metadata(finished("b-uncordon"), resource_version="101")
    again = wire.replace_metadata(finished("a-drain"), resource_version="1002")
    for order in itertools.permutations((drain, uncordon, again)):
        record = filled([records.entry_of(event) for event in order])
        assert [one.event_name for one in record.entries] == ["a-drain", "b-uncordon", "z-drain"]


def test_entries_of_an_older_version_are_the_older_ones_of_their_second() -> None:
    old = [
        wire.replace(entry(number), completion_time=NOW, claim_time=NOW - dt.timedelta(seconds=number))
        for number in (1, 2)
    ]
    new = records.entry_of(wire.replace_metadata(finished(), resource_version="7"))
    assert [one.event_name for one in filled([*old, new]).entries] == ["e", "e-1", "e-2"]


def test_old_entries_are_dropped_and_counted_and_stay_dropped() -> None:
    record = filled([entry(number) for number in range(ENTRIES_MAX + 7)])
    assert len(record.entries) == ENTRIES_MAX
    assert record.dropped_entries == 7
    assert record.entries[0].event_name == f"e-{ENTRIES_MAX + 6}"
    # A claimant that was restarted writes again what was dropped meanwhile.
    assert records.with_entry(record, entry(3)) is None


@pytest.mark.parametrize("pods", [1, 40, 128])
def test_a_record_stays_within_its_bytes(pods: int) -> None:
    record = filled([entry(number, pods=pods, message="m" * MESSAGE_MAX_LENGTH) for number in range(60)])
    assert size(record) <= records.BYTES_MAX
    assert len(record.entries) + record.dropped_entries == 60
    assert len(record.entries) > 40
    newest = record.entries[0]
    assert len(newest.pods) + newest.pods_omitted == pods
    assert all(len(one.pods) + one.pods_omitted == pods for one in record.entries)
    if pods == 128:
        assert len(newest.pods) == pods
        assert record.entries[-1].pods_omitted == pods


def test_entries_go_when_their_time_is_over() -> None:
    keep = dt.timedelta(seconds=100)
    record = filled([entry(number) for number in (0, 50, 90)])
    assert records.pruned(record, keep, NOW) == NOW + keep
    left = records.pruned(record, keep, NOW + dt.timedelta(seconds=155))
    assert isinstance(left, NodeLifecycleRecord)
    assert ([one.event_name for one in left.entries], left.dropped_entries) == (["e-90"], 2)
    empty = records.pruned(record, keep, NOW + dt.timedelta(days=1))
    assert isinstance(empty, NodeLifecycleRecord)
    assert empty.entries == ()


def test_of_nodes_that_come_and_go_the_oldest_records_go_first() -> None:
    def of(name: str, number: int) -> NodeLifecycleRecord:
        return records.new_record(name, entry(number))

    known = [of("a", 3), of("b", 1), of("c", 2), of("there", 0)]
    assert [one.name for one in records.overflow(known, {"there": None}, 1)] == ["b", "c"]
    assert records.overflow(known, {"there": None}, 3) == []


@pytest.mark.parametrize(
    ("code", "seconds", "urgent", "released"),
    [
        (403, 29, False, False),
        (403, 30, False, True),
        (404, 30, False, True),
        (403, 0, True, True),
        (409, 3600, True, False),
        (429, 3600, True, False),
        (503, 3600, True, False),
    ],
)
def test_an_event_is_released_without_a_record_only_when_the_server_does_not_want_it(
    code: int, seconds: int, urgent: bool, released: bool
) -> None:
    now = NOW + dt.timedelta(seconds=seconds)
    assert records.may_release_without_record(finished(), code, now, urgent=urgent) is released
