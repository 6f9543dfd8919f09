"""Doing something to several nodes, not too many at once. What fails on one node does not stop the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from fairlead.api.core_v1 import Node
from fairlead.api.errors import ApiError
from fairlead.base import tasks
from fairlead.client.errors import ClientError
from fairlead.lifecycle.drain import rollout

__all__ = ["roll"]


async def roll(
    nodes: Sequence[Node],
    limits: rollout.Limits,
    work: Callable[[str], Awaitable[bool]],
    *,
    on_error: Callable[[str, Exception], None],
    stop_on_failure: bool = False,
) -> dict[str, bool]:
    """Do the work for each node; which of those that were begun succeeded, by name.

    An answer of the server's, or none, that ends the work on one node is told to `on_error` and is that node's failure
    alone. With `stop_on_failure` no further node is begun after one failed; those under way are finished.
    """

    async def done(name: str) -> bool:
        try:
            return await work(name)
        except (ApiError, ClientError) as error:
            on_error(name, error)
            return False

    zones = {node.name: node.metadata.labels.get(rollout.ZONE_LABEL, "") for node in nodes}
    waiting = [node.name for node in nodes]
    active: dict[str, asyncio.Task[bool]] = {}
    results: dict[str, bool] = {}
    async with tasks.TaskScope("nodes") as scope:
        while waiting or active:
            for name in rollout.startable(waiting, active, zones, limits):
                waiting.remove(name)
                active[name] = scope.start(done(name), name=name)
            if not active:
                break
            await asyncio.wait(active.values(), return_when=asyncio.FIRST_COMPLETED)
            for name in [name for name, task in active.items() if task.done()]:
                results[name] = active.pop(name).result()
                if stop_on_failure and not results[name]:
                    waiting.clear()
    return results
