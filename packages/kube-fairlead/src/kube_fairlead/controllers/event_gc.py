"""Collects LifecycleEvents: fails those whose node is gone, and deletes finished ones that no claimant deletes."""

from __future__ import annotations

import datetime as dt
from typing import Final, assert_never

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent, RecordEntry
from kube_fairlead.api.reserved import FINALIZER_CLAIMED
from kube_fairlead.base import logs
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.claimant.record_writer import RecordWriter
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.lifecycle import records
from kube_fairlead.lifecycle.garbage_collection import Collection, Retention, collect
from kube_fairlead.lifecycle.steps import Delete, Finish, Nothing, RemoveFinalizer, WaitUntil, WriteRecord
from kube_fairlead.manager import Context, Controller

__all__ = ["EVENT_GC", "event_gc"]

EVENT_GC = "event-gc"

_BY_NODE = "node"
_REFUSED_SECONDS: Final = 5.0

_log = logs.get_logger(__name__)


def event_gc(retention: Retention, *, workers: int = 1) -> Controller:
    """The controller, for a manager to run."""

    async def run(context: Context) -> None:
        await _EventCollector(context, retention).run()

    return Controller(name=EVENT_GC, run=run, workers=workers)


class _EventCollector:
    """One run of it."""

    def __init__(self, context: Context, retention: Retention) -> None:
        self._context = context
        self._retention = retention
        self._queue: WorkQueue[str] = context.queue()
        client = context.client
        self._events = Informer(
            client.of(LifecycleEvent, keep=False), indexes={_BY_NODE: lambda event: (event.spec.binding_node,)}
        )
        self._nodes = Informer(client.of(Node, keep=False), transform=_bare)
        self._records = RecordWriter(client)
        self._recorded: set[str] = set()  # finished events whose entry is written, by uid
        self._seen: dict[str, dt.datetime] = {}  # pending events without a node, by uid
        self._collected = context.metrics.counter(
            "fairlead_events_collected_total", "LifecycleEvents that the collector acted on.", ["action"]
        )

    async def run(self) -> None:
        self._events.add_handler(
            Handler(
                on_add=lambda event: self._queue.add(event.name),
                on_update=lambda _old, new: self._queue.add(new.name),
                on_delete=self._forget,
            )
        )
        self._nodes.add_handler(Handler(on_add=self._node_changed, on_delete=self._node_changed))
        async with self._nodes.running(), self._events.running():
            # Without all nodes, every event would look like one of a node that is gone.
            if await self._context.wait_synced(self._nodes):
                await self._context.reconcile(self._queue, self._handle)

    def _forget(self, event: LifecycleEvent) -> None:
        self._recorded.discard(event.uid)
        self._seen.pop(event.uid, None)

    def _node_changed(self, node: Node) -> None:
        for event in self._events.store.by_index(_BY_NODE, node.name):
            self._queue.add(event.name)

    async def _handle(self, name: str) -> float | None:
        known = self._events.store.get(name)
        if known is None:
            return None
        now = self._context.client.clock.now()
        node = self._nodes.store.get(known.spec.binding_node)
        glance = self._collect(known, node, now)
        if isinstance(glance, Nothing):
            return None
        if isinstance(glance, WaitUntil):
            return _seconds_until(glance.moment, now)
        if isinstance(glance, Delete):
            # A finished event never changes again, so what the cache says of it is true; the uid sees to the rest.
            return await self._carry_out(glance, known)
        return await self._act(name)

    async def _act(self, name: str) -> float | None:
        """Decide again by what the server says now: a cache may be late, and this cannot be undone."""
        try:
            event = await self._context.client.of(LifecycleEvent).get(name)
        except api_errors.NotFound:
            return None
        node = await self._node(event.spec.binding_node)
        now = self._context.client.clock.now()
        return await self._carry_out(self._collect(event, node, now), event)

    def _collect(self, event: LifecycleEvent, node: Node | None, now: dt.datetime) -> Collection:
        seen = None
        if node is None and event.claim_status is ClaimStatus.PENDING:
            seen = self._seen.setdefault(event.uid, now)
        return collect(event, node, self._retention, now, recorded=event.uid in self._recorded, seen=seen)

    async def _carry_out(self, decision: Collection, event: LifecycleEvent) -> float | None:
        events = self._context.client.of(LifecycleEvent)
        try:
            match decision:
                case Finish(status):
                    await events.update_status(wire.replace(event, status=status))
                case WriteRecord(entry):
                    return await self._record(event, entry)
                case RemoveFinalizer():
                    left = tuple(one for one in event.metadata.finalizers if one != FINALIZER_CLAIMED)
                    await events.update(wire.replace_metadata(event, finalizers=left))
                case Delete():
                    await events.delete(event.name, uid=event.uid)
                case WaitUntil(moment):
                    return _seconds_until(moment, self._context.client.clock.now())
                case Nothing():
                    return None
                case other:
                    assert_never(other)
        except (api_errors.NotFound, api_errors.Conflict):
            return None  # another client wrote first; the watch will report it
        self._collected.labels(action=type(decision).__name__).inc()
        _log.info("event collected", lifecycle_event=event.name, action=type(decision).__name__)
        return None

    async def _record(self, event: LifecycleEvent, entry: RecordEntry) -> float:
        try:
            await self._records.write(event.spec.binding_node, entry)
        except api_errors.ApiError as error:
            if not records.may_release_without_record(event, error.code, self._context.client.clock.now()):
                return _REFUSED_SECONDS
            _log.error("event released without a record", lifecycle_event=event.name, error=str(error))
        self._recorded.add(event.uid)
        return 0.0

    async def _node(self, name: str) -> Node | None:
        try:
            return await self._context.client.of(Node).get(name)
        except api_errors.NotFound:
            return None


def _bare(node: Node) -> Node:
    """Of a node only its name and uid matter here, and there may be thousands."""
    return Node(metadata=wire.replace(node.metadata, labels={}, annotations={}))


def _seconds_until(moment: dt.datetime, now: dt.datetime) -> float:
    return max(0.0, (moment - now).total_seconds())
