"""Which request starts, which one waits and which one is refused. Pure: no clock, no event loop.

The server answers on one event loop, and most requests run from start to end without waiting once. A limit on
concurrent requests alone would never see a flood of them: each is finished before the next one begins. So a request
also needs a place in a *turn*, which is one pass of the event loop. A user starts one request per turn, and so one
user's hundred connections delay another user's request by one request, not by a hundred.
"""

from __future__ import annotations

import collections
import enum

from fairlead.apiserver.flowcontrol.shares import Ledger

__all__ = ["STARTS_PER_TURN", "Limits", "Phase", "Queues", "Refusal", "Ticket"]

# Starts of different users in one turn, and refusals beside them. More users than that wait for the next turn.
STARTS_PER_TURN = 8


class Phase(enum.Enum):
    """Where a request stands."""

    QUEUED = "queued"  # holds a place in its user's queue
    RUNNING = "running"  # holds a seat, and the bytes of its body
    ANSWERED = "answered"  # holds the bytes of its answer until they are sent, a watch its stream
    REFUSED = "refused"  # holds nothing; its turn to be answered has not come
    GONE = "gone"  # holds nothing


class Refusal(enum.StrEnum):
    """Why a request is refused, in the words of Kubernetes' metric."""

    QUEUE_FULL = "queue-full"
    CONCURRENCY_LIMIT = "concurrency-limit"
    TIME_OUT = "time-out"


class Limits:
    """What all users together may hold; 0 is no limit."""

    __slots__ = ("places", "seats", "size", "streams")

    def __init__(self, *, seats: int, size: int, places: int, streams: int) -> None:
        self.seats = seats  # requests between start and answer
        self.size = size  # bytes of bodies and of answers that are not sent
        self.places = places  # requests that wait
        self.streams = streams  # watches, from arrival to end


class Ticket:
    """One request."""

    __slots__ = ("holds_stream", "phase", "refusal", "size", "stream", "user")

    def __init__(self, user: str, size: int, *, stream: bool) -> None:
        self.user = user
        self.size = size  # bytes that it holds, or will hold when it starts
        self.stream = stream  # it is a watch
        self.holds_stream = False
        self.phase = Phase.QUEUED
        self.refusal: Refusal | None = None


_Line = collections.OrderedDict[Ticket, None]


