"""One operation on several nodes, within limits. A failure on one node does not stop the others, unless requested."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.errors import ApiError
from kube_fairlead.base import tasks
from kube_fairlead.client.client import Client
from kube_fairlead.client.errors import ClientError
from kube_fairlead.lifecycle.drain import rollout
from kube_fairlead.operations.progress import Ended, HeldBack, Outcome, ProgressReport, Result, Started

__all__ = ["Availability", "NodeAvailability", "roll_out"]

# How often nodes that hold others back are read again.
_READ_SECONDS = 2.0


class Availability(Protocol):
    """Which of the nodes are out of service."""

    observed_at: dt.datetime | None  # when they were last read

    async def unavailable(self) -> Collection[str]:
        """Read the nodes."""
        ...

    async def wait(self) -> None:
        """Wait until it is time to read them again."""
        ...


class NodeAvailability:
    """Nodes are out of service that are cordoned, not Ready, or deleted."""

    def __init__(self, client: Client, nodes: Sequence[Node]) -> None:
        self._client = client
        self._names = [node.name for node in nodes]
        self.observed_at: dt.datetime | None = None

    async def unavailable(self) -> Collection[str]:
        """Read the nodes.

        Raises:
            ApiError, ClientError: the API server does not answer with them.
        """
        observed_at = self._client.clock.now()
        page = await self._client.of(Node).list_all()
        self.observed_at = observed_at
        in_service = {node.name for node in page.items if not rollout.is_unavailable(node)}
        return [name for name in self._names if name not in in_service]

    async def wait(self) -> None:
        """Wait until it is time to read them again."""
        await self._client.clock.sleep(_READ_SECONDS)


async def roll_out(
    nodes: Sequence[Node],
    limits: rollout.Limits,
    work: Callable[[str], Awaitable[Outcome]],
    *,
    report: ProgressReport,
    stop_on_failure: bool = False,
    stays_out: bool = False,
    availability: Availability | None = None,
) -> dict[str, Outcome]:
    """Do the work on each node; the outcome of every node that was started, by name.

    Args:
        nodes: in the order in which they start.
        limits: how many at once.
        work: is done with the name of each node. An ApiError or a ClientError that it raises is the failure of that
            node alone.
        report: called with the start and the end of each node, and with the nodes that hold the others back.
        stop_on_failure: no further node is started after one failed; the work on started nodes is finished.
        stays_out: the work leaves its nodes out of service, so nodes that it is done with do not count as unavailable.
        availability: nodes that are out of service count against the limits; None: they do not.

    Raises:
        ApiError, ClientError: the nodes cannot be read, and no work is in progress.
    """

    async def run(name: str) -> Outcome:
        report(Started(name, None if availability is None else availability.observed_at))
        try:
            outcome = await work(name)
        except (ApiError, ClientError) as error:
            outcome = Outcome(Result.FAILED, str(error))
        report(Ended(name, outcome))
        return outcome

    zones = {node.name: node.metadata.labels.get(rollout.ZONE_LABEL, "") for node in nodes}
    waiting = [node.name for node in nodes]
    active: dict[str, asyncio.Task[Outcome]] = {}
    outcomes: dict[str, Outcome] = {}
    held_back: list[str] = []
    async with tasks.TaskScope("nodes") as scope:
        while waiting or active:
            unavailable: set[str] = set()
            known = True
            if availability is not None and waiting:
                try:
                    unavailable = set(await availability.unavailable()) - (outcomes.keys() if stays_out else set())
                except (ApiError, ClientError):
                    if not active:
                        raise
                    known = False  # no node is started now; the work in progress continues
            for name in rollout.startable(waiting, active, zones, limits, unavailable=unavailable) if known else ():
                waiting.remove(name)
                active[name] = scope.start(run(name), name=name)
            if not active and availability is not None and waiting:
                if held_back != sorted(unavailable):
                    held_back = sorted(unavailable)
                    report(HeldBack(tuple(held_back)))
                await availability.wait()
                continue
            if not active:
                break
            await asyncio.wait(active.values(), return_when=asyncio.FIRST_COMPLETED)
            for name in [name for name, task in active.items() if task.done()]:
                outcomes[name] = active.pop(name).result()
                if stop_on_failure and outcomes[name].failed:
                    waiting.clear()
    return outcomes
