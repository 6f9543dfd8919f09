from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead_lab.testing.history import (
    Action,
    Create,
    Delete,
    Event,
    Get,
    History,
    HistoryImpossible,
    Operation,
    Outcome,
    Put,
    Refused,
    Saw,
    Stored,
    check,
    check_watch,
)

NEVER = float("inf")


def op(called: float, answered: float, action: Action, outcome: Outcome | None = None, key: str = "a") -> Operation:
    return Operation("c", key, action, called, answered, outcome)


POSSIBLE = {
    "nothing": [],
    "write then read": [op(0, 1, Create("x"), Stored(1)), op(2, 3, Get(), Saw("x", 1))],
    "read beside a write, before it": [op(0, 5, Create("x"), Stored(1)), op(1, 2, Get(), Saw(None))],
    "read beside a write, after it": [op(0, 5, Create("x"), Stored(1)), op(1, 2, Get(), Saw("x", 1))],
    "unanswered write that happened": [op(0, NEVER, Create("x")), op(2, 3, Get(), Saw("x", 7))],
    "unanswered write that did not": [op(0, NEVER, Create("x")), op(2, 3, Get(), Saw(None))],
    "unanswered write that happened late": [
        op(0, NEVER, Create("x")),
        op(2, 3, Get(), Saw(None)),
        op(4, 5, Get(), Saw("x", 7)),
    ],
    "its revision is learnt once": [
        op(0, NEVER, Create("x")),
        op(2, 3, Get(), Saw("x", 7)),
        op(4, 5, Put("y", 7), Stored(8)),
    ],
    "two racing creates": [op(0, 5, Create("x"), Stored(3)), op(0, 5, Create("y"), Refused(exists=True))],
    "stale update": [
        op(0, 1, Create("x"), Stored(1)),
        op(2, 3, Put("y"), Stored(2)),
        op(4, 5, Put("z", 1), Refused(exists=True)),
    ],
    "update of what is gone": [
        op(0, 1, Create("x"), Stored(1)),
        op(2, 3, Delete(), Stored()),
        op(4, 5, Put("y", 1), Refused(exists=False)),
        op(4, 5, Delete(), Refused(exists=False)),
        op(6, 7, Create("z"), Stored(9)),
    ],
}

IMPOSSIBLE = {
    "lost write": [op(0, 1, Create("x"), Stored(1)), op(2, 3, Get(), Saw(None))],
    "lost update": [
        op(0, 1, Create("x"), Stored(1)),
        op(2, 3, Put("y"), Stored(2)),
        op(4, 5, Get(), Saw("x", 1)),
    ],
    "invented object": [op(2, 3, Get(), Saw("x", 1))],
    "invented value": [op(0, 1, Create("x"), Stored(1)), op(2, 3, Get(), Saw("y", 2))],
    "same value at another revision": [op(0, 1, Create("x"), Stored(1)), op(2, 3, Get(), Saw("x", 2))],
    "read goes back": [
        op(0, NEVER, Create("x")),
        op(2, 3, Get(), Saw("x", 7)),
        op(4, 5, Get(), Saw(None)),
    ],
    "two creates that both won": [op(0, 5, Create("x"), Stored(3)), op(0, 5, Create("y"), Stored(4))],
    "lost precondition": [
        op(0, 1, Create("x"), Stored(1)),
        op(2, 3, Put("y"), Stored(2)),
        op(4, 5, Put("z", 1), Stored(3)),
    ],
    "refused without reason": [op(0, 1, Create("x"), Stored(1)), op(2, 3, Put("y", 1), Refused(exists=True))],
    "create refused without reason": [op(0, 1, Create("x"), Refused(exists=True))],
    "deleted twice": [
        op(0, 1, Create("x"), Stored(1)),
        op(2, 3, Delete(), Stored()),
        op(4, 5, Delete(), Stored()),
    ],
    "one revision for two": [op(0, 1, Create("x"), Stored(1)), op(0, 1, Create("x"), Stored(1), key="b")],
    "later write with a lower revision": [
        op(0, 1, Create("x"), Stored(5)),
        op(2, 3, Create("x"), Stored(4), key="b"),
    ],
    "revisions of one object go back": [
        op(0, 9, Create("x"), Stored(5)),
        op(1, 8, Put("y"), Stored(4)),
    ],
}


@pytest.mark.parametrize("operations", POSSIBLE.values(), ids=POSSIBLE)
def test_possible_histories(operations: list[Operation]) -> None:
    check(operations)