class Queues:
    """The requests of one kind (reading or mutating), from arrival until their answer is sent.

    Invariants:
    1. No more requests run than there are seats, no more wait than there are places, no more streams are open than
       allowed.
    2. Bytes held are exactly those of running requests' bodies and of unsent answers. A start never lifts them above
       the limit; an answer, whose size is known only when it is there, may.
    3. The requests of one user start in the order in which they arrived.
    4. In one turn a user starts one request at most, and all users together start STARTS_PER_TURN at most. The same
       holds for refusals.
    5. Users take turns: a user who has just started one comes after every other user who waits.
    6. After a turn that could have started more, no first request of any user fits: no seat is idle while a request
       that may have it waits. A request that arrives later in the turn starts at once only if that is still so, or
       if all who wait have started one in this turn.
    7. A request that is gone holds nothing, whichever phase it left from.
    """

    def __init__(self, limits: Limits) -> None:
        self.seats = Ledger(limits.seats)
        self.bytes = Ledger(limits.size)
        self.places = Ledger(limits.places)
        self.streams = Ledger(limits.streams)
        # Users in the order in which their next turn comes, each with its requests in order.
        self.waiting: collections.OrderedDict[str, _Line] = collections.OrderedDict()
        self.refused: collections.OrderedDict[str, _Line] = collections.OrderedDict()
        self.started: set[str] = set()  # users who started one in this turn
        self.answered: set[str] = set()  # users who were refused one in this turn
        self._settled = True  # nothing was returned since the last turn

    def arrive(self, ticket: Ticket) -> bool:
        """A request is there. Returns whether its fate is decided now: it runs or is refused. Else it waits."""
        user = ticket.user
        if ticket.stream and not self.streams.fits(user, 1):
            return self._refuse(ticket, Refusal.CONCURRENCY_LIMIT)
        if user not in self.waiting and self._may_pass() and self._may_start(ticket):
            self._take_stream(ticket)
            self._start(ticket)
            return True
        if not self.places.fits(user, 1):
            return self._refuse(ticket, Refusal.QUEUE_FULL)
        self._take_stream(ticket)
        self.places.take(user, 1)
        self.waiting.setdefault(user, collections.OrderedDict())[ticket] = None
        return False

    def turn(self) -> list[Ticket]:
        """Begin a turn. Returns the requests that start and those that are refused now, in order."""
        self.started.clear()
        self.answered.clear()
        decided: list[Ticket] = []
        for user in list(self.waiting):
            if len(self.started) >= STARTS_PER_TURN:
                break
            ticket = next(iter(self.waiting[user]))
            if self._may_start(ticket):
                self._leave_queue(ticket)
                if user in self.waiting:
                    self.waiting.move_to_end(user)
                self._start(ticket)
                decided.append(ticket)
        for user in list(self.refused)[:STARTS_PER_TURN]:
            ticket, _ = self.refused[user].popitem(last=False)
            if self.refused[user]:
                self.refused.move_to_end(user)
            else:
                del self.refused[user]
            self._answer_refused(ticket)
            decided.append(ticket)
        self._settled = True
        return decided

    def expire(self, ticket: Ticket) -> bool:
        """A request has waited long enough. Returns whether it is refused now; else in a turn to come."""
        if ticket.phase is not Phase.QUEUED:
            return False
        self._settled = False  # the next one may ask for less
        self._leave_queue(ticket)
        self._give_stream(ticket)
        return self._refuse(ticket, Refusal.TIME_OUT)

    def answer(self, ticket: Ticket, size: int, *, stream: bool) -> None:
        """A running request has its answer: its seat is free, and its body is replaced by the answer's bytes."""
        self._settled = False
        self.seats.give(ticket.user, 1)
        self.bytes.give(ticket.user, ticket.size)
        if not stream:
            self._give_stream(ticket)
        ticket.size = size
        self.bytes.take(ticket.user, size)
        ticket.phase = Phase.ANSWERED

    def leave(self, ticket: Ticket) -> None:
        """A request ends: its answer is sent, its client hung up, or it failed. May be called again."""
        self._settled = False
        match ticket.phase:
            case Phase.QUEUED:
                self._leave_queue(ticket)
            case Phase.RUNNING:
                self.seats.give(ticket.user, 1)
                self.bytes.give(ticket.user, ticket.size)
            case Phase.ANSWERED:
                self.bytes.give(ticket.user, ticket.size)
            case Phase.REFUSED:
                _drop(self.refused, ticket)
            case Phase.GONE:
                return
        self._give_stream(ticket)
        ticket.phase = Phase.GONE

    def _may_pass(self) -> bool:
        """Whether a request that arrives takes nothing from those who wait.

        It does not when they have had their turn, or when what they wait for is still not there.
        """
        return self._settled or self.waiting.keys() <= self.started

    def _may_start(self, ticket: Ticket) -> bool:
        user = ticket.user
        return (
            user not in self.started
            and len(self.started) < STARTS_PER_TURN
            and self.seats.fits(user, 1)
            and self.bytes.fits(user, ticket.size)
        )

    def _start(self, ticket: Ticket) -> None:
        self.started.add(ticket.user)
        self.seats.take(ticket.user, 1)
        self.bytes.take(ticket.user, ticket.size)
        ticket.phase = Phase.RUNNING

    def _refuse(self, ticket: Ticket, why: Refusal) -> bool:
        ticket.refusal = why
        if self.refused or ticket.user in self.answered or len(self.answered) >= STARTS_PER_TURN:
            # Answering a refusal costs as much as a small request: those of a flood take turns too.
            ticket.phase = Phase.REFUSED
            self.refused.setdefault(ticket.user, collections.OrderedDict())[ticket] = None
            return False
        self._answer_refused(ticket)
        return True

    def _answer_refused(self, ticket: Ticket) -> None:
        self.answered.add(ticket.user)
        ticket.phase = Phase.GONE

    def _leave_queue(self, ticket: Ticket) -> None:
        self.places.give(ticket.user, 1)
        _drop(self.waiting, ticket)

    def _take_stream(self, ticket: Ticket) -> None:
        if ticket.stream:
            ticket.holds_stream = True
            self.streams.take(ticket.user, 1)

    def _give_stream(self, ticket: Ticket) -> None:
        if ticket.holds_stream:
            ticket.holds_stream = False
            self.streams.give(ticket.user, 1)


def _drop(lines: collections.OrderedDict[str, _Line], ticket: Ticket) -> None:
    line = lines[ticket.user]
    del line[ticket]
    if not line:
        del lines[ticket.user]
