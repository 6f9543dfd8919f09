"""Who starts, who waits, who is refused: the numbered invariants of `QueueSet`, under any order of events."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kube_fairlead_apiserver.flowcontrol.queue_set import Limits, QueuedRequest, QueuePhase, QueueSet, RejectReason

USERS = [f"user-{number}" for number in range(5)]


def make(
    *, seats: int = 4, size: int = 100, unsent: int = 50, places: int = 8, streams: int = 6, selectors: int = 0
) -> QueueSet:
    return QueueSet(Limits(seats=seats, size=size, unsent=unsent, places=places, streams=streams, selectors=selectors))


def ask(queues: QueueSet, user: str, size: int = 0, *, stream: bool = False) -> QueuedRequest:
    ticket = QueuedRequest(user, size, stream=stream)
    queues.arrive(ticket)
    return ticket


class Traffic(RuleBasedStateMachine):
    """Requests of several users come, go on, end and hang up in any order."""

    @initialize(
        seats=st.integers(0, 12),
        size=st.integers(0, 60),
        unsent=st.integers(0, 60),
        places=st.integers(1, 20),
        streams=st.integers(0, 8),
        selectors=st.integers(0, 40),
    )
    def begin(self, **limits: int) -> None:
        self.limits = limits
        self.queues = make(**self.limits)
        self.alive: list[QueuedRequest] = []  # in order of arrival

    def note(self, ticket: QueuedRequest) -> None:
        """A request's fate is decided now."""
        if ticket.phase is QueuePhase.RUNNING:
            mine = [other for other in self.alive if other.user == ticket.user]
            earlier = mine[: mine.index(ticket)]
            assert all(other.phase is not QueuePhase.QUEUED for other in earlier), "invariant 3"
        else:
            assert ticket.phase is QueuePhase.GONE
            assert ticket.rejection is not None
            self.alive.remove(ticket)

    def started(self, before: list[str], tickets: list[QueuedRequest]) -> None:
        """Those who start because something was returned."""
        for ticket in tickets:
            self.note(ticket)
        firsts = list(dict.fromkeys(ticket.user for ticket in tickets))
        assert firsts == [user for user in before if user in firsts], "invariant 4: in the order in which they waited"

    @rule(user=st.sampled_from(USERS), size=st.integers(0, 30), stream=st.booleans(), selector=st.integers(0, 15))
    def arrive(self, user: str, size: int, stream: bool, selector: int) -> None:
        ticket = QueuedRequest(user, size, stream=stream, selector=selector)
        self.alive.append(ticket)
        if self.queues.arrive(ticket):
            self.note(ticket)
        else:
            assert ticket.phase is QueuePhase.QUEUED

    def pick(self, data: Any, *phases: QueuePhase) -> QueuedRequest | None:
        found = [ticket for ticket in self.alive if ticket.phase in phases]
        picked: QueuedRequest | None = data.draw(st.sampled_from(found)) if found else None
        return picked

    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        ticket = self.pick(data, QueuePhase.QUEUED, QueuePhase.RUNNING)
        if ticket is None:
            return
        was = ticket.phase
        before = list(self.queues.waiting)
        started = self.queues.expire(ticket)
        if was is QueuePhase.QUEUED:
            assert ticket.rejection is RejectReason.TIME_OUT
            self.note(ticket)
        else:
            assert ticket.phase is was, "what is decided already holds"
        self.started(before, started)

    @rule(data=st.data(), size=st.integers(0, 80))
    def answer(self, data: st.DataObject, size: int) -> None:
        ticket = self.pick(data, QueuePhase.RUNNING)
        if ticket is not None:
            before = list(self.queues.waiting)
            self.started(before, self.queues.answer(ticket, size, stream=ticket.stream and size % 2 == 0))

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        ticket = self.pick(data, QueuePhase.QUEUED, QueuePhase.RUNNING, QueuePhase.ANSWERED)
        if ticket is not None:
            before = list(self.queues.waiting)
            started = self.queues.leave(ticket)
            assert self.queues.leave(ticket) == []  # again: invariant 6
            self.alive.remove(ticket)
            self.started(before, started)

    @precondition(lambda self: hasattr(self, "queues"))
    @invariant()
    def ledgers_say_what_requests_hold(self) -> None:
        """Invariants 1, 2 and 6."""
        held = {
            "seats": Counter(ticket.user for ticket in self.alive if ticket.phase is QueuePhase.RUNNING),
            "places": Counter(ticket.user for ticket in self.alive if ticket.phase is QueuePhase.QUEUED),
            "streams": Counter(ticket.user for ticket in self.alive if ticket.holds_stream),
            "selectors": Counter[str](),
            "bodies": Counter[str](),
            "answers": Counter[str](),
        }
        for ticket in self.alive:
            if ticket.holds_stream and ticket.selector:
                held["selectors"][ticket.user] += ticket.selector
            if ticket.phase in {QueuePhase.RUNNING, QueuePhase.ANSWERED} and ticket.size:
                held["bodies" if ticket.phase is QueuePhase.RUNNING else "answers"][ticket.user] += ticket.size
        for name, expected in held.items():
            ledger = getattr(self.queues, name)
            assert ledger.held == expected, name
            assert ledger.total == expected.total(), name
            if ledger.limit and name != "answers":
                assert ledger.total <= ledger.limit, name
        queued = [ticket for ticket in self.alive if ticket.phase is QueuePhase.QUEUED]
        assert sorted(map(id, queued)) == sorted(id(t) for line in self.queues.waiting.values() for t in line)

    @precondition(lambda self: hasattr(self, "queues"))
    @invariant()
    def nothing_waits_that_could_start(self) -> None:
        """Invariant 5, and of 2 that a user waits for the answers of no other user."""
        for user, line in self.queues.waiting.items():
            first = next(iter(line))
            unsent = sum(t.size for t in self.alive if t.user == user and t.phase is QueuePhase.ANSWERED)
            stuffed = 0 < self.limits["unsent"] <= unsent
            assert stuffed or not (self.queues.seats.fits(user, 1) and self.queues.bodies.fits(user, first.size))

    def teardown(self) -> None:
        """No request starves: when those who run come to their end, all who wait start, each in its user's order."""
        if not hasattr(self, "queues"):
            return
        for _ in range(2 * len(self.alive) + 2):
            for ticket in list(self.alive):
                if ticket.phase in {QueuePhase.RUNNING, QueuePhase.ANSWERED}:
                    before = list(self.queues.waiting)
                    started = self.queues.leave(ticket)
                    self.alive.remove(ticket)
                    self.started(before, started)
            if not self.alive:
                break
        too_large = [ticket for ticket in self.alive if 0 < self.limits["size"] < ticket.size]
        behind = {ticket.user for ticket in too_large}
        assert all(ticket.user in behind for ticket in self.alive), "only a body that can never fit waits for ever"
        if not self.alive:
            assert (self.queues.seats.total, self.queues.bodies.total, self.queues.answers.total) == (0, 0, 0)
            assert (self.queues.places.total, self.queues.streams.total) == (0, 0)


