"""Reports stalled events: those that have been pending, claimed or terminating for too long, and why.

It changes nothing. Each is reported by a Kubernetes Event on the LifecycleEvent, again every few minutes as long as it
lasts, and counted in a metric that an alert can watch.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Awaitable
from typing import TypeVar

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleTransition
from kube_fairlead.api.reserved import NAMESPACE_NODE_LEASE
from kube_fairlead.base import logs
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.lifecycle.stalls import EventContext, Stage, Stall, StallLimits, explain, find_stall
from kube_fairlead.lifecycle.steps import WaitUntil
from kube_fairlead.manager import Context, Controller

__all__ = ["STALL", "stall"]

STALL = "stall"

_BY_NODE = "node"
# Often enough that the recorder sees one series and not many Events.
_REPEAT_SECONDS = 300.0

_T = TypeVar("_T")

_log = logs.get_logger(__name__)


def stall(limits: StallLimits, *, workers: int = 1) -> Controller:
    """The controller, for a manager to run."""

    async def run(context: Context) -> None:
        await _StallReporter(context, limits).run()

    return Controller(name=STALL, run=run, workers=workers)


@dataclasses.dataclass(frozen=True, slots=True)
class _Reported:
    """The last report about an event, and when it is repeated."""

    stage: Stage
    again_at: float


class _StallReporter:
    """One run of it."""

    def __init__(self, context: Context, limits: StallLimits) -> None:
        self._context = context
        self._limits = limits
        self._clock = context.client.clock
        self._queue: WorkQueue[str] = context.queue()
        self._events = Informer(
            context.client.of(LifecycleEvent, keep=False), indexes={_BY_NODE: lambda event: (event.spec.binding_node,)}
        )
        self._reported: dict[str, _Reported] = {}
        metrics = context.metrics
        self._stuck = metrics.gauge("fairlead_stalled_events", "Stalled LifecycleEvents.", ["stage"])
        self._stalls = metrics.counter("fairlead_stalls_total", "Stalls of LifecycleEvents.", ["stage"])

    async def run(self) -> None:
        self._events.add_handler(
            Handler(
                on_add=lambda event: self._queue.add(event.name),
                on_update=lambda _old, new: self._queue.add(new.name),
                on_delete=lambda event: self._queue.add(event.name),
            )
        )
        try:
            async with self._events.running():
                # Without all events, one would not be seen to wait for another.
                if await self._context.wait_synced(self._events):
                    self._count()
                    await self._context.reconcile(self._queue, self._handle)
        finally:
            # A follower does not know, and what the next leader finds must not be counted twice.
            self._reported.clear()
            self._count()

    async def _handle(self, name: str) -> float | None:
        event = self._events.store.get(name)
        now = self._clock.now()
        found = None if event is None else find_stall(event, self._limits, now)
        if event is not None and isinstance(found, Stall):
            return await self._tell(event, found)
        if self._reported.pop(name, None) is not None:
            self._count()
        return max(0.0, (found.moment - now).total_seconds()) if isinstance(found, WaitUntil) else None

    async def _tell(self, event: LifecycleEvent, found: Stall) -> float:
        reported = self._reported.get(event.name)
        if reported is not None and reported.stage is found.stage and self._clock.monotonic() < reported.again_at:
            return reported.again_at - self._clock.monotonic()  # progress alone is not reported
        around = await self._look_around(event)
        note = explain(event, found, around, self._clock.now())
        self._context.recorder.event(event, type="Warning", reason="Stalled", note=note, related=around.node)
        if reported is None or reported.stage is not found.stage:
            self._stalls.labels(stage=found.stage).inc()
            _log.warning("event stalled", lifecycle_event=event.name, why=note)
        self._reported[event.name] = _Reported(found.stage, self._clock.monotonic() + _REPEAT_SECONDS)
        self._count()
        return _REPEAT_SECONDS

    async def _look_around(self, event: LifecycleEvent) -> EventContext:
        """Read when needed: this is rare, and a watch of every node's Lease is expensive."""
        client, node = self._context.client, event.spec.binding_node
        others = self._events.store.by_index(_BY_NODE, node)
        return EventContext(
            node=await _found(client.of(Node).get(node)),
            transition=await _found(client.of(LifecycleTransition).get(event.spec.transition_name)),
            lease=await _found(client.of(Lease).get(node, namespace=NAMESPACE_NODE_LEASE)),
            others=tuple(other for other in others if other.name != event.name),
        )

    def _count(self) -> None:
        now = Counter(reported.stage for reported in self._reported.values())
        for stage in Stage:
            self._stuck.labels(stage=stage).set(now[stage])


async def _found(asked: Awaitable[_T]) -> _T | None:
    try:
        return await asked
    except api_errors.NotFound:
        return None
