"""Ending in order: asked to stop, a controller takes nothing new, finishes what it has in hand, and returns.

No call to the API server or the cloud is cut short by that, so nothing changes after the lease was given to somebody
else.
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
    """Wait, and no longer than until asked to stop; whether that was so."""
    with contextlib.suppress(TimeoutError):
        async with clock.timeout(seconds):
            await stopping.wait()
    return stopping.is_set()


async def synced(stopping: asyncio.Event, *informers: Informer[Any]) -> bool:
    """Wait until informers know everything, and no longer than until asked to stop; whether they do."""
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
    """Shut queues down when asked to stop, as long as the block lasts."""
    async with tasks.TaskScope("shut-down", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(_shut_down(stopping, queues), name="wait")
        yield


async def _shut_down(stopping: asyncio.Event, queues: tuple[WorkQueue[_K], ...]) -> None:
    await stopping.wait()
    for queue in queues:
        queue.shut_down()
