"""Which request starts, which one waits for room and which one is refused. Pure: no clock, no event loop.

What is shared out here is what requests hold: seats, bytes, places in the queue, open watches. The time of the event
loop is shared out in `turns`: most requests run from start to end without waiting once, and a limit on concurrent
requests alone would never see a flood of them.
"""

from __future__ import annotations

import collections
import enum

from kube_fairlead_apiserver.shares import Allowance, Ledger

__all__ = ["Limits", "Phase", "Queues", "Refusal", "Ticket"]


class Phase(enum.Enum):
    """Where a request stands."""

    QUEUED = "queued"  # holds a place in its user's queue
    RUNNING = "running"  # holds a seat, and the bytes of its body
    ANSWERED = "answered"  # holds the bytes of its answer until they are sent, a watch its stream
    GONE = "gone"  # holds nothing


# An attribute of an enum is looked up in Python code, and these are needed for every request.
_QUEUED, _RUNNING, _ANSWERED, _GONE = Phase


class Refusal(enum.StrEnum):
    """Why a request is refused, in the words of Kubernetes' metric."""

    QUEUE_FULL = "queue-full"
    CONCURRENCY_LIMIT = "concurrency-limit"
    TIME_OUT = "time-out"


class Limits:
    """What users may hold; 0 is no limit."""

    __slots__ = ("places", "seats", "selectors", "size", "streams", "unsent")

    def __init__(self, *, seats: int, size: int, unsent: int, places: int, streams: int, selectors: int = 0) -> None:
        self.seats = seats  # requests between start and answer, of all users
        self.size = size  # bytes of bodies, of all users
        self.unsent = unsent  # bytes of answers that are not sent, of each user
        self.places = places  # requests that wait, of all users
        self.streams = streams  # watches, from arrival to end, of all users
        self.selectors = selectors  # bytes of long selectors of watches, of all users


class Ticket:
    """One request."""

    __slots__ = ("holds_stream", "phase", "refusal", "selector", "size", "stream", "user")

    def __init__(self, user: str, size: int, *, stream: bool, selector: int = 0) -> None:
        self.user = user
        self.size = size  # bytes that it holds, or will hold when it starts
        self.stream = stream  # it is a watch
        self.selector = selector  # bytes of a long selector that it holds for as long as it is one
        self.holds_stream = False
        self.phase = _QUEUED
        self.refusal: Refusal | None = None


