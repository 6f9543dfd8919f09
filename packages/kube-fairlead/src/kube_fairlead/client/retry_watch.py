"""A watch that survives its connections.

Upstream: k8s.io/client-go@v0.36.4/tools/watch/retrywatcher.go
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, TypeVar

from kube_fairlead.api import errors as api_errors
from kube_fairlead.base import logs
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.base.clock import Clock
from kube_fairlead.client import errors, watch

if TYPE_CHECKING:
    from kube_fairlead.client.verbs import Api

__all__ = ["RECONNECT", "follow", "is_transient"]

_T = TypeVar("_T")

RECONNECT = Backoff(initial_seconds=0.2, factor=2.0, cap_seconds=30.0, jitter=0.5)
# Watches are renewed after a random time between these, so that a server's watches do not all end together.
_SHORTEST_SECONDS = 300
_LONGEST_SECONDS = 600
# A server that has not ended the watch this long after it should is not there any more.
_OVERDUE_SECONDS = 30
# A connection that lived this long was a good one, and the next attempt starts without delay.
_GOOD_SECONDS = 5.0

_log = logs.get_logger(__name__)


def is_transient(error: Exception) -> bool:
    """Whether a watch or list that failed like this may succeed later, with nothing changed."""
    if isinstance(error, errors.ClientError):
        return error.is_retryable
    # The version is newer than anything the server has: it was restored from a backup, and waiting will not help.
    if isinstance(error, api_errors.ApiError) and error.has_cause("ResourceVersionTooLarge"):
        return False
    return isinstance(error, api_errors.ApiError) and (error.code == 429 or error.code >= 500)


@contextlib.asynccontextmanager
async def follow(
    api: Api[_T],
    *,
    resource_version: str,
    namespace: str | None = None,
    label_selector: str = "",
    field_selector: str = "",
) -> AsyncIterator[AsyncIterator[watch.WatchEvent[_T]]]:
    """All events after a resource version, over as many connections as it takes.

    Guarantees: an event is given once; after one with resource version V, only what came after V is given; the
    iteration never ends by itself. It raises Expired when V is too old to resume from, and any error that time does
    not heal (e.g. Forbidden).
    """
    events = _follow(api, resource_version, namespace, label_selector, field_selector)
    async with contextlib.aclosing(events):
        yield events


async def _follow(
    api: Api[_T], resource_version: str, namespace: str | None, label_selector: str, field_selector: str
) -> AsyncGenerator[watch.WatchEvent[_T], None]:
    clock, randomness = api.client.clock, api.client.randomness
    delays = RECONNECT.delays(randomness)
    last = resource_version
    while True:
        started = clock.monotonic()
        seconds = int(randomness.uniform(_SHORTEST_SECONDS, _LONGEST_SECONDS))
        connection = api.watch(
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            resource_version=last,
            timeout_seconds=seconds,
        )
        asked_to_wait = 0.0
        try:
            async with connection as events:
                while True:
                    event = await _next(events, clock, overdue_at=started + seconds + _OVERDUE_SECONDS)
                    if event is None:
                        break
                    last = event.resource_version or last
                    yield event
        except (errors.ClientError, api_errors.ApiError) as error:
            if not is_transient(error):
                raise
            asked_to_wait = getattr(error, "retry_after_seconds", 0.0)
            _log.debug("watch interrupted", resource=str(api.resource), error=str(error), resume_from=last)
        if clock.monotonic() - started >= _GOOD_SECONDS and not asked_to_wait:
            delays.reset()
        else:
            await clock.sleep(max(next(delays), asked_to_wait))


async def _next(
    events: AsyncIterator[watch.WatchEvent[_T]], clock: Clock, *, overdue_at: float
) -> watch.WatchEvent[_T] | None:
    try:
        async with clock.timeout(max(0.001, overdue_at - clock.monotonic())):
            return await anext(events, None)
    except TimeoutError as error:
        raise errors.WatchBroken("the server did not end the watch when it should have") from error
