"""Evicts one pod: always the pod of this uid, never another of the same name (invariant 6).

Upstream: k8s.io/kubectl@v0.36.4/pkg/drain/drain.go
"""

from __future__ import annotations

import datetime as dt
from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Pod
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client import subresources
from kube_fairlead.client.client import Client
from kube_fairlead.drivers.drain.eviction_requests import EvictionRequests
from kube_fairlead.lifecycle.drain import attempts
from kube_fairlead.lifecycle.drain.attempts import Cause, EvictionAttempt
from kube_fairlead.lifecycle.drain.budgets import Cover
from kube_fairlead.lifecycle.drain.options import DrainOptions

__all__ = ["Evictor"]

# A server or a webhook may accept an eviction and delete the pod later. After this time it is evicted again.
_ACCEPTED_SECONDS: Final = 30.0
_BLOCKED: Final = frozenset({Cause.BUDGET, Cause.NAMESPACE, Cause.TROUBLE})


class Evictor:
    """Sends evictions, eviction requests, or deletions where the options say so, and reads the answers."""

    def __init__(self, client: Client, options: DrainOptions) -> None:
        self._client = client
        self._options = options
        self.requests = EvictionRequests(client)

    async def discover(self) -> None:
        """Discover whether EvictionRequests are served. A request cannot carry a grace period."""
        if not self._options.disable_eviction and self._options.grace_seconds is None:
            await self.requests.discover()

    async def evict(
        self, pod: Pod, cover: Cover, previous: EvictionAttempt | None, number: int, *, by_request: bool = False
    ) -> EvictionAttempt:
        """Evict a pod, for the `number`th time in a row, and return the result."""
        now = self._client.clock.now()
        try:
            if by_request:
                state = await self.requests.request(pod)
                return EvictionAttempt(cause=Cause.REQUESTED, since=state.since, number=0, retry_at=state.read_at)
            await self._send(pod)
        except api_errors.NotFound:
            pass  # the pod is gone; the watch will report it
        except (api_errors.ApiError, client_errors.ClientError) as error:
            return self._refused(error, cover, previous, number)
        until = now + dt.timedelta(seconds=_ACCEPTED_SECONDS)
        return EvictionAttempt(cause=Cause.ACCEPTED, since=now, number=number, retry_at=until, token=cover.token)

    async def _send(self, pod: Pod) -> None:
        grace = self._options.grace_seconds
        if self._options.disable_eviction:
            await self._client.of(Pod).delete(
                pod.name, namespace=pod.namespace, uid=pod.uid, grace_period_seconds=grace
            )
        else:
            await subresources.evict(
                self._client, pod.name, namespace=pod.namespace, uid=pod.uid, grace_period_seconds=grace
            )

    def _refused(
        self, error: Exception, cover: Cover, previous: EvictionAttempt | None, number: int
    ) -> EvictionAttempt:
        now = self._client.clock.now()
        cause = attempts.cause_of(error)
        backoff = attempts.BUDGET_BACKOFF if cause is Cause.BUDGET else attempts.ERROR_BACKOFF
        seconds = backoff.delay(number - 1, self._client.randomness)
        if isinstance(error, api_errors.ApiError) and cause is not Cause.BUDGET:
            seconds = max(seconds, float(error.retry_after_seconds))
        was_blocked = previous is not None and previous.cause in _BLOCKED
        return EvictionAttempt(
            cause=cause,
            since=previous.since if previous is not None and was_blocked else now,
            number=number,
            message=attempts.explain(error),
            retry_at=now + dt.timedelta(seconds=seconds),
            token=cover.token,
        )
