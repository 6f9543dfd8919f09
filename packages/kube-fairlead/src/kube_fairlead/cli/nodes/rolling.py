"""Doing something to several nodes, not too many at once. What fails on one node does not stop the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.errors import ApiError
from kube_fairlead.base import tasks
from kube_fairlead.cli.nodes.showing import Screen
from kube_fairlead.client.client import Client
from kube_fairlead.client.errors import ClientError
from kube_fairlead.lifecycle.drain import rollout

__all__ = ["looker", "roll", "waiter"]

# How often nodes that hold others back are looked at again.
_LOOK_SECONDS = 2.0


async def roll(
    nodes: Sequence[Node],
    limits: rollout.Limits,
    work: Callable[[str], Awaitable[bool]],
    *,
    on_error: Callable[[str, Exception], None],
    stop_on_failure: bool = False,
    stays_out: bool = False,
    unavailable: Callable[[], Awaitable[Collection[str]]] | None = None,
    held_up: Callable[[Collection[str]], Awaitable[None]] | None = None,
) -> dict[str, bool]:
    """Do the work for each node; which of those that were begun succeeded, by name.

    `unavailable` tells which nodes are out of service now. With `stays_out` the work is to leave nodes so: those that
    it is done with do not count.
    `held_up` gets them, and waits a while, when none may be begun because of them and none is worked on.

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
            out: set[str] = set()
            known = True
            if unavailable is not None and waiting:
                try:
                    out = set(await unavailable()) - (results.keys() if stays_out else set())
                except (ApiError, ClientError):
                    if not active:
                        raise
                    known = False  # nothing is begun now; what is under way must not be broken off for this
            for name in rollout.startable(waiting, active, zones, limits, unavailable=out) if known else ():
                waiting.remove(name)
                active[name] = scope.start(done(name), name=name)
            if not active and held_up is not None and waiting:
                await held_up(sorted(out))
                continue
            if not active:
                break
            await asyncio.wait(active.values(), return_when=asyncio.FIRST_COMPLETED)
            for name in [name for name, task in active.items() if task.done()]:
                results[name] = active.pop(name).result()
                if stop_on_failure and not results[name]:
                    waiting.clear()
    return results


def looker(client: Client, nodes: Sequence[Node]) -> Callable[[], Awaitable[Collection[str]]]:
    """Tells which of these nodes are out of service now: cordoned, not Ready, or gone."""

    async def unavailable() -> Collection[str]:
        page = await client.of(Node).list_all()
        in_service = {node.name for node in page.items if not rollout.is_unavailable(node)}
        return [node.name for node in nodes if node.name not in in_service]

    return unavailable


def waiter(client: Client, screen: Screen) -> Callable[[Collection[str]], Awaitable[None]]:
    """Says which nodes hold the others back, when that changes, and waits a moment."""
    said: list[str] = []

    async def wait(names: Collection[str]) -> None:
        if said != [*names]:
            said[:] = names
            screen.warn(f"waiting: cordoned or not Ready, and so counted: {', '.join(names)}")
        await client.clock.sleep(_LOOK_SECONDS)

    return wait
