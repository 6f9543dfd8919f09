"""Maintenance of nodes: each is drained, worked on, Ready again and uncordoned; several at once within limits."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import time as api_time
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.reserved import NODE_DRAIN, NODE_UNCORDON
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.lifecycle.drain import rollout
from kube_fairlead.lifecycle.drain.options import KUBECTL, DrainOptions, spell
from kube_fairlead.operations.event_requests import find_transition
from kube_fairlead.operations.node_rollout import NodeAvailability, roll_out
from kube_fairlead.operations.node_transition import TransitionRequest, run_transition
from kube_fairlead.operations.progress import (
    AwaitingReady,
    Ended,
    MaintenanceStage,
    Operation,
    Outcome,
    ProgressReport,
    Result,
    StageReached,
    ignore,
)

__all__ = ["MaintenanceRequest", "WorkFailed", "maintain"]

# The work on one drained node, by its name. It raises WorkFailed if the node must stay drained.
Work = Callable[[str], Awaitable[None]]

# A timer may fire slightly early.
_LATE_SECONDS: Final = 0.005


class WorkFailed(Exception):
    """Raised by the work on a node that failed. Its text says why. The node stays drained."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRequest:
    """How nodes are maintained. Nodes that are cordoned or not Ready count against the limits."""

    options: DrainOptions = KUBECTL
    transition: str = NODE_DRAIN.name  # the one that drains
    limits: rollout.Limits = dataclasses.field(default_factory=rollout.Limits)
    min_ready: dt.timedelta = dt.timedelta(0)  # how long a node must be Ready after the work
    ready_timeout: dt.timedelta = dt.timedelta(0)  # how long that may take; zero: without limit


async def maintain(
    client: Client,
    nodes: Sequence[Node],
    work: Work,
    request: MaintenanceRequest | None = None,
    *,
    report: ProgressReport = ignore,
) -> dict[str, Outcome]:
    """Maintain nodes; the outcome of each, by name. After a failure no further node is started.

    A node whose maintenance fails after its drain stays drained. Cancelling it cancels the work; drains and uncordons
    that were requested continue.

    Raises:
        RequestFailed: a transition does not exist.
        ApiError, ClientError: the API server rejects what is needed to start, or does not answer.
    """
    request = request or MaintenanceRequest()
    maintenance = _Maintenance(
        client,
        work,
        request,
        TransitionRequest(
            operation=Operation.DRAIN,
            transition=await find_transition(client, request.transition),
            options=spell(request.options),
            timeout=request.options.timeout,
        ),
        TransitionRequest(operation=Operation.UNCORDON, transition=await find_transition(client, NODE_UNCORDON.name)),
        report,
    )
    outcomes = await roll_out(
        nodes,
        request.limits,
        maintenance.of,
        report=report,
        stop_on_failure=True,
        availability=NodeAvailability(client, nodes),
    )
    for node in nodes:
        if node.name not in outcomes:
            outcomes[node.name] = Outcome(Result.NOT_STARTED, "the maintenance of another node failed")
            report(Ended(node.name, outcomes[node.name]))
    return outcomes


class _Maintenance:
    """The maintenance of each node."""

    def __init__(
        self,
        client: Client,
        work: Work,
        request: MaintenanceRequest,
        drain: TransitionRequest,
        uncordon: TransitionRequest,
        report: ProgressReport,
    ) -> None:
        self._client = client
        self._work = work
        self._request = request
        self._drain = drain
        self._uncordon = uncordon
        self._report = report

    async def of(self, node: str) -> Outcome:
        """Maintain one node."""
        self._report(StageReached(node, MaintenanceStage.DRAINING))
        outcome = await run_transition(self._client, self._drain, node, self._report)
        if outcome.failed:
            return dataclasses.replace(outcome, message=f"drain failed: {outcome.message}")
        # Another user may have uncordoned it meanwhile: no work is done on a node that accepts pods.
        if not (await self._client.of(Node).get(node)).spec.unschedulable:
            return Outcome(Result.FAILED, "the node was uncordoned after its drain, so no work was done on it")
        self._report(StageReached(node, MaintenanceStage.DRAINED))
        try:
            await self._work(node)
        except WorkFailed as error:
            return Outcome(Result.FAILED, str(error))
        except Exception as error:  # noqa: BLE001 - a program's own work may raise anything; other nodes' work goes on
            return Outcome(Result.FAILED, f"the work failed: {type(error).__name__}: {error}")
        try:
            async with self._client.clock.timeout(self._request.ready_timeout.total_seconds() or None):
                observed_at = await self._until_ready(node)
        except TimeoutError:
            return Outcome(Result.FAILED, self._not_ready())
        self._report(StageReached(node, MaintenanceStage.UNCORDONING, observed_at))
        outcome = await run_transition(self._client, self._uncordon, node, self._report)
        if outcome.failed:
            return dataclasses.replace(outcome, message=f"uncordon failed: {outcome.message}")
        self._report(StageReached(node, MaintenanceStage.COMPLETE))
        return outcome

    def _not_ready(self) -> str:
        wanted = api_time.format_duration(self._request.min_ready)
        waited = api_time.format_duration(self._request.ready_timeout)
        return f"the node was not Ready for {wanted} without a break within {waited} after the work"

    async def _until_ready(self, node: str) -> dt.datetime:
        """Wait until the node has been Ready for long enough, which the work may have interrupted; when it was read."""
        clock, changed, reported = self._client.clock, asyncio.Event(), False
        nodes = Informer(self._client.of(Node, keep=False), field_selector=f"metadata.name={node}")
        nodes.add_handler(
            Handler(
                on_add=lambda _node: changed.set(),
                on_update=lambda _old, _new: changed.set(),
                on_delete=lambda _node: changed.set(),
            )
        )
        readiness = rollout.Readiness()
        async with nodes.running():
            await nodes.wait_synced()
            while True:
                changed.clear()
                readiness = readiness.seen(nodes.store.get(node), clock.now())
                if self._is_fit(readiness):
                    # A watch may be behind: the node must be Ready when it is read now, too.
                    observed_at = clock.now()
                    readiness = readiness.seen(await self._read(node), clock.now())
                    if self._is_fit(readiness):
                        return observed_at
                moment = readiness.fit_at(self._request.min_ready)
                if moment is None and not reported:
                    reported = True
                    self._report(AwaitingReady(node))
                left = None if moment is None else (moment - clock.now()).total_seconds() + _LATE_SECONDS
                with contextlib.suppress(TimeoutError):
                    async with clock.timeout(left):
                        await changed.wait()

    def _is_fit(self, readiness: rollout.Readiness) -> bool:
        moment = readiness.fit_at(self._request.min_ready)
        return moment is not None and self._client.clock.now() >= moment

    async def _read(self, node: str) -> Node | None:
        try:
            return await self._client.of(Node).get(node)
        except api_errors.NotFound:
            return None