@pytest.mark.parametrize("operations", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_histories(operations: list[Operation]) -> None:
    with pytest.raises(HistoryImpossible):
        check(operations)


def test_the_explanation_shows_where_it_ends() -> None:
    with pytest.raises(HistoryImpossible) as caught:
        check(IMPOSSIBLE["lost update"])
    text = str(caught.value)
    assert "2 of 3 can be explained and lead to value 'y' at revision 2" in text
    assert "Saw(value='x', revision=1)" in text


async def test_the_record() -> None:
    clock = VirtualClock()
    history = History(clock)
    first = history.call("c", "a", Create("x"))
    await clock.advance(1)
    history.answer(first, Stored(1))
    history.call("c", "a", Put("y"))
    history.forget(history.call("c", "a", Delete()))
    assert [(one.action, one.outcome) for one in history.operations] == [(Create("x"), Stored(1)), (Put("y"), None)]
    assert (first.answered - first.called, history.operations[1].answered) == (1, NEVER)
    check(history.operations)


class Register:
    """A server that is right by construction: one object, one operation at a time."""

    def __init__(self) -> None:
        self.state: tuple[str, int] | None = None
        self.revision = 0
        self.events: list[Event] = []

    def do(self, action: Action) -> Outcome:
        match action:
            case Get():
                return Saw(None) if self.state is None else Saw(*self.state)
            case Create() if self.state is not None:
                return Refused(exists=True)
            case Create(value=value):
                return Stored(self._store("ADDED", value))
            case _ if self.state is None:
                return Refused(exists=False)
            case Put(expected=expected) | Delete(expected=expected) if expected not in {None, self.state[1]}:
                return Refused(exists=True)
            case Put(value=value):
                return Stored(self._store("MODIFIED", value))
            case _:
                self._store("DELETED", self.state[0])
                self.state = None
                return Stored()

    def _store(self, kind: str, value: str) -> int:
        self.revision += 1
        self.state = (value, self.revision)
        self.events.append(Event(kind, "a", value, self.revision))
        return self.revision


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Operation], list[Event]]:
    """Operations that happened one after another, while their calls and answers overlap; some answers are lost."""
    register = Register()
    operations = []
    for moment in range(draw(st.integers(1, 12))):
        expected = draw(st.one_of(st.none(), st.integers(1, 4)))
        value = f"v{moment}"
        choices: list[Action] = [Create(value), Put(value, expected), Put(value), Delete(expected), Get()]
        action = draw(st.sampled_from(choices))
        outcome = register.do(action)
        called = moment - draw(st.floats(0, 3))
        lost = draw(st.integers(0, 4)) == 0
        answered = NEVER if lost else moment + draw(st.floats(0, 3))
        operations.append(op(called, answered, action, None if lost else outcome))
    return operations, register.events


@given(runs())
def test_real_runs_are_possible(run: tuple[list[Operation], list[Event]]) -> None:
    operations, events = run
    check(operations)
    check_watch(events, operations, since=0, until=len(events), keys=["a"])


@given(runs(), st.data())
def test_a_watch_that_skips_or_swaps_is_found(run: tuple[list[Operation], list[Event]], data: st.DataObject) -> None:
    operations, events = run
    acknowledged = {one.outcome.revision for one in operations if isinstance(one.outcome, Stored)} - {0}
    if acknowledged:
        left_out = data.draw(st.sampled_from(sorted(acknowledged)))
        fewer = [event for event in events if event.revision != left_out]
        with pytest.raises(HistoryImpossible, match="skipped"):
            check_watch(fewer, operations, since=0, until=len(events), keys=["a"])
    if len(events) > 1:
        with pytest.raises(HistoryImpossible, match="after"):
            check_watch([events[1], events[0], *events[2:]], operations, since=0, until=0, keys=["a"])


@pytest.mark.parametrize(
    "event",
    [
        Event("ADDED", "a", "y", 1),
        Event("MODIFIED", "a", "x", 1),
        Event("ADDED", "b", "x", 1),
        Event("ADDED", "a", "x", 2),
    ],
)
def test_a_watch_with_an_invented_event_is_found(event: Event) -> None:
    operations = [op(0, 1, Create("x"), Stored(1))]
    with pytest.raises(HistoryImpossible, match="was never written"):
        check_watch([event], operations, since=0, until=0, keys=["a", "b"])
