"""The deletion table of the design, row by row, and what must hold for any sequence of requests."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.lifecycle.deletion import (
    Decision,
    Mark,
    Remove,
    State,
    Unchanged,
    decide_custom,
    decide_graceful,
    decide_plain,
)

NOW = dt.datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=dt.UTC)
WHOLE = NOW.replace(microsecond=0)


def at(seconds: int) -> dt.datetime:
    return WHOLE + dt.timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("row", "state", "requested", "expected"),
    [
        (1, State(1), None, Mark(at(0), None)),
        (2, State(1), 0, Mark(at(0), 0)),
        (3, State(1), 30, Mark(at(30), 30)),
        (4, State(0), None, Remove()),
        (5, State(0), 0, Remove()),
        (6, State(0), 30, Remove()),
        (7, State(1, at(20), 30), None, Unchanged()),
        (8, State(1, at(20), 30), 0, Mark(at(0), 0)),
        (8, State(1, at(-20), 30), 0, Mark(at(-20), 0)),
        (8, State(1, at(-20), 0), 0, Unchanged()),
        (9, State(1, at(20), 30), 10, Mark(at(10), 10)),
        (9, State(1, at(20), 30), 20, Unchanged()),
        (9, State(1, at(20), 30), 25, Unchanged()),
        (9, State(1, at(-5), None), 10, Unchanged()),
        (10, State(0, at(20), 30), None, Remove()),
        (11, State(0, at(20), 30), 0, Remove()),
        (12, State(0, at(20), 30), 30, Remove()),
    ],
)
def test_table_row(row: int, state: State, requested: int | None, expected: Decision) -> None:
    assert decide_custom(state, requested, NOW) == expected, f"row {row}"


def test_a_deadline_that_is_now_has_not_passed() -> None:
    assert decide_graceful(State(1, at(20), 30), 10, at(0), explicit=True) == Mark(at(0), 10)
    assert decide_graceful(State(1, at(20), 30), 10, at(1), explicit=True) == Mark(at(1), 1)
    assert decide_plain(State(1, at(0), 0), at(0)) == Unchanged()


def test_the_same_grace_again_is_no_hurry_even_when_the_time_is_up() -> None:
    assert decide_graceful(State(1, at(-5), 30), 30, NOW, explicit=True) == Unchanged()
    assert decide_graceful(State(1, at(-5), 30), 29, NOW, explicit=True) == Mark(at(0), 1)


def test_negative_grace_counts_as_one_second() -> None:
    assert decide_custom(State(1), -7, NOW) == Mark(at(1), 1)


def test_a_grace_beyond_the_calendar_is_the_latest_time() -> None:
    decision = decide_custom(State(1), 2**63 - 1, NOW)
    assert isinstance(decision, Mark)
    assert decision.deletion_timestamp.year == 9999
    assert decision.grace_seconds == 2**63 - 1


graces = st.one_of(st.none(), st.integers(min_value=-5, max_value=400))


@given(
    first=graces,
    steps=st.lists(st.tuples(graces, st.integers(min_value=0, max_value=200))),
    finalizers=st.integers(min_value=1, max_value=3),
)
def test_the_deadline_only_moves_earlier_and_nothing_is_undeletable(
    first: int | None, steps: list[tuple[int | None, int]], finalizers: int
) -> None:
    now = NOW
    state = _after(State(finalizers), decide_custom(State(finalizers), first, now))
    assert state.deletion_timestamp is not None
    for requested, waited in steps:
        now += dt.timedelta(seconds=waited)
        before = state.deletion_timestamp
        state = _after(state, decide_custom(state, requested, now))
        assert state.deletion_timestamp is not None
        assert state.deletion_timestamp <= before
    gone = State(0, state.deletion_timestamp, state.grace_seconds)
    assert decide_custom(gone, None, now) == Remove()


def _after(state: State, decision: Decision) -> State:
    if isinstance(decision, Mark):
        return State(state.finalizers, decision.deletion_timestamp, decision.grace_seconds)
    assert isinstance(decision, Unchanged), "an object with finalizers is never removed"
    return state


@pytest.mark.parametrize(
    ("state", "grace", "explicit", "expected"),
    [
        (State(0), 30, False, Mark(at(30), 30)),
        (State(0), 0, True, Remove()),
        (State(1), 0, True, Mark(at(0), 0)),
        (State(0, at(20), 30), 30, False, Unchanged()),
        (State(0, at(20), 30), 40, True, Unchanged()),
        (State(0, at(20), 30), 5, True, Mark(at(0), 1)),
        (State(0, at(28), 30), 10, True, Mark(at(8), 10)),
        (State(0, at(20), 30), 0, True, Remove()),
        (State(0, at(20), 2**62), 0, True, Remove()),
        (State(0, at(20), 2**63 - 1), 5, True, Mark(at(0), 1)),
        (State(0), 2**63 - 1, True, Mark(dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC), 2**63 - 1)),
        (State(1, at(20), 30), 0, True, Mark(at(0), 0)),
        (State(1, at(0), 0), 0, True, Unchanged()),
        (State(0, at(0), 0), 0, True, Remove()),
    ],
)
def test_pods_are_deleted_as_kubernetes_does(state: State, grace: int, explicit: bool, expected: Decision) -> None:
    assert decide_graceful(state, grace, NOW, explicit=explicit) == expected


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State(0), Remove()),
        (State(1), Mark(at(0), 0)),
        (State(1, at(-3), 0), Unchanged()),
        (State(1, at(50), 60), Mark(at(0), 0)),
        (State(0, at(-3), 0), Remove()),
    ],
)
def test_other_kinds_know_no_grace(state: State, expected: Decision) -> None:
    assert decide_plain(state, NOW) == expected
