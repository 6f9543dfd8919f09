"""Who starts, who waits, who is refused: the numbered invariants of `Queues`, under any order of events."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fairlead.apiserver.flowcontrol import queues as decisions
from fairlead.apiserver.flowcontrol.queues import Limits, Phase, Queues, Refusal, Ticket

USERS = [f"user-{number}" for number in range(11)]  # more than start in one turn


def make(*, seats: int = 4, size: int = 100, places: int = 8, streams: int = 6) -> Queues:
    return Queues(Limits(seats=seats, size=size, places=places, streams=streams))


def ask(queues: Queues, user: str, size: int = 0, *, stream: bool = False) -> Ticket:
    ticket = Ticket(user, size, stream=stream)
    queues.arrive(ticket)
    return ticket


class Traffic(RuleBasedStateMachine):
    """Requests of several users come, go on, end and hang up in any order."""

    @initialize(seats=st.integers(0, 12), size=st.integers(0, 60), places=st.integers(1, 20), streams=st.integers(0, 8))
    def begin(self, seats: int, size: int, places: int, streams: int) -> None:
        self.limits = {"seats": seats, "size": size, "places": places, "streams": streams}
        self.queues = make(**self.limits)
        self.alive: list[Ticket] = []  # in order of arrival
        self.starts: Counter[str] = Counter()  # of this turn
        self.refusals: Counter[str] = Counter()

    def note(self, ticket: Ticket) -> None:
        """A request's fate is decided now."""
        if ticket.phase is Phase.RUNNING:
            self.starts[ticket.user] += 1
            mine = [other for other in self.alive if other.user == ticket.user]
            earlier = mine[: mine.index(ticket)]
            assert all(other.phase is not Phase.QUEUED for other in earlier), "invariant 3"
            if self.limits["size"]:
                assert self.queues.bytes.total <= self.limits["size"] or not ticket.size, "invariant 2"
        else:
            assert ticket.phase is Phase.GONE
            assert ticket.refusal is not None
            self.refusals[ticket.user] += 1
            self.alive.remove(ticket)

    @rule(user=st.sampled_from(USERS), size=st.integers(0, 30), stream=st.booleans())
    def arrive(self, user: str, size: int, stream: bool) -> None:
        ticket = Ticket(user, size, stream=stream)
        self.alive.append(ticket)
        could_start = [other for other in self.queues.waiting if self.could_start(other)]
        if self.queues.arrive(ticket):
            self.note(ticket)
            if ticket.phase is Phase.RUNNING:
                assert not could_start, "invariant 6: it does not pass those who could start"
        else:
            assert ticket.phase in {Phase.QUEUED, Phase.REFUSED}

    def could_start(self, user: str) -> bool:
        """Whether the first request of a user who waits would start in this turn, were it looked at."""
        first = next(iter(self.queues.waiting[user]))
        fits = self.queues.seats.fits(user, 1) and self.queues.bytes.fits(user, first.size)
        return fits and not self.starts[user] and self.starts.total() < decisions.STARTS_PER_TURN

    @rule()
    def turn(self) -> None:
        before = list(self.queues.waiting)
        refused_before = list(self.queues.refused)
        self.starts.clear()
        self.refusals.clear()
        decided = self.queues.turn()
        for ticket in decided:
            self.note(ticket)
        started = [ticket.user for ticket in decided if ticket.refusal is None]
        assert started == [user for user in before if user in started], "invariant 5: in the order in which they waited"
        passed_over = [user for user in before if user not in started]
        assert list(self.queues.waiting) == [*passed_over, *(user for user in started if user in self.queues.waiting)]
        looked_at = before
        if len(started) == decisions.STARTS_PER_TURN:
            looked_at = before[: before.index(started[-1])]
        for user in looked_at:
            if user not in started:
                first = next(iter(self.queues.waiting[user]))
                assert not (self.queues.seats.fits(user, 1) and self.queues.bytes.fits(user, first.size)), "invariant 6"
        answered = [ticket.user for ticket in decided if ticket.refusal is not None]
        assert answered == refused_before[: decisions.STARTS_PER_TURN], "refusals take turns too"

    def pick(self, data: Any, *phases: Phase) -> Ticket | None:
        found = [ticket for ticket in self.alive if ticket.phase in phases]
        picked: Ticket | None = data.draw(st.sampled_from(found)) if found else None
        return picked

    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        ticket = self.pick(data, Phase.QUEUED, Phase.RUNNING, Phase.REFUSED)
        if ticket is None:
            return
        was = ticket.phase
        if self.queues.expire(ticket):
            assert was is Phase.QUEUED
            self.note(ticket)
        if was is Phase.QUEUED:
            assert ticket.refusal is Refusal.TIME_OUT
        else:
            assert ticket.phase is was, "what is decided already holds"

    @rule(data=st.data(), size=st.integers(0, 80))
    def answer(self, data: st.DataObject, size: int) -> None:
        ticket = self.pick(data, Phase.RUNNING)
        if ticket is not None:
            self.queues.answer(ticket, size, stream=ticket.stream and size % 2 == 0)

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        ticket = self.pick(data, Phase.QUEUED, Phase.RUNNING, Phase.ANSWERED, Phase.REFUSED)
        if ticket is not None:
            self.queues.leave(ticket)
            self.queues.leave(ticket)  # again: invariant 7
            self.alive.remove(ticket)

    @precondition(lambda self: hasattr(self, "queues"))
    @invariant()
    def ledgers_say_what_requests_hold(self) -> None:
        """Invariants 1, 2 and 7."""
        held = {
            "seats": Counter(ticket.user for ticket in self.alive if ticket.phase is Phase.RUNNING),
            "places": Counter(ticket.user for ticket in self.alive if ticket.phase is Phase.QUEUED),
            "streams": Counter(ticket.user for ticket in self.alive if ticket.holds_stream),
            "bytes": Counter[str](),
        }
        for ticket in self.alive:
            if ticket.phase in {Phase.RUNNING, Phase.ANSWERED} and ticket.size:
                held["bytes"][ticket.user] += ticket.size
        for name, expected in held.items():
            ledger = getattr(self.queues, name)
            assert ledger.held == expected, name
            assert ledger.total == expected.total(), name
            if ledger.limit and name != "bytes":
                assert ledger.total <= ledger.limit, name
        assert not any(ticket.holds_stream for ticket in self.alive if ticket.phase is Phase.REFUSED)
        queued = [ticket for ticket in self.alive if ticket.phase is Phase.QUEUED]
        assert sorted(map(id, queued)) == sorted(id(t) for line in self.queues.waiting.values() for t in line)

    @precondition(lambda self: hasattr(self, "queues"))
    @invariant()
    def turns_are_bounded(self) -> None:
        """Invariant 4."""
        for counted in (self.starts, self.refusals):
            assert all(number == 1 for number in counted.values())
            assert counted.total() <= decisions.STARTS_PER_TURN

    def teardown(self) -> None:
        """Nobody starves: when those who run come to their end, all who wait start, each in its user's order."""
        if not hasattr(self, "queues"):
            return
        for _ in range(2 * len(self.alive) + 2):
            for ticket in list(self.alive):
                if ticket.phase in {Phase.RUNNING, Phase.ANSWERED}:
                    self.queues.leave(ticket)
                    self.alive.remove(ticket)
            self.turn()
            if not self.alive:
                break
        too_large = [ticket for ticket in self.alive if 0 < self.limits["size"] < ticket.size]
        behind = {ticket.user for ticket in too_large}
        assert all(ticket.user in behind for ticket in self.alive), "only a body that can never fit waits for ever"
        if not self.alive:
            assert (self.queues.seats.total, self.queues.bytes.total) == (0, 0)
            assert (self.queues.places.total, self.queues.streams.total) == (0, 0)


