"""Graceful stop: a controller takes no new key, finishes its current one, and returns.

No call to the API server or the cloud is cancelled, so nothing changes after the lease was released.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable
from typing import Any, TypeVar

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.client.informer import Informer

__all__ = ["pause", "shut_down_on", "synced"]

_K = TypeVar("_K", bound=Hashable)


async def pause(clock: Clock, seconds: float, stopping: asyncio.Event) -> bool:
    """Wait that long, or until the request to stop; whether there was one."""
    with contextlib.suppress(TimeoutError):
        async with clock.timeout(seconds):
            await stopping.wait()
    return stopping.is_set()


async def synced(stopping: asyncio.Event, *informers: Informer[Any]) -> bool:
    """Wait until informers have synced, or until the request to stop; whether they have."""
    async with tasks.TaskScope("synced", on_exit=tasks.OnExit.CANCEL) as scope:
        waiting = [
            scope.start(_wait_synced(informers), name="informers"),
            scope.start(stopping.wait(), name="stopping"),
        ]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    return not stopping.is_set()


async def _wait_synced(informers: tuple[Informer[Any], ...]) -> None:
    for informer in informers:
        await informer.wait_synced()


@contextlib.asynccontextmanager
async def shut_down_on(stopping: asyncio.Event, *queues: WorkQueue[_K]) -> AsyncIterator[None]:
    """Shut queues down at the request to stop, while the block lasts."""
    async with tasks.TaskScope("shut-down", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(_shut_down(stopping, queues), name="wait")
        yield


async def _shut_down(stopping: asyncio.Event, queues: tuple[WorkQueue[_K], ...]) -> None:
    await stopping.wait()
    for queue in queues:
        queue.shut_down()
