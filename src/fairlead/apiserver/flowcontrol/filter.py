"""The filter that carries out what `queues` decides: requests wait here for their turn, and are refused here."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable

import msgspec

from fairlead.api import errors
from fairlead.apiserver.attributes import UserInfo
from fairlead.apiserver.flowcontrol.queues import Limits, Phase, Queues, Ticket
from fairlead.apiserver.http.messages import MAX_BODY_BYTES, Request, Response
from fairlead.apiserver.observing.flowcontrol import FlowMetrics
from fairlead.apiserver.routing import RequestInfo
from fairlead.apiserver.settings import MAX_MUTATING_REQUESTS_INFLIGHT, MAX_REQUESTS_INFLIGHT, REQUEST_QUEUE_SECONDS
from fairlead.base.clock import Clock

__all__ = ["Budgets", "FlowControl"]

# One request's body is 3 MiB at most, and becomes objects of several times its size.
_BYTES_IN_FLIGHT = 64 << 20
# So many may wait for each one that may run. A request that waits holds its head and 64 KiB of its body at most.
_PLACES_PER_SEAT = 2
_MIN_PLACES = 16
_PLACES_WITHOUT_LIMIT = 1024
_STREAMS = 16_384
_RETRY_AFTER_SECONDS = 1
_TOO_MANY = "Too many requests, please try again later."

_MASTERS = "system:masters"
_READING = frozenset({"get", "list", "watch", "head"})
_PROBES = frozenset({"healthz", "livez", "readyz"})


class Budgets(msgspec.Struct, frozen=True):
    """What an operator may choose."""

    reading: int = MAX_REQUESTS_INFLIGHT  # of all users, between start and answer; 0: no limit
    mutating: int = MAX_MUTATING_REQUESTS_INFLIGHT
    queue_seconds: float = REQUEST_QUEUE_SECONDS  # so long a request waits for its start before it is refused


class _Level:
    """One kind of request: its queues, and the futures of those who wait in them."""

    def __init__(
        self, name: str, limits: Limits, metrics: FlowMetrics, clock: Clock, queue_seconds: float | None
    ) -> None:
        self._clock = clock
        self._queue_seconds = queue_seconds  # None: requests wait for as long as it takes
        self.queues = Queues(limits)
        self.metrics = metrics.level(name, self.queues)
        self._sleepers: dict[Ticket, asyncio.Future[None]] = {}
        self._next_turn: asyncio.Handle | None = None

    async def wait(self, ticket: Ticket) -> None:
        """Return when the request runs or is refused."""
        began = self._clock.monotonic()
        self.begin_turn()
        try:
            try:
                async with self._clock.timeout(self._queue_seconds if ticket.phase is Phase.QUEUED else None):
                    await self._sleep(ticket)
            except TimeoutError:
                # It may have been decided in the same moment; then that holds.
                if ticket.phase is Phase.QUEUED and not self.queues.expire(ticket):
                    self.begin_turn()
                    await self._sleep(ticket)
        except asyncio.CancelledError:
            self.leave(ticket)
            raise
        finally:
            self.metrics.waited(self._clock.monotonic() - began, ran=ticket.phase is Phase.RUNNING)

    async def _sleep(self, ticket: Ticket) -> None:
        sleeper = self._sleepers[ticket] = asyncio.get_running_loop().create_future()
        try:
            await sleeper
        finally:
            del self._sleepers[ticket]

    def begin_turn(self) -> None:
        """Have the next turn begin in the next pass of the event loop.

        It is called by requests that begin, not by the turn before: what a turn starts runs in the pass after it. So
        between two requests of a flood the loop looks twice for what arrived, and another user's request runs first.
        """
        if self._next_turn is None:
            self._next_turn = asyncio.get_running_loop().call_soon(self._turn)

    def leave(self, ticket: Ticket) -> None:
        """A request ends."""
        self.queues.leave(ticket)
        if self.queues.waiting or self.queues.refused:
            self.begin_turn()

    def _turn(self) -> None:
        self._next_turn = None
        for ticket in self.queues.turn():
            sleeper = self._sleepers.get(ticket)
            if sleeper is not None and not sleeper.done():
                sleeper.set_result(None)


class FlowControl:
    """Request budgets per user.

    Not held to them: clients in this process and members of `system:masters`. Health checks are never refused and take
    no seat; those of one address take turns, because they need no credentials. Every other request needs a seat, room
    for its body, and its user's turn. A caller without credentials, or with bad ones, is `system:anonymous`.
    """

    def __init__(self, budgets: Budgets, clock: Clock) -> None:
        self._metrics = FlowMetrics()
        seconds = budgets.queue_seconds
        self._reading = _Level("readOnly", _limits(budgets.reading), self._metrics, clock, seconds)
        self._mutating = _Level("mutating", _limits(budgets.mutating), self._metrics, clock, seconds)
        self._probes = _Level("probes", Limits(seats=0, size=0, places=0, streams=0), self._metrics, clock, None)

    def exposition(self) -> bytes:
        """Its metrics as scrapers read them."""
        return self._metrics.exposition()

    @property
    def open_watches(self) -> int:
        """Watches of those who are held to budgets."""
        return self._reading.queues.streams.total

    async def run(
        self, request: Request, info: RequestInfo, user: UserInfo, answer: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Answer a request in its turn.

        Raises:
            TooManyRequests: too many of the user's requests wait, or this one waited too long.
        """
        if request.trusted_user is not None or _MASTERS in user.groups:
            return await answer()
        if info.is_resource or info.path[1:].partition("/")[0] not in _PROBES:
            level = self._reading if info.verb in _READING else self._mutating
            ticket = Ticket(user.name, _body_bytes(request), stream=info.verb == "watch")
        else:
            level, ticket = self._probes, Ticket(request.client_address, 0, stream=False)
        if not level.queues.arrive(ticket):
            await level.wait(ticket)
        level.begin_turn()
        if ticket.refusal is not None:
            level.metrics.refused(ticket.refusal)
            raise errors.too_many_requests(_TOO_MANY, _RETRY_AFTER_SECONDS)
        return await self._run(level, ticket, answer)

    async def _run(self, level: _Level, ticket: Ticket, answer: Callable[[], Awaitable[Response]]) -> Response:
        level.metrics.dispatched.value += 1
        try:
            response = await answer()
            body = response.body
            if isinstance(body, bytes):
                level.queues.answer(ticket, len(body), stream=False)
            elif isinstance(body, list):
                level.queues.answer(ticket, sum(map(len, body)), stream=False)
            else:
                level.queues.answer(ticket, 0, stream=True)
        except BaseException:
            level.leave(ticket)
            raise
        if level.queues.waiting:
            level.begin_turn()  # its seat is free
        response.on_sent = functools.partial(level.leave, ticket)
        return response


def _limits(seats: int) -> Limits:
    places = max(_MIN_PLACES, seats * _PLACES_PER_SEAT) if seats else _PLACES_WITHOUT_LIMIT
    return Limits(seats=seats, size=_BYTES_IN_FLIGHT, places=places, streams=_STREAMS)


def _body_bytes(request: Request) -> int:
    """What a request's body will hold: what it declares, or as much as may come."""
    declared = request.header("content-length")
    if declared.isdecimal():
        size = int(declared)
        return size if size <= MAX_BODY_BYTES else 0  # a larger one is refused unread
    return MAX_BODY_BYTES if "transfer-encoding" in request.headers else 0