TestTraffic = Traffic.TestCase
TestTraffic.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)


def test_a_seat_that_is_returned_goes_to_the_user_who_waits() -> None:
    queues = make(seats=1)
    first, waiting = ask(queues, "a"), ask(queues, "b")
    assert queues.answer(first, 0, stream=False) == [waiting]
    assert ask(queues, "c").phase is QueuePhase.QUEUED


def test_users_who_wait_take_turns() -> None:
    queues = make(seats=2, places=0)
    first = ask(queues, "loud")
    flood = [ask(queues, "loud") for _ in range(3)]
    second = ask(queues, "quiet")
    assert second.phase is QueuePhase.RUNNING
    quiet = ask(queues, "quiet")
    started = queues.leave(first) + queues.leave(second)
    assert started == [flood[0], quiet]


def test_slow_requests_leave_seats_for_others() -> None:
    queues = make(seats=4)
    for _ in range(9):
        ask(queues, "slow")
    assert queues.seats.held == {"slow": 2}
    assert ask(queues, "other").phase is QueuePhase.RUNNING


def test_a_full_queue_refuses() -> None:
    queues = make(seats=2, places=4)
    tickets = [ask(queues, "a") for _ in range(5)]
    assert [ticket.phase for ticket in tickets] == [
        QueuePhase.RUNNING,
        QueuePhase.QUEUED,
        QueuePhase.QUEUED,
        QueuePhase.GONE,
        QueuePhase.GONE,
    ]
    assert {ticket.rejection for ticket in tickets[3:]} == {RejectReason.QUEUE_FULL}


def test_large_bodies_wait_for_room() -> None:
    queues = make(size=10)
    first, second = ask(queues, "a", 5), ask(queues, "a", 3)
    assert second.phase is QueuePhase.QUEUED
    assert queues.answer(first, 1, stream=False) == [second]
    queues.leave(first)
    assert (queues.bodies.held, queues.answers.held) == ({"a": 3}, {})


def test_answers_that_one_user_does_not_read_hold_up_no_other_user() -> None:
    queues = make(size=10, unsent=50)
    running = [ask(queues, "deaf") for _ in range(2)]
    for ticket in running:
        queues.answer(ticket, 1000, stream=False)
    assert ask(queues, "deaf").phase is QueuePhase.QUEUED
    assert ask(queues, "other", 10).phase is QueuePhase.RUNNING


def test_a_user_goes_on_when_its_answers_are_read() -> None:
    queues = make(unsent=50)
    first = ask(queues, "slow")
    queues.answer(first, 50, stream=False)
    second = ask(queues, "slow")
    assert second.phase is QueuePhase.QUEUED
    assert queues.leave(first) == [second]


def test_watches_are_bounded_while_they_are_open() -> None:
    queues = make(streams=2)
    watch = ask(queues, "a", stream=True)
    queues.answer(watch, 0, stream=True)
    assert queues.seats.total == 0  # it holds no seat any more
    second = ask(queues, "a", stream=True)
    assert second.rejection is RejectReason.CONCURRENCY_LIMIT
    queues.leave(watch)
    assert ask(queues, "a", stream=True).phase is QueuePhase.RUNNING


def test_a_watch_that_fails_gives_its_stream_back() -> None:
    queues = make(streams=2)
    queues.answer(ask(queues, "a", stream=True), 10, stream=False)
    assert queues.streams.total == 0
