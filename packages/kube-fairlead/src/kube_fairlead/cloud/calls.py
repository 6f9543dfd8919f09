"""Care for the cloud's API: not too fast, slower after failures, counted; and no change without the lease.

It is also the one seam between the controllers and a provider, which may be a third-party plug-in. Whatever comes
across that is not a `CloudError` or the promised answer is an outage of that call.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from kube_fairlead.api.core_v1 import Service
from kube_fairlead.base import logs, tasks
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.base.randomness import Randomness
from kube_fairlead.client.throttle import Throttle
from kube_fairlead.cloud import answers
from kube_fairlead.cloud.errors import CloudError, CloudUnavailable, ProviderFault
from kube_fairlead.cloud.faults import faults_of
from kube_fairlead.cloud.graceful_stop import pause
from kube_fairlead.cloud.provider import Instances, LoadBalancers
from kube_fairlead.cloud.requests import requests_by

__all__ = ["CloudCalls"]

_T = TypeVar("_T")

# What a cloud takes from one account without complaint; most give far more.
_PER_SECOND = 10.0
_BURST = 20
# How long a change of several requests may continue after the request to stop.
_GRACE_SECONDS = 5.0
# Of a request that gets no answer. Providers have limits of their own; one that forgot must not stop a controller.
_SILENCE_SECONDS = 120.0
_BACKOFF = Backoff(initial_seconds=1.0, factor=2.0, cap_seconds=60.0, jitter=0.2)
# Of an id in a log.
_WORDS = 200

_log = logs.get_logger(__name__)


def _unchecked() -> None:
    """Where there is no election there is no lease to lose."""


class _GivenUp(CloudUnavailable):
    """Raised when the manager is stopping: that says nothing about the cloud."""


class _Patience:
    """How long to wait after failures: each time longer, until there is an answer."""

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        self._clock = clock
        self._delays = _BACKOFF.delays(randomness)
        self._last_failure = float("-inf")
        self.quiet_until = clock.monotonic()

    def failed(self, started: float) -> None:
        if started <= self._last_failure:
            return  # it was under way when the failure was noticed: the same one
        self._last_failure = self._clock.monotonic()
        self.quiet_until = max(self.quiet_until, self._last_failure + next(self._delays))

    def answered(self) -> None:
        self._delays.reset()


class CloudCalls:
    """Every call to the cloud goes through here.

    After a call without an answer, the next one of any controller waits, each time longer: more calls do not help a
    cloud that is down. The first answer ends that. Calls that were under way together fail together, and that
    is one failure. The same call waits for an answer of its own kind: a provider that can list machines and fails at
    one of them is not asked about that one without a pause.

    Invariants:
    1. What a call returns is what the protocol promises (`answers`).
    2. What it raises is a CloudError, or what `check` raised.
    3. A call in which the provider asked nothing of the cloud is no answer of the cloud's, and ends no pause.
    """

    def __init__(
        self,
        provider: str,
        *,
        clock: Clock,
        randomness: Randomness,
        metrics: Metrics,
        per_second: float = _PER_SECOND,
        burst: int = _BURST,
        stopping: asyncio.Event | None = None,
        check: Callable[[], None] = _unchecked,
    ) -> None:
        """All calls of one term.

        Args:
            provider: for the metrics.
            clock: to wait by.
            randomness: to spread what waits.
            metrics: where calls are counted.
            per_second: requests, once the burst is used up.
            burst: requests at once.
            stopping: set when nothing new is to be begun.
            check: raises when the lease cannot be relied on; called before every request of a change.
        """
        self._provider = provider
        self._clock = clock
        self._randomness = randomness
        self._stopping = stopping or asyncio.Event()
        self._check = check
        self._throttle = Throttle(clock, per_second=per_second, burst=burst)
        self._cloud = _Patience(clock, randomness)
        self._kinds: dict[str, _Patience] = {}  # by the method's name
        self._announces_requests = False
        self._counter = metrics.counter(
            "fairlead_cloud_calls_total", "Calls to the cloud, by outcome.", ("provider", "call", "outcome")
        )
        self._seconds = metrics.histogram(
            "fairlead_cloud_call_duration_seconds", "How long the cloud took.", ("provider", "call")
        )

    async def call(
        self,
        method: Callable[..., Coroutine[Any, Any, _T]],
        work: Callable[[], Awaitable[_T]],
        *,
        changes: bool = False,
        accept: Callable[[_T], object] | None = None,
    ) -> _T:
        """Do it when it is its turn.

        When the manager stops, a query is given up, and a change gets a few seconds to complete.
        Either ends between two requests, never within one; the next leader completes what is left.

        Args:
            method: of the protocol, such as `Instances.describe`: it says what is promised.
            work: calls that method of the provider.
            changes: whether it changes the cloud.
            accept: raises ProviderFault if the answer does not fit the question; its type is right by then.

        Raises:
            CloudError: the cloud did not do it.
            NotLeading: it is a change, and the lease cannot be relied on any more.
        """
        name = method.__name__
        kind = self._kinds.setdefault(name, _Patience(self._clock, self._randomness))
        while (wait := max(self._cloud.quiet_until, kind.quiet_until) - self._clock.monotonic()) > 0:
            if await pause(self._clock, wait, self._stopping):
                break
        await self._wait_turn(changes=changes)
        started = self._clock.monotonic()
        requests = _Requests(self, self._clock, changes=changes)
        try:
            with requests_by(requests.before_each):
                attempt = self._attempt(method, work, accept)
                answer = await self._unless_stopping(attempt, _GRACE_SECONDS if changes else 0.0, requests)
        except _GivenUp:
            raise
        except CloudError as error:
            requests.raise_refusal()
            self._failed(name, kind, started, error)
            raise
        requests.raise_refusal()
        self._announces_requests |= requests.begun
        if requests.begun or not self._announces_requests:
            self._cloud.answered()
            kind.answered()
        self._count(name, "ok")
        self._seconds.labels(provider=self._provider, call=name).observe(self._clock.monotonic() - started)
        return answer

    def recognises(self, instances: Instances, provider_id: str) -> bool:
        """Whether the provider says that the id has the form of its own. One that fails at it does not know it."""
        return self._at_once(
            Instances.recognises, lambda: instances.recognises(provider_id), provider_id, default=False
        )

    def load_balancer_name(self, balancers: LoadBalancers, cluster_name: str, service: Service) -> str:
        """What the cloud calls a Service's load balancer; empty when the provider fails at it."""
        return self._at_once(
            LoadBalancers.get_load_balancer_name,
            lambda: balancers.get_load_balancer_name(cluster_name, service),
            service.key,
            default="",
        )

    def _at_once(self, method: Callable[..., _T], ask: Callable[[], _T], about: str, *, default: _T) -> _T:
        """A question that the provider answers by itself, without the cloud."""
        name = method.__name__
        try:
            with faults_of(name):
                answer: _T = answers.promise_of(method)(ask(), f"{name}()")
                return answer
        except CloudError as error:
            self._count(name, "fault")
            _log.warning("cloud provider fault", call=name, about=about[:_WORDS], error=str(error))
            return default

    def _failed(self, name: str, kind: _Patience, started: float, error: CloudError) -> None:
        if isinstance(error, ProviderFault):
            # The cloud may be well; it is this call that cannot be relied on.
            kind.failed(started)
            self._count(name, "fault")
            _log.warning("cloud provider fault", provider=self._provider, call=name, error=str(error))
        elif isinstance(error, CloudUnavailable):
            self._cloud.failed(started)
            kind.failed(started)
            self._count(name, "unavailable")
        else:
            self._count(name, type(error).__name__)

    async def _attempt(
        self,
        method: Callable[..., Coroutine[Any, Any, _T]],
        work: Callable[[], Awaitable[_T]],
        accept: Callable[[_T], object] | None,
    ) -> _T:
        """Call the provider, and let nothing out that was not agreed on."""
        with faults_of(method.__name__):
            called: object = work()
            if not inspect.isawaitable(called):
                raise ProviderFault(f"{method.__name__}() is no coroutine: it returned {type(called).__name__}")
            answer: _T = answers.promise_of(method)(await called, f"{method.__name__}()")
            if accept is not None:
                accept(answer)
            return answer

    async def wait_for_request(self, *, changes: bool) -> None:
        """The turn of a further request of a call that has begun."""
        if not changes:
            await self._wait_turn(changes=False)
            return
        # After the request to stop, a change still has its few seconds.
        await self._throttle.wait_turn()
        self._check()

    async def _wait_turn(self, *, changes: bool) -> None:
        if not self._stopping.is_set():
            await self._unless_stopping(self._throttle.wait_turn(), 0.0, None)
        if self._stopping.is_set():
            raise _GivenUp("not sent: the manager is stopping")
        if changes:
            self._check()

    async def _unless_stopping(
        self, work: Coroutine[Any, Any, _T], grace_seconds: float, requests: _Requests | None
    ) -> _T:
        owned = tasks.TaskSet("cloud-call", on_failure=lambda _failure: None)
        running = owned.start(work, name="work")
        stopping = owned.start(self._stopping.wait(), name="stopping")
        ends: list[asyncio.Task[Any]] = [running, stopping]
        if requests is not None:
            ends.append(owned.start(requests.silence(), name="silence"))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not running.done() and stopping.done():
                with contextlib.suppress(TimeoutError):
                    async with self._clock.timeout(grace_seconds):
                        await asyncio.wait([running])
        finally:
            await owned.close()
        if not running.cancelled():
            return running.result()
        if stopping.cancelled():
            raise CloudUnavailable(f"no answer for {_SILENCE_SECONDS:g} s")
        raise _GivenUp("given up: the manager is stopping")

    def _count(self, call: str, outcome: str) -> None:
        self._counter.labels(provider=self._provider, call=call, outcome=outcome).inc()