TestTraffic = Traffic.TestCase
TestTraffic.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)


def test_a_flood_does_not_stand_before_another_user() -> None:
    queues = make(seats=0, places=0)
    flood = [ask(queues, "loud") for _ in range(100)]
    assert [ticket.phase for ticket in flood[:2]] == [Phase.RUNNING, Phase.QUEUED]
    assert ask(queues, "quiet").phase is Phase.RUNNING  # all who wait have had their turn
    second = ask(queues, "quiet")
    assert queues.turn() == [flood[1], second]
    assert queues.turn() == [flood[2]]


def test_a_newcomer_does_not_take_the_seat_that_another_user_waits_for() -> None:
    queues = make(seats=1)
    first, waiting = ask(queues, "a"), ask(queues, "b")
    queues.turn()
    queues.answer(first, 0, stream=False)
    newcomer = ask(queues, "c")
    assert newcomer.phase is Phase.QUEUED
    assert queues.turn() == [waiting]


def test_slow_requests_leave_seats_for_others() -> None:
    queues = make(seats=4)
    for _ in range(9):
        ask(queues, "slow")
        queues.turn()
    assert queues.seats.held == {"slow": 2}
    other = ask(queues, "other")
    queues.turn()
    assert other.phase is Phase.RUNNING


def test_a_full_queue_refuses() -> None:
    queues = make(seats=2, places=4)
    tickets = [ask(queues, "a") for _ in range(5)]
    assert [ticket.phase for ticket in tickets] == [
        Phase.RUNNING,
        Phase.QUEUED,
        Phase.QUEUED,
        Phase.GONE,
        Phase.REFUSED,
    ]
    assert {ticket.refusal for ticket in tickets[3:]} == {Refusal.QUEUE_FULL}
    assert queues.turn() == [tickets[4]]  # the seat is taken; the second refusal has its turn


def test_large_bodies_wait_for_room() -> None:
    queues = make(size=10)
    first, second = ask(queues, "a", 5), ask(queues, "a", 3)
    assert queues.turn() == []
    assert second.phase is Phase.QUEUED
    queues.answer(first, 1, stream=False)
    assert queues.turn() == [second]
    queues.leave(first)
    assert queues.bytes.held == {"a": 3}


def test_watches_are_bounded_while_they_are_open() -> None:
    queues = make(streams=2)
    watch = ask(queues, "a", stream=True)
    queues.answer(watch, 0, stream=True)
    assert queues.seats.total == 0  # it holds no seat any more
    queues.turn()
    second = ask(queues, "a", stream=True)
    assert second.refusal is Refusal.CONCURRENCY_LIMIT
    queues.leave(watch)
    queues.turn()
    assert ask(queues, "a", stream=True).phase is Phase.RUNNING


def test_a_watch_that_fails_gives_its_stream_back() -> None:
    queues = make(streams=2)
    queues.answer(ask(queues, "a", stream=True), 10, stream=False)
    assert queues.streams.total == 0
