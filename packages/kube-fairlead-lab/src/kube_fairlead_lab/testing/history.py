"""Checks whether a recorded history of an API server is linearizable.

An API server promises that every object behaves as if its operations happened one after another, each at one moment
between its call and its answer (it is *linearizable*), that revisions grow in that order across all objects, and that a
watch delivers the changes in the order of their revisions, without gaps. A test records the requests and answers of its
clients (`History`) while it injects faults, and then checks the record:

- `check` searches, object by object, for an order that explains every answer. An operation without an answer (the
  connection broke, the server was killed) may have happened at any time after its call, or never.
- `check_watch` checks the events of one watch against the same record.

The search is Wing and Gong's with Lowe's memoization, as in the checker porcupine. It takes
exponential time only where many operations on one object without an answer overlap.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import assert_never

from kube_fairlead.base.clock import Clock

__all__ = [
    "Action",
    "Create",
    "Delete",
    "Event",
    "Get",
    "History",
    "HistoryImpossible",
    "Operation",
    "Outcome",
    "Put",
    "Refused",
    "Saw",
    "Stored",
    "check",
    "check_watch",
]


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """Create an object with this value."""

    value: str


@dataclasses.dataclass(frozen=True, slots=True)
class Put:
    """Update an object to this value; with ``expected`` only at that revision."""

    value: str
    expected: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object; with ``expected`` only at that revision."""

    expected: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Get:
    """Read an object."""


Action = Create | Put | Delete | Get


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """A write was acknowledged with this revision; 0 if the answer does not have it, as for a deletion."""

    revision: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Saw:
    """The result of a read; without an object ``value`` is None and the revision has no meaning."""

    value: str | None
    revision: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """A write was rejected by the stored state: the object exists, does not exist, or is newer."""

    exists: bool


Outcome = Stored | Saw | Refused


@dataclasses.dataclass(slots=True, eq=False)
class Operation:
    """One request of one client for one object, and its outcome; None without an answer."""

    client: str
    key: str
    action: Action
    called: float
    answered: float = float("inf")
    outcome: Outcome | None = None

    def __str__(self) -> str:
        answer = "no answer" if self.outcome is None else f"{self.outcome} at {self.answered:.6f}"
        return f"{self.client} {self.key} {self.action} at {self.called:.6f}: {answer}"


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """A watch event: type, object, value and revision."""

    kind: str
    key: str
    value: str
    revision: int


class HistoryImpossible(AssertionError):
    """No order of the recorded operations explains the answers; the message shows where the search ends."""