class Queues:
    """The requests of one kind (reading or mutating), from arrival until their answer is sent.

    Invariants:
    1. No more requests run than there are seats, no more wait than there are places, no more streams are open than
       allowed. `selectors` holds exactly the bytes of the long selectors of those streams.
    2. `bodies` holds exactly the bytes of running requests' bodies, and a start never lifts them above the limit.
       `answers` holds exactly the bytes of unsent answers. A user whose unsent answers reach the limit starts nothing;
       no other user is held up by them.
    3. The requests of one user start in the order in which they arrived.
    4. Users take turns: a user who has just started one comes after every other user who waits.
    5. Nothing waits that could start: what is returned goes to those who wait in the same call. So a request that
       arrives takes nothing from them.
    6. A request that is gone holds nothing, whichever phase it left from.
    """

    def __init__(self, limits: Limits) -> None:
        self.seats = Ledger(limits.seats)
        self.bodies = Ledger(limits.size)
        self.answers = Allowance(limits.unsent)
        self.places = Ledger(limits.places)
        self.streams = Ledger(limits.streams)
        self.selectors = Ledger(limits.selectors)
        # Users in the order in which their next turn comes, each with its requests in order.
        self.waiting: collections.OrderedDict[str, collections.OrderedDict[Ticket, None]] = collections.OrderedDict()

    def arrive(self, ticket: Ticket) -> bool:
        """A request is there. Returns whether its fate is decided now: it runs or is refused. Else it waits."""
        user = ticket.user
        if ticket.stream and not self._fits_stream(ticket):
            return self._refuse(ticket, Refusal.CONCURRENCY_LIMIT)
        if user not in self.waiting and self._may_start(ticket):
            if ticket.stream:
                self._take_stream(ticket)
            self._start(ticket)
            return True
        if not self.places.fits(user, 1):
            return self._refuse(ticket, Refusal.QUEUE_FULL)
        self._take_stream(ticket)
        self.places.take(user, 1)
        self.waiting.setdefault(user, collections.OrderedDict())[ticket] = None
        return False

    def expire(self, ticket: Ticket) -> list[Ticket]:
        """A request has waited long enough and is refused, unless it was decided already. Returns who starts now."""
        if ticket.phase is not _QUEUED:
            return []
        self._leave_queue(ticket)
        self._give_stream(ticket)
        self._refuse(ticket, Refusal.TIME_OUT)
        return self._admit_next_of(ticket.user)

    def answer(self, ticket: Ticket, size: int, *, stream: bool) -> list[Ticket]:
        """A running request has its answer: its seat and its body's bytes are free. Returns who starts now."""
        user = ticket.user
        self.seats.give(user, 1)
        if ticket.size:
            self.bodies.give(user, ticket.size)
        if ticket.holds_stream and not stream:
            self._give_stream(ticket)
        ticket.size = size
        self.answers.take(user, size)
        ticket.phase = _ANSWERED
        return self._admit() if self.waiting else []

    def leave(self, ticket: Ticket) -> list[Ticket]:
        """A request ends: its answer is sent, its client hung up, or it failed. Returns who starts now.

        It may be called again.
        """
        phase = ticket.phase
        if phase is _ANSWERED:
            self.answers.give(ticket.user, ticket.size)
        elif phase is _RUNNING:
            self.seats.give(ticket.user, 1)
            self.bodies.give(ticket.user, ticket.size)
        elif phase is _QUEUED:
            self._leave_queue(ticket)
        else:
            return []
        if ticket.holds_stream:
            self._give_stream(ticket)
        ticket.phase = _GONE
        if not self.waiting:
            return []
        # What waits behind a request that left the queue may ask for less. Nothing else is free.
        return self._admit() if phase is not _QUEUED else self._admit_next_of(ticket.user)

    def _admit(self) -> list[Ticket]:
        """Start what can be started, one request of each user after another."""
        started: list[Ticket] = []
        before = -1
        while before < len(started):
            before = len(started)
            for user in list(self.waiting):
                ticket = next(iter(self.waiting[user]))
                if not self._may_start(ticket):
                    continue
                self._leave_queue(ticket)
                if user in self.waiting:
                    self.waiting.move_to_end(user)
                self._start(ticket)
                started.append(ticket)
        return started

    def _admit_next_of(self, user: str) -> list[Ticket]:
        """Start what can be started of one user, whose first request does not wait any more."""
        started: list[Ticket] = []
        while user in self.waiting and self._may_start(ticket := next(iter(self.waiting[user]))):
            self._leave_queue(ticket)
            if user in self.waiting:
                self.waiting.move_to_end(user)
            self._start(ticket)
            started.append(ticket)
        return started

    def _may_start(self, ticket: Ticket) -> bool:
        user, size = ticket.user, ticket.size
        return (
            self.seats.fits(user, 1)
            and (not size or self.bodies.fits(user, size))
            and (user not in self.answers.held or self.answers.has_room(user))
        )

    def _start(self, ticket: Ticket) -> None:
        self.seats.take(ticket.user, 1)
        if ticket.size:
            self.bodies.take(ticket.user, ticket.size)
        ticket.phase = _RUNNING

    def _refuse(self, ticket: Ticket, why: Refusal) -> bool:
        ticket.refusal = why
        ticket.phase = _GONE
        return True

    def _leave_queue(self, ticket: Ticket) -> None:
        self.places.give(ticket.user, 1)
        line = self.waiting[ticket.user]
        del line[ticket]
        if not line:
            del self.waiting[ticket.user]

    def _fits_stream(self, ticket: Ticket) -> bool:
        if not self.streams.fits(ticket.user, 1):
            return False
        return not ticket.selector or self.selectors.fits(ticket.user, ticket.selector)

    def _take_stream(self, ticket: Ticket) -> None:
        if ticket.stream:
            ticket.holds_stream = True
            self.streams.take(ticket.user, 1)
            self.selectors.take(ticket.user, ticket.selector)

    def _give_stream(self, ticket: Ticket) -> None:
        if ticket.holds_stream:
            ticket.holds_stream = False
            self.streams.give(ticket.user, 1)
            self.selectors.give(ticket.user, ticket.selector)
