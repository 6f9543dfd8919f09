"""Which request starts, which one waits and which one is rejected. Pure: no clock, no event loop.

This module shares what requests hold: seats, bytes, places in the queue, open watches. `turns` shares the time of the
event loop: most requests run from start to end without waiting once, so a limit on concurrent requests alone would not
stop a flood of them.
"""

from __future__ import annotations

import collections
import enum

from kube_fairlead_apiserver.shares import Allowance, Ledger

__all__ = ["Limits", "Phase", "Queues", "Refusal", "Ticket"]


class Phase(enum.Enum):
    """The phase of a request."""

    QUEUED = "queued"  # holds a place in its user's queue
    RUNNING = "running"  # holds a seat, and the bytes of its body
    ANSWERED = "answered"  # holds the bytes of its response until they are sent; a watch holds its stream
    GONE = "gone"  # holds nothing


# Attribute lookup of an enum is slow, and every request needs these.
_QUEUED, _RUNNING, _ANSWERED, _GONE = Phase


class Refusal(enum.StrEnum):
    """The reason of a rejection, as in Kubernetes' metric."""

    QUEUE_FULL = "queue-full"
    CONCURRENCY_LIMIT = "concurrency-limit"
    TIME_OUT = "time-out"


class Limits:
    """The limits of what users may hold; 0 is no limit."""

    __slots__ = ("places", "seats", "selectors", "size", "streams", "unsent")

    def __init__(self, *, seats: int, size: int, unsent: int, places: int, streams: int, selectors: int = 0) -> None:
        self.seats = seats  # requests between start and response, of all users
        self.size = size  # bytes of bodies, of all users
        self.unsent = unsent  # bytes of unsent responses, of each user
        self.places = places  # queued requests, of all users
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
    """The requests of one kind (read-only or mutating), from arrival until their response is sent.

    Invariants:
    1. Running requests, queued requests and open streams do not exceed their limits. `selectors` holds exactly the
    bytes of the long selectors of those streams.
    2. `bodies` holds exactly the bytes of running requests' bodies, and a start never raises them above the limit.
       `answers` holds exactly the bytes of unsent responses. A user whose unsent responses reach the limit starts no
       request; other users are not affected.
    3. The requests of one user start in the order in which they arrived.
    4. Users take turns: a user that has just started a request comes after every other waiting user.
    5. No request waits that could start: released capacity goes to queued requests in the same call. So an arriving
       request takes nothing from them.
    6. A request that has ended holds nothing, whatever its phase was.
    """

    def __init__(self, limits: Limits) -> None:
        self.seats = Ledger(limits.seats)
        self.bodies = Ledger(limits.size)
        self.answers = Allowance(limits.unsent)
        self.places = Ledger(limits.places)
        self.streams = Ledger(limits.streams)
        self.selectors = Ledger(limits.selectors)
        # Users in the order of their next turn, each with its requests in order.
        self.waiting: collections.OrderedDict[str, collections.OrderedDict[Ticket, None]] = collections.OrderedDict()

    def arrive(self, ticket: Ticket) -> bool:
        """A request arrives. Returns whether it is decided now: it runs or is rejected. Else it waits."""
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
        """A request has waited too long and is rejected, unless already decided. Returns the requests that start."""
        if ticket.phase is not _QUEUED:
            return []
        self._leave_queue(ticket)
        self._give_stream(ticket)
        self._refuse(ticket, Refusal.TIME_OUT)
        return self._admit_next_of(ticket.user)

    def answer(self, ticket: Ticket, size: int, *, stream: bool) -> list[Ticket]:
        """A request has its response: release its seat and its body's bytes. Returns the requests that start."""
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
        """A request ends: its response is sent, its client disconnected, or it failed. Returns the requests that start.

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
        # The request behind one that left the queue may need less. Nothing else was released.
        return self._admit() if phase is not _QUEUED else self._admit_next_of(ticket.user)

    def _admit(self) -> list[Ticket]:
        """Start what can start, one request of each user after another."""
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
        """Start what can start of one user, after its first request left the queue."""
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
