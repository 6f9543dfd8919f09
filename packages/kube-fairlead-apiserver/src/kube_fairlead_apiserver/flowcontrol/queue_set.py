"""Which request starts, which one waits and which one is rejected. Pure: no clock, no event loop.

This module shares what requests hold: seats, bytes, places in the queue, open watches. `fair_queue` shares the time of
the event loop: most requests run from start to end without waiting once, so a limit on concurrent requests alone would
not stop a flood of them.
"""

from __future__ import annotations

import collections
import enum

from kube_fairlead_apiserver.user_limits import PerUserLimit, SharedLimit

__all__ = ["Limits", "QueuePhase", "QueueSet", "QueuedRequest", "RejectReason"]


class QueuePhase(enum.Enum):
    """The phase of a request."""

    QUEUED = "queued"  # holds a place in its user's queue
    RUNNING = "running"  # holds a seat, and the bytes of its body
    ANSWERED = "answered"  # holds the bytes of its response until they are sent; a watch holds its stream
    GONE = "gone"  # holds nothing


# Attribute lookup of an enum is slow, and every request needs these.
_QUEUED, _RUNNING, _ANSWERED, _GONE = QueuePhase


class RejectReason(enum.StrEnum):
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


class QueuedRequest:
    """One request, from its arrival until it ends."""

    __slots__ = ("holds_stream", "phase", "rejection", "selector", "size", "stream", "user")

    def __init__(self, user: str, size: int, *, stream: bool, selector: int = 0) -> None:
        self.user = user
        self.size = size  # bytes that it holds, or will hold when it starts
        self.stream = stream  # it is a watch
        self.selector = selector  # bytes of a long selector that it holds for as long as it is one
        self.holds_stream = False
        self.phase = _QUEUED
        self.rejection: RejectReason | None = None


class QueueSet:
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
        self.seats = SharedLimit(limits.seats)
        self.bodies = SharedLimit(limits.size)
        self.answers = PerUserLimit(limits.unsent)
        self.places = SharedLimit(limits.places)
        self.streams = SharedLimit(limits.streams)
        self.selectors = SharedLimit(limits.selectors)
        # Users in the order of their next turn, each with its requests in order.
        self.waiting: collections.OrderedDict[str, collections.OrderedDict[QueuedRequest, None]] = (
            collections.OrderedDict()
        )

    def arrive(self, queued: QueuedRequest) -> bool:
        """Start, queue or reject a request that arrives. Returns whether it is decided now; else it waits."""
        user = queued.user
        if queued.stream and not self._fits_stream(queued):
            return self._reject(queued, RejectReason.CONCURRENCY_LIMIT)
        if user not in self.waiting and self._may_start(queued):
            if queued.stream:
                self._take_stream(queued)
            self._start(queued)
            return True
        if not self.places.fits(user, 1):
            return self._reject(queued, RejectReason.QUEUE_FULL)
        self._take_stream(queued)
        self.places.take(user, 1)
        self.waiting.setdefault(user, collections.OrderedDict())[queued] = None
        return False

    def expire(self, queued: QueuedRequest) -> list[QueuedRequest]:
        """Reject a request that has waited too long, unless it is decided. Returns the requests that start."""
        if queued.phase is not _QUEUED:
            return []
        self._leave_queue(queued)
        self._give_stream(queued)
        self._reject(queued, RejectReason.TIME_OUT)
        return self._admit_next_of(queued.user)

    def answer(self, queued: QueuedRequest, size: int, *, stream: bool) -> list[QueuedRequest]:
        """Release the seat and body of a request that has its response. Returns the requests that start."""
        user = queued.user
        self.seats.give(user, 1)
        if queued.size:
            self.bodies.give(user, queued.size)
        if queued.holds_stream and not stream:
            self._give_stream(queued)
        queued.size = size
        self.answers.take(user, size)
        queued.phase = _ANSWERED
        return self._admit() if self.waiting else []

    def leave(self, queued: QueuedRequest) -> list[QueuedRequest]:
        """End a request: its response is sent, its client disconnected, or it failed. Returns the requests that start.

        It may be called again.
        """
        phase = queued.phase
        if phase is _ANSWERED:
            self.answers.give(queued.user, queued.size)
        elif phase is _RUNNING:
            self.seats.give(queued.user, 1)
            self.bodies.give(queued.user, queued.size)
        elif phase is _QUEUED:
            self._leave_queue(queued)
        else:
            return []
        if queued.holds_stream:
            self._give_stream(queued)
        queued.phase = _GONE
        if not self.waiting:
            return []
        # The request behind one that left the queue may need less. Nothing else was released.
        return self._admit() if phase is not _QUEUED else self._admit_next_of(queued.user)

    def _admit(self) -> list[QueuedRequest]:
        """Start what can start, one request of each user after another."""
        started: list[QueuedRequest] = []
        before = -1
        while before < len(started):
            before = len(started)
            for user in list(self.waiting):
                queued = next(iter(self.waiting[user]))
                if not self._may_start(queued):
                    continue
                self._start_from_queue(queued)
                started.append(queued)
        return started

    def _admit_next_of(self, user: str) -> list[QueuedRequest]:
        """Start what can start of one user, after its first request left the queue."""
        started: list[QueuedRequest] = []
        while user in self.waiting and self._may_start(queued := next(iter(self.waiting[user]))):
            self._start_from_queue(queued)
            started.append(queued)
        return started

    def _start_from_queue(self, queued: QueuedRequest) -> None:
        """Start a request that waited. Its user's next one comes after those of the other users."""
        self._leave_queue(queued)
        if queued.user in self.waiting:
            self.waiting.move_to_end(queued.user)
        self._start(queued)

    def _may_start(self, queued: QueuedRequest) -> bool:
        user, size = queued.user, queued.size
        return (
            self.seats.fits(user, 1)
            and (not size or self.bodies.fits(user, size))
            and (user not in self.answers.held or self.answers.has_room(user))
        )

    def _start(self, queued: QueuedRequest) -> None:
        self.seats.take(queued.user, 1)
        if queued.size:
            self.bodies.take(queued.user, queued.size)
        queued.phase = _RUNNING

    def _reject(self, queued: QueuedRequest, why: RejectReason) -> bool:
        queued.rejection = why
        queued.phase = _GONE
        return True

    def _leave_queue(self, queued: QueuedRequest) -> None:
        self.places.give(queued.user, 1)
        line = self.waiting[queued.user]
        del line[queued]
        if not line:
            del self.waiting[queued.user]

    def _fits_stream(self, queued: QueuedRequest) -> bool:
        if not self.streams.fits(queued.user, 1):
            return False
        return not queued.selector or self.selectors.fits(queued.user, queued.selector)

    def _take_stream(self, queued: QueuedRequest) -> None:
        if queued.stream:
            queued.holds_stream = True
            self.streams.take(queued.user, 1)
            self.selectors.take(queued.user, queued.selector)

    def _give_stream(self, queued: QueuedRequest) -> None:
        if queued.holds_stream:
            queued.holds_stream = False
            self.streams.give(queued.user, 1)
            self.selectors.give(queued.user, queued.selector)