class History:
    """The record of all clients' operations, from any number of tasks of one loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.operations: list[Operation] = []

    def call(self, client: str, key: str, action: Action) -> Operation:
        """Record a request before it is sent."""
        operation = Operation(client, key, action, self._clock.monotonic())
        self.operations.append(operation)
        return operation

    def answer(self, operation: Operation, outcome: Outcome) -> None:
        """Record the outcome. An operation with an unknown outcome has none."""
        operation.outcome = outcome
        operation.answered = self._clock.monotonic()

    def forget(self, operation: Operation) -> None:
        """Drop an operation that had no effect: it never reached the server, or was rejected unread."""
        self.operations.remove(operation)


# A possible state of an object: None if it does not exist. A revision of 0 is not known yet.
_State = tuple[str, int] | None


def check(operations: Sequence[Operation]) -> None:
    """Check a whole record. Raises HistoryImpossible."""
    _check_revisions(operations)
    by_key: dict[str, list[Operation]] = {}
    for operation in operations:
        by_key.setdefault(operation.key, []).append(operation)
    for key, of_key in by_key.items():
        _check_object(key, of_key)


def _check_revisions(operations: Iterable[Operation]) -> None:
    """Check that revisions are unique, and that a write acknowledged before another was sent has the lower one."""
    stored = [one for one in operations if isinstance(one.outcome, Stored) and one.outcome.revision]
    highest = 0
    highest_of: Operation | None = None
    # In order of time: the revision of a call must exceed all revisions answered before it.
    moments = sorted([(one.called, 1, one) for one in stored] + [(one.answered, 0, one) for one in stored], key=_moment)
    seen: dict[int, Operation] = {}
    floor: dict[int, tuple[int, Operation | None]] = {}
    for _, is_call, one in moments:
        revision = _revision(one)
        if is_call:
            floor[id(one)] = (highest, highest_of)
            continue
        if revision in seen:
            raise HistoryImpossible(f"two writes have revision {revision}:\n  {seen[revision]}\n  {one}")
        seen[revision] = one
        below, earlier = floor[id(one)]
        if revision <= below:
            raise HistoryImpossible(f"an earlier write has a higher revision:\n  {earlier}\n  {one}")
        if revision > highest:
            highest, highest_of = revision, one


def _moment(entry: tuple[float, int, Operation]) -> tuple[float, int]:
    # At the same time a call counts as before an answer, which is the weaker condition.
    return entry[0], -entry[1]


def _revision(operation: Operation) -> int:
    return operation.outcome.revision if isinstance(operation.outcome, Stored | Saw) else 0


def _check_object(key: str, operations: list[Operation]) -> None:
    """Search for an order, depth first, and never the same set of operations and state twice."""
    operations = sorted(operations, key=lambda one: one.called)
    must = sum(1 << place for place, one in enumerate(operations) if one.outcome is not None)
    tried: set[tuple[int, _State]] = set()
    pending: list[tuple[int, _State]] = [(0, None)]
    furthest, furthest_state = 0, None
    while pending:
        done, state = pending.pop()
        if done & must == must:
            return
        if (done, state) in tried:
            continue
        tried.add((done, state))
        if (done & must).bit_count() > (furthest & must).bit_count():
            furthest, furthest_state = done, state
        for place in _may_be_next(operations, done):
            pending += [(done | 1 << place, after) for after in _steps(state, operations[place])]
    raise HistoryImpossible(_explain(key, operations, furthest, furthest_state))


def _may_be_next(operations: list[Operation], done: int) -> list[int]:
    """Return the possible next operations: those called before the first answer of the rest."""
    left = [place for place in range(len(operations)) if not done >> place & 1]
    first_answer = min(operations[place].answered for place in left)
    # The last one is popped first, so operations are tried in the order of their calls.
    return [place for place in reversed(left) if operations[place].called <= first_answer]


def _steps(state: _State, operation: Operation) -> list[_State]:
    """Return the states after an operation with its answer; empty if the answer is impossible."""
    outcome = operation.outcome
    action = operation.action
    match action:
        case Get():
            return _read(state, outcome)
        case Create(value=value):
            if isinstance(outcome, Refused):
                return [state] if state is not None and outcome.exists else []
            return [] if state is not None else _written(state, value, outcome)
        case Put(value=value, expected=expected) if isinstance(outcome, Refused):
            return _refused(state, outcome, expected)
        case Put(value=value, expected=expected):
            return [] if state is None or _is_other(state, expected) else _written(state, value, outcome)
        case Delete(expected=expected) if isinstance(outcome, Refused):
            return _refused(state, outcome, expected)
        case Delete(expected=expected):
            fits = state is not None and not _is_other(state, expected) and _is_later(state, outcome)
            return [None] if fits else []
        case _:
            assert_never(action)


def _read(state: _State, outcome: Outcome | None) -> list[_State]:
    if not isinstance(outcome, Saw):
        return [state]
    if outcome.value is None or state is None:
        return [state] if outcome.value is None and state is None else []
    value, revision = state
    if value != outcome.value or revision not in {0, outcome.revision}:
        return []
    return [(value, outcome.revision)]


def _refused(state: _State, outcome: Refused, expected: int | None) -> list[_State]:
    """Return the state after a correct rejection: the object does not exist, or is not at the expected revision."""
    if state is None:
        return [] if outcome.exists else [state]
    is_right = outcome.exists and expected is not None and state[1] != expected
    return [state] if is_right else []


def _written(state: _State, value: str, outcome: Outcome | None) -> list[_State]:
    if outcome is None:
        return [(value, 0)]
    return [(value, _outcome_revision(outcome))] if _is_later(state, outcome) else []


def _is_later(state: _State, outcome: Outcome | None) -> bool:
    revision = 0 if outcome is None else _outcome_revision(outcome)
    return state is None or not revision or revision > state[1]


def _outcome_revision(outcome: Outcome) -> int:
    return 0 if isinstance(outcome, Refused) else outcome.revision


def _is_other(state: tuple[str, int], expected: int | None) -> bool:
    return expected is not None and state[1] not in {0, expected}


def _explain(key: str, operations: list[Operation], done: int, state: _State) -> str:
    shown = "no object" if state is None else f"value {state[0]!r} at revision {state[1] or 'unknown'}"
    left = [one for place, one in enumerate(operations) if not done >> place & 1]
    lines = [f"no order of the operations on {key} explains their answers."]
    lines.append(
        f"{done.bit_count()} of {len(operations)} can be explained and lead to {shown}; then one of these fits:"
    )
    return "\n".join([*lines, *(f"  {one}" for one in left[:12])])


def check_watch(
    events: Sequence[Event], operations: Sequence[Operation], *, since: int, until: int, keys: Iterable[str]
) -> None:
    """Check the events of one watch for these keys after revision ``since``, up to and including ``until``.

    Raises:
        HistoryImpossible: events are out of order, were never written, or skip an acknowledged write.
    """
    previous = since
    for event in events:
        if event.revision <= previous:
            raise HistoryImpossible(f"a watch delivered revision {event.revision} after {previous}: {event}")
        previous = event.revision
    watched = set(keys)
    writes = [one for one in operations if one.key in watched and not isinstance(one.action, Get)]
    acknowledged = {one.outcome.revision: one for one in writes if isinstance(one.outcome, Stored)}
    delivered = {event.revision: event for event in events}
    for revision, one in acknowledged.items():
        if since < revision <= until and revision not in delivered:
            raise HistoryImpossible(f"a watch skipped revision {revision}: {one}")
    for event in events:
        known = acknowledged.get(event.revision)
        # A revision without an acknowledged write must belong to a write without an answer.
        tried = [one for one in writes if _revision(one) == 0] if known is None else [known]
        if not any(_matches(event, one) for one in tried):
            raise HistoryImpossible(
                f"a watch delivered an event that was never written: {event}\n  {known or 'no such revision'}"
            )


def _matches(event: Event, operation: Operation) -> bool:
    if event.key != operation.key or isinstance(operation.outcome, Refused):
        return False
    match operation.action:
        case Create(value=value):
            return event.kind == "ADDED" and event.value == value
        case Put(value=value):
            return event.kind == "MODIFIED" and event.value == value
        case Delete():
            return event.kind == "DELETED"
        case _:
            return False
