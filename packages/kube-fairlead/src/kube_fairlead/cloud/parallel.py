"""A bounded number of workers over a list of things to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeVar

from kube_fairlead.base import tasks

__all__ = ["for_each"]

_T = TypeVar("_T")


async def for_each(
    items: Iterable[_T],
    work: Callable[[_T], Awaitable[None]],
    *,
    workers: int,
    owner: str,
    stopping: asyncio.Event | None = None,
) -> None:
    """Do the work for each item, so many at a time. The first failure ends it, and comes out as itself.

    After the request to stop, no further item is started.
    """
    remaining = list(items)
    shared = _until(iter(remaining), stopping)
    if workers == 1 or len(remaining) < 2:
        for item in shared:
            await work(item)
        return
    try:
        async with tasks.TaskScope(owner) as scope:
            for number in range(min(workers, len(remaining))):
                scope.start(_drain(shared, work), name=f"worker-{number}")
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures


def _until(items: Iterator[_T], stopping: asyncio.Event | None) -> Iterator[_T]:
    for item in items:
        if stopping is not None and stopping.is_set():
            return
        yield item


async def _drain(shared: Iterator[_T], work: Callable[[_T], Awaitable[None]]) -> None:
    for item in shared:
        await work(item)
