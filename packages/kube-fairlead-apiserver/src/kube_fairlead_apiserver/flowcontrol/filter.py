"""The flow control filter: requests wait here or are rejected, as `queue_set` and `fair_queue` decide.

Upstream: k8s.io/apiserver@v0.36.4/pkg/server/filters/maxinflight.go,
    k8s.io/apiserver@v0.36.4/pkg/server/filters/priority-and-fairness.go
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from kube_fairlead.api import errors
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.metrics import Metrics
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.flowcontrol.metrics import FlowMetrics
from kube_fairlead_apiserver.flowcontrol.queue_set import Limits, QueuedRequest, QueuePhase, QueueSet
from kube_fairlead_apiserver.flowcontrol.step_scheduler import Step, StepScheduler, UserFlow
from kube_fairlead_apiserver.http.messages import MAX_BODY_BYTES, Request, Response
from kube_fairlead_apiserver.routing import RequestInfo
from kube_fairlead_apiserver.settings import (
    MAX_MUTATING_REQUESTS_INFLIGHT,
    MAX_REQUESTS_INFLIGHT,
    REQUEST_QUEUE_SECONDS,
)

__all__ = ["Budgets", "FlowControl"]

# A request's body is at most 3 MiB, and its decoded objects take several times that.
_BYTES_IN_FLIGHT = 64 << 20
# A user with this many unread response bytes starts no request until its clients have read.
_UNSENT_BYTES = 32 << 20
# Queued requests for each running one. A queued request holds its head and at most 64 KiB of its body.
_PLACES_PER_SEAT = 2
_MIN_PLACES = 16
_PLACES_WITHOUT_LIMIT = 1024
_STREAMS = 16_384
# A watch keeps its selector, which takes about fifteen times its text in memory. Up to this size it is not counted.
_SELECTOR_BYTES = 8 << 20
_SHORT_SELECTOR_BYTES = 1024
_RETRY_AFTER_SECONDS = 1
# CPU time of one handshake (measured: TLS 1.3 with the keys that the server creates).
_HANDSHAKE_SECONDS = 0.0005
# The user of the connection stays the same.
_NEWCOMER_PRESENT_SECONDS = 0.1
_TOO_MANY = "Too many requests, please try again later."

_T = TypeVar("_T")
_NO_LIMITS = Limits(seats=0, size=0, unsent=0, places=0, streams=0)

_MASTERS = "system:masters"
_READING = frozenset({"get", "list", "watch", "head"})
_PROBES = frozenset({"healthz", "livez", "readyz"})


class Budgets(msgspec.Struct, frozen=True):
    """The limits, as flags give them."""

    reading: int = MAX_REQUESTS_INFLIGHT  # of all users, between start and response; 0: no limit
    mutating: int = MAX_MUTATING_REQUESTS_INFLIGHT
    enforced: bool = True  # False: no limits and no fairness
    queue_seconds: float = REQUEST_QUEUE_SECONDS  # time that a request waits for its start before it is rejected


class _PriorityLevel:
    """One kind of request (read-only, mutating, probe): its queues, and the futures of queued requests."""

    def __init__(
        self, name: str, limits: Limits, metrics: FlowMetrics, clock: Clock, queue_seconds: float | None
    ) -> None:
        self._clock = clock
        self._queue_seconds = queue_seconds
        self.queues = QueueSet(limits)
        self.metrics = metrics.level(name, self.queues)
        self._sleepers: dict[QueuedRequest, asyncio.Future[None]] = {}

    async def wait(self, queued: QueuedRequest) -> None:
        """Return when the request may start, or is rejected."""
        sleeper = self._sleepers[queued] = asyncio.get_running_loop().create_future()
        try:
            async with self._clock.timeout(self._queue_seconds):
                await sleeper
        except TimeoutError:
            # It may have been decided at the same time; that decision holds.
            self._wake(self.queues.expire(queued))
        except asyncio.CancelledError:
            self.leave(queued)
            raise
        finally:
            del self._sleepers[queued]

    def answered(self, queued: QueuedRequest, size: int, *, stream: bool) -> None:
        """Release what a request with a response no longer needs."""
        if started := self.queues.answer(queued, size, stream=stream):
            self._wake(started)

    def leave(self, queued: QueuedRequest) -> None:
        """End a request."""
        if started := self.queues.leave(queued):
            self._wake(started)

    def _wake(self, started: list[QueuedRequest]) -> None:
        for queued in started:
            sleeper = self._sleepers[queued]
            if not sleeper.done():
                sleeper.set_result(None)


class FlowControl:
    """Request budgets per user.

    Exempt: clients in this process and members of `system:masters`. Health checks and malformed requests take no seat
    and are never rejected; those of one address take turns, because they need no credentials. Every other request needs
    a seat, room for its body, and its user's turn. A caller without valid credentials is `system:anonymous`.
    """

    def __init__(self, budgets: Budgets, clock: Clock, metrics: Metrics) -> None:
        counted = FlowMetrics(metrics)
        self._clock = clock
        self._enforced = budgets.enforced
        self._scheduler = StepScheduler(clock)
        seconds = budgets.queue_seconds
        self._reading = _PriorityLevel("readOnly", _limits(budgets.reading), counted, clock, seconds)
        self._mutating = _PriorityLevel("mutating", _limits(budgets.mutating), counted, clock, seconds)
        self._probes = _PriorityLevel("probes", _NO_LIMITS, counted, clock, None)

    @property
    def open_watches(self) -> int:
        """Open watches of users that have budgets."""
        return self._reading.queues.streams.total

    async def run(
        self, request: Request, info: RequestInfo, user: UserInfo, answer: Callable[[], Coroutine[Any, Any, Response]]
    ) -> Response:
        """Handle a request in its turn.

        Raises:
            TooManyRequests: too many of the user's requests wait, or this one waited too long.
        """
        if request.trusted_user is not None or _MASTERS in user.groups or not self._enforced:
            self._settle(request)
            request.flow = None  # the connection may have carried requests of a user that has to wait
            return await answer()
        if info.is_resource or info.path[1:].partition("/")[0] not in _PROBES:
            level = self._reading if info.verb in _READING else self._mutating
            selector = max(0, len(request.target) - _SHORT_SELECTOR_BYTES)
            queued = QueuedRequest(user.name, _body_bytes(request), stream=info.verb == "watch", selector=selector)
            flow = self._scheduler.flow(user.name)
        else:
            level, queued = self._probes, QueuedRequest(request.client_address, 0, stream=False)
            flow = self._scheduler.flow(_of_address(request.client_address))
        # The connection has already waited for the turn if it carried requests of this user before.
        reserved = request.reserved
        if reserved and request.flow is not flow:
            self._settle(request)
            reserved = 0.0
        request.flow = flow
        if not level.queues.arrive(queued):
            reserved = await self._wait(level, queued, flow)
        elif not reserved:
            reserved = self._scheduler.take(flow) or await self._wait(level, queued, flow)
        if queued.rejection is not None:
            level.metrics.count_rejected(queued.rejection)
            self._scheduler.ran(flow, 0.0, reserved)
            raise errors.too_many_requests(_TOO_MANY, _RETRY_AFTER_SECONDS)
        level.metrics.dispatched.inc()
        try:
            response: Response = await self._scheduler.run(flow, answer(), reserved)
            body = response.body
            if isinstance(body, bytes):
                level.answered(queued, len(body), stream=False)
            elif isinstance(body, list):
                level.answered(queued, sum(map(len, body)), stream=False)
            else:
                level.answered(queued, 0, stream=True)
        except BaseException:
            level.leave(queued)
            raise
        response.on_sent = functools.partial(level.leave, queued)
        return response

    def unidentified(self, address: str) -> UserFlow | None:
        """Return the flow of an address's unidentified connections."""
        return self._scheduler.flow(("handshake", address), _NEWCOMER_PRESENT_SECONDS) if self._enforced else None

    def take_turn(self, flow: UserFlow, step: Step) -> float:
        """Return the seconds reserved if it is the flow's turn; else 0, and ``step`` is called at its turn."""
        reserved = self._scheduler.take(flow)
        if not reserved:
            self._scheduler.call_in_turn(flow, step)
        return reserved

    def ran(self, flow: UserFlow, seconds: float, reserved: float) -> None:
        """Charge a turn that was used for something other than a request."""
        self._scheduler.ran(flow, seconds, reserved)

    def withdraw(self, flow: UserFlow, step: Step) -> None:
        """Cancel the call of ``step``: the connection is closed."""
        self._scheduler.withdraw(flow, step)

    def run_in_turn(self, flow: UserFlow, work: Coroutine[Any, Any, _T]) -> Coroutine[Any, Any, _T]:
        """Run a part of a response, each of its steps in its turn."""
        return self._scheduler.run(flow, work)

    def keep_present(self, flow: UserFlow) -> None:
        """Count the user as present: a response is still being sent."""
        self._scheduler.keep_present(flow)

    def now(self) -> float:
        """Return the clock that measures steps, in seconds."""
        return self._clock.monotonic()

    async def wait_turn(self, request: Request) -> None:
        """Return when it is the turn of a malformed request's address."""
        self._settle(request)
        if self._enforced:
            await self._wait_turn(self._scheduler.flow(_of_address(request.client_address)), 0.0)

    def _settle(self, request: Request) -> None:
        """Charge a turn whose request does not run: it was used for reading the request."""
        if request.reserved:
            self._scheduler.ran(request.flow, 0.0, request.reserved)
            request.reserved = 0.0

    async def begin_handshake(self, address: str) -> None:
        """Return when it is an address's turn to begin a TLS handshake."""
        if self._enforced:
            flow = self._scheduler.flow(("handshake", address), _NEWCOMER_PRESENT_SECONDS)
            await self._wait_turn(flow, _HANDSHAKE_SECONDS)

    async def _wait_turn(self, flow: UserFlow, seconds: float) -> None:
        reserved = self._scheduler.take(flow) or await self._scheduler.wait(flow)
        self._scheduler.ran(flow, seconds, reserved)

    async def _wait(self, level: _PriorityLevel, queued: QueuedRequest, flow: UserFlow) -> float:
        began = self._clock.monotonic()
        if queued.phase is QueuePhase.QUEUED:
            await level.wait(queued)
        try:
            reserved = self._scheduler.take(flow) or await self._scheduler.wait(flow)
        except BaseException:
            level.leave(queued)
            raise
        level.metrics.waited(self._clock.monotonic() - began, ran=queued.phase is QueuePhase.RUNNING)
        return reserved


def _limits(seats: int) -> Limits:
    places = max(_MIN_PLACES, seats * _PLACES_PER_SEAT) if seats else _PLACES_WITHOUT_LIMIT
    return Limits(
        seats=seats,
        size=_BYTES_IN_FLIGHT,
        unsent=_UNSENT_BYTES,
        places=places,
        streams=_STREAMS,
        selectors=_SELECTOR_BYTES,
    )


def _of_address(address: str) -> tuple[str, str]:
    """Return the key under which callers without credentials take turns; no user has this name."""
    return ("address", address)


def _body_bytes(request: Request) -> int:
    """Return the bytes of a request's body: as declared, or the maximum."""
    declared = request.header("content-length")
    if declared.isdecimal():
        size = int(declared)
        return size if size <= MAX_BODY_BYTES else 0  # a larger one is rejected unread
    return MAX_BODY_BYTES if "transfer-encoding" in request.headers else 0
