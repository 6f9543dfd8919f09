"""Using a provider: its block is entered before the controllers run, and again after the provider failed in it.

A provider may hold connections, threads and tasks of its own in that block. When it cannot be entered, or a task of the
provider's fails in it, that is an outage: the controllers are ended in order and run again after a pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from kube_fairlead.base import logs
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.randomness import Randomness
from kube_fairlead.cloud import answers
from kube_fairlead.cloud.cluster import Cluster
from kube_fairlead.cloud.errors import CloudError, ProviderFault
from kube_fairlead.cloud.faults import faults_of
from kube_fairlead.cloud.graceful_stop import pause
from kube_fairlead.cloud.provider import Provider

__all__ = ["run_within"]

_BACKOFF = Backoff(initial_seconds=1.0, factor=2.0, cap_seconds=60.0, jitter=0.2)
# To enter it: to open connections takes moments.
_ENTER_SECONDS = 120.0
_NAME = Provider.running.__name__

_log = logs.get_logger(__name__)


async def run_within(
    provider: Provider,
    work: Callable[[], Awaitable[None]],
    *,
    cluster: Cluster,
    clock: Clock,
    randomness: Randomness,
    stopping: asyncio.Event,
) -> None:
    """Do the work in the provider's block; again, after a pause, as often as the provider fails in it."""
    delays = _BACKOFF.delays(randomness)
    while not stopping.is_set():
        started = clock.monotonic()
        try:
            await _once(provider, work, cluster, clock)
        except _Ended as ended:
            _log.error("cloud provider failed, restarting its controllers", provider=provider.name, error=str(ended))
        else:
            return
        if clock.monotonic() - started > _BACKOFF.cap_seconds:
            delays.reset()
        await pause(clock, next(delays), stopping)


class _Ended(Exception):
    """Raised when the provider, and nothing else, ended its block or kept it from beginning."""


async def _once(provider: Provider, work: Callable[[], Awaitable[None]], cluster: Cluster, clock: Clock) -> None:
    try:
        with faults_of(_NAME):
            block: AbstractAsyncContextManager[Any] = answers.promise_of(Provider.running)(
                provider.running(cluster), f"{_NAME}()"
            )
            async with clock.timeout(_ENTER_SECONDS):
                # Here, not in a task: what the block starts may only be ended where it was begun.
                await block.__aenter__()
    except CloudError as error:
        raise _Ended(str(error)) from error
    try:
        await work()
    except BaseException as error:
        await _leave(block, error)
        raise
    await _leave(block, None)


async def _leave(block: AbstractAsyncContextManager[Any], reason: BaseException | None) -> None:
    try:
        with faults_of(_NAME):
            # Whether it would swallow the reason is not the provider's to say.
            await block.__aexit__(type(reason) if reason else None, reason, reason.__traceback__ if reason else None)
    except CloudError as error:
        task = asyncio.current_task()
        if isinstance(reason, asyncio.CancelledError) and task is not None and not task.cancelling():
            # The cancellation was the provider's own: a task that it had started failed.
            raise _Ended(str(error)) from error
        if not isinstance(error, ProviderFault) or error.__cause__ is not reason:
            _log.warning("cloud provider failed to close", error=str(error))
