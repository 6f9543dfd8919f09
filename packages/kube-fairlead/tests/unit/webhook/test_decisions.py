"""When a delete is noted, and that every sequence of notes comes to rest."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api.reserved import (
    ANNOTATION_GRACE_DEADLINE,
    ANNOTATION_GRACE_REQUEST_TIME,
    ANNOTATION_GRACE_REQUESTED,
)
from kube_fairlead.api.time import format_micro_time, format_time
from kube_fairlead.webhook.decisions import Decision, Erase, Leave, Note, decide

NOW = dt.datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=dt.UTC)
WHOLE = NOW.replace(microsecond=0)
Json = dict[str, Any]


def at(seconds: int) -> dt.datetime:
    return WHOLE + dt.timedelta(seconds=seconds)


def thing(
    *,
    deleting: int | None = None,
    note: tuple[int, int] | None = None,
    written: int | None = None,
    finalizers: tuple[str, ...] = ("example.com/x",),
) -> Json:
    """An object as stock Kubernetes stores it: a deletion stamped in the past, a note, and when that was written."""
    metadata: Json = {"finalizers": list(finalizers)}
    if deleting is not None:
        metadata |= {"deletionTimestamp": format_time(at(deleting)), "deletionGracePeriodSeconds": 0}
    if note is not None:
        deadline, seconds = note
        metadata["annotations"] = {
            ANNOTATION_GRACE_DEADLINE: format_time(at(deadline)),
            ANNOTATION_GRACE_REQUESTED: str(seconds),
        }
    if written is not None:
        metadata["annotations"][ANNOTATION_GRACE_REQUEST_TIME] = format_micro_time(at(written))
    return {"metadata": metadata}


def grace(seconds: int | None, **others: Any) -> Json:
    return others if seconds is None else {"gracePeriodSeconds": seconds, **others}


VERSION = {"preconditions": {"resourceVersion": "7"}}
SOON = {"metadata": {"finalizers": ["a"], "annotations": {ANNOTATION_GRACE_DEADLINE: "soon"}}}
NO_FINALIZER = Leave("the grace period has no effect: the object has no finalizer")
LESS_TIME = Leave("the grace period has no effect: the object is being deleted already, with less time left")
KEPT = Leave("an earlier request's grace period is not erased: the delete has a resourceVersion precondition")
LOST = Leave("the grace period is not recorded: the delete has a resourceVersion precondition")


@pytest.mark.parametrize(
    ("row", "obj", "options", "expected"),
    [
        (1, thing(), grace(None), Leave()),
        (2, thing(), grace(0), Note(at(0), 0)),
        (3, thing(), grace(30), Note(at(30), 30)),
        (3, thing(), grace(-3), Note(at(1), 1)),
        ("4-6", thing(finalizers=()), grace(None), Leave()),
        ("4-6", thing(finalizers=()), grace(0), Leave()),
        ("4-6", thing(finalizers=()), grace(1), Leave()),
        ("4-6", thing(finalizers=()), grace(30), NO_FINALIZER),
        (7, thing(deleting=-10, note=(20, 30)), grace(None), Leave()),
        (8, thing(deleting=-10, note=(20, 30)), grace(0), Note(at(0), 0)),
        (8, thing(deleting=-10, note=(-5, 5)), grace(0), Note(at(-5), 0)),
        (8, thing(deleting=-10), grace(0), Note(at(-10), 0)),
        (8, thing(deleting=-10, note=(-10, 0)), grace(0), Leave()),
        (9, thing(deleting=-10, note=(20, 30)), grace(10), Note(at(10), 10)),
        (9, thing(deleting=-10, note=(20, 30)), grace(20), LESS_TIME),
        (9, thing(deleting=-10, note=(20, 30)), grace(300), LESS_TIME),
        (9, thing(deleting=-10), grace(10), LESS_TIME),  # a plain delete began it: its time is over
        ("10-12", thing(deleting=-10, note=(20, 30), finalizers=()), grace(0), Leave()),
        # Admission again, because the note changed the object.
        ("again", thing(note=(30, 30), written=0), grace(30), Leave()),
        ("again, deleting", thing(deleting=-10, note=(30, 30), written=0), grace(30), Leave()),
        ("again, later", thing(note=(10, 30), written=-20), grace(30), Leave()),
        ("again, forced", thing(note=(0, 0), written=0), grace(0), Leave()),
        ("two at once", thing(note=(300, 300), written=0), grace(10), Note(at(10), 10)),
        ("two at once", thing(note=(10, 10), written=0), grace(300), Leave()),
        # Left by a delete that was rejected.
        ("stale, forced", thing(note=(-2, 0), written=-2), grace(None), Erase()),
        ("stale, forced", thing(note=(-2, 0), written=-2), grace(300), Note(at(300), 300)),
        ("stale, shorter", thing(note=(8, 10), written=-2), grace(300), Note(at(300), 300)),
        ("stale, deleting", thing(deleting=-10, note=(-900, 0), written=-900), grace(None), Erase()),
        ("stale, deleting", thing(deleting=-10, note=(-900, 0), written=-900), grace(0), Note(at(-10), 0)),
        ("stale, deleting", thing(deleting=-10, note=(-900, 0), written=-900), grace(5), Erase()),
        ("stale, version", thing(note=(-1, 0), written=-1), grace(None, **VERSION), KEPT),
        ("stale, version, believed by none", thing(note=(-9, 0), written=-9), grace(None, **VERSION), Leave()),
        ("stale", thing(note=(-900, 30), written=-930), grace(None), Erase()),
        ("stale", thing(note=(-900, 30), written=-930), grace(30), Note(at(30), 30)),
        ("stale, who knows since when", thing(note=(20, 300)), grace(30), Note(at(30), 30)),
        ("not a time", SOON, grace(None), Erase()),
        # A delete that insists on a version must not have it changed under its feet.
        ("version", thing(), grace(30, **VERSION), LOST),
        ("version, nothing lost", thing(), grace(None, **VERSION), Leave()),
        ("version, nothing lost", thing(deleting=-10, note=(20, 30)), grace(300, **VERSION), LESS_TIME),
        ("version, stale", thing(note=(-900, 30), written=-930), grace(None, **VERSION), Leave()),
        ("uid is no obstacle", thing(), grace(30, preconditions={"uid": "u"}), Note(at(30), 30)),
        # Finalizers count after the policy's own are added, or taken away.
        ("foreground", thing(finalizers=()), grace(30, propagationPolicy="Foreground"), Note(at(30), 30)),
        ("orphan", thing(finalizers=()), grace(30, propagationPolicy="Orphan"), Note(at(30), 30)),
        ("orphan", thing(finalizers=()), grace(30, orphanDependents=True), Note(at(30), 30)),
        ("background", thing(finalizers=("orphan",)), grace(30, propagationPolicy="Background"), NO_FINALIZER),
        ("background", thing(finalizers=("foregroundDeletion",)), grace(30, orphanDependents=False), NO_FINALIZER),
        ("nothing said", thing(finalizers=("foregroundDeletion",)), grace(30), Note(at(30), 30)),
    ],
)
def test_what_is_noted(row: object, obj: Json, options: Json, expected: Decision) -> None:
    assert decide(obj, options, NOW) == expected, f"row {row}"


graces = st.one_of(st.none(), st.integers(min_value=-5, max_value=400))


@given(
    asked=st.lists(graces, min_size=1, max_size=3),
    order=st.lists(st.integers(min_value=0, max_value=2), max_size=40),
    stale=st.booleans(),
)
def test_deletes_at_once_come_to_rest(asked: list[int | None], order: list[int], stale: bool) -> None:
    """Whoever finds nothing to write is through; the others are asked again, in any order, until all are."""
    obj = thing(note=(-900, 30), written=-930) if stale else thing()
    now = NOW
    waiting = dict(enumerate(asked))
    for turn in [*order, *range(len(asked)), *range(len(asked))]:
        if turn not in waiting:
            continue
        decision = decide(obj, grace(waiting[turn]), now)
        if isinstance(decision, Leave):
            del waiting[turn]
            metadata = obj["metadata"]
            metadata.setdefault("deletionTimestamp", format_time(now))
            metadata["deletionGracePeriodSeconds"] = 0
        else:
            _write(obj, decision, now)
        now += dt.timedelta(milliseconds=20)
    assert not waiting, "a delete that is asked again and again writes again and again"


def _write(obj: Json, decision: Note | Erase, now: dt.datetime) -> None:
    metadata = obj["metadata"]
    metadata.pop("annotations", None)
    if isinstance(decision, Note):
        metadata["annotations"] = {
            ANNOTATION_GRACE_DEADLINE: format_time(decision.deadline),
            ANNOTATION_GRACE_REQUESTED: str(decision.requested),
            ANNOTATION_GRACE_REQUEST_TIME: format_micro_time(now),
        }


@given(first=graces, steps=st.lists(st.tuples(graces, st.integers(min_value=0, max_value=200))))
def test_the_noted_deadline_only_moves_earlier(first: int | None, steps: list[tuple[int | None, int]]) -> None:
    now = NOW
    obj = thing()
    decision = decide(obj, grace(first), now)
    if isinstance(decision, Note):
        _write(obj, decision, now)
    obj["metadata"] |= {"deletionTimestamp": format_time(now), "deletionGracePeriodSeconds": 0}
    for asked, waited in steps:
        now += dt.timedelta(seconds=waited)
        before = obj["metadata"].get("annotations", {}).get(ANNOTATION_GRACE_DEADLINE, format_time(NOW))
        decision = decide(obj, grace(asked), now)
        assert not isinstance(decision, Erase)
        if isinstance(decision, Note):
            assert format_time(decision.deadline) <= before
            _write(obj, decision, now)