class _Requests:
    """The requests of one call. The first had its turn with the call itself."""

    def __init__(self, calls: CloudCalls, clock: Clock, *, changes: bool) -> None:
        self._calls = calls
        self._clock = clock
        self._changes = changes
        self._refusal: BaseException | None = None
        self.begun = False  # whether the provider requested a turn at all
        self._waiting = 0  # for their turn, which is no silence of the cloud's
        self._last_at = clock.monotonic()

    async def before_each(self) -> None:
        if self.begun:
            self._waiting += 1
            try:
                await self._calls.wait_for_request(changes=self._changes)
            except Exception as error:
                self._refusal = error
                raise
            finally:
                self._waiting -= 1
        self.begun = True
        self._last_at = self._clock.monotonic()

    def raise_refusal(self) -> None:
        """A request that was refused ends the call so, whatever the provider made of the refusal.

        Raises:
            NotLeading: the lease cannot be relied on.
            CloudUnavailable: the manager is stopping.
        """
        if self._refusal is not None:
            raise self._refusal

    async def silence(self) -> None:
        """Return when the cloud has said nothing for too long since the last request."""
        while (left := self._last_at + _SILENCE_SECONDS - self._clock.monotonic()) > 0 or self._waiting:
            await self._clock.sleep(left if left > 0 else _SILENCE_SECONDS)
