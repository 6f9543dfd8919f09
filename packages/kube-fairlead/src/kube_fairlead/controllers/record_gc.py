"""Collects records of nodes: expired entries, records without entries, and excess records of deleted nodes."""

from __future__ import annotations

import datetime as dt
from typing import Final, Literal

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import NodeLifecycleRecord, RecordEntry
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.base import gates, logs
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.lifecycle import records
from kube_fairlead.manager import Context, Controller

__all__ = ["RECORD_GC", "record_gc"]

RECORD_GC = "record-gc"

_Key = tuple[Literal["record", "count"], str]
_COUNT: Final[_Key] = ("count", "")
# Entries live for days; clocks are set, so a moment that is far off is looked at again before it comes.
_LOOK_SECONDS: Final = 3600.0

_log = logs.get_logger(__name__)


def record_gc(keep: records.RecordRetention) -> Controller:
    """The controller, for a manager to run."""

    async def run(context: Context) -> None:
        await _RecordCollector(context, keep).run()

    return Controller(name=RECORD_GC, run=run, gate=gates.SPECIALIZED_LIFECYCLE_MANAGEMENT)


class _RecordCollector:
    """One run of it."""

    def __init__(self, context: Context, keep: records.RecordRetention) -> None:
        self._context = context
        self._keep = keep
        self._queue: WorkQueue[_Key] = context.queue()
        self._records = Informer(context.client.of(NodeLifecycleRecord, keep=False), transform=_bare)
        self._nodes = Informer(context.client.of(Node, keep=False), transform=_name_only)

    async def run(self) -> None:
        # A record that is gone is counted again: what was decided while the watch still had it may have missed another.
        self._records.add_handler(
            Handler(
                on_add=self._added,
                on_update=lambda _old, new: self._changed(new),
                on_delete=lambda _record: self._queue.add(_COUNT),
            )
        )
        self._nodes.add_handler(Handler(on_delete=lambda _node: self._queue.add(_COUNT)))
        async with self._nodes.running(), self._records.running():
            # Without all nodes, every record would look like one of a node that is gone.
            if await self._context.wait_synced(self._nodes):
                await self._context.reconcile(self._queue, self._handle)

    def _added(self, record: NodeLifecycleRecord) -> None:
        self._changed(record)
        self._queue.add(_COUNT)

    def _changed(self, record: NodeLifecycleRecord) -> None:
        self._queue.add(("record", record.name))

    async def _handle(self, key: _Key) -> float | None:
        about, name = key
        try:
            return await self._shorten(name) if about == "record" else await self._count()
        except (api_errors.NotFound, api_errors.Conflict):
            return None  # a claimant wrote at this moment, and the watch shows it

    async def _shorten(self, name: str) -> float | None:
        known = self._records.store.get(name)
        if known is None:
            return None
        now = self._context.client.clock.now()
        glance = records.pruned(known, self._keep.entries, now)
        if isinstance(glance, dt.datetime):
            return min(_LOOK_SECONDS, max(0.0, (glance - now).total_seconds()))
        api = self._context.client.of(NodeLifecycleRecord)
        record = await api.get(name)
        left = records.pruned(record, self._keep.entries, now)
        if isinstance(left, dt.datetime):
            return None
        if left.entries:
            await api.update(left)
        else:
            await self._delete(record)
        _log.info("record shortened", node=name, entries=len(left.entries))
        return None

    async def _count(self) -> float | None:
        nodes = {node.name: node for node in self._nodes.store}
        for record in records.overflow(self._records.store, nodes, self._keep.gone_nodes):
            await self._delete(record)
            _log.info("record of a deleted node removed", node=record.name)
        return None

    async def _delete(self, record: NodeLifecycleRecord) -> None:
        # The version: a claimant may have written an entry at this moment.
        version = record.metadata.resource_version
        await self._context.client.of(NodeLifecycleRecord).delete(record.name, uid=record.uid, resource_version=version)


def _bare(record: NodeLifecycleRecord) -> NodeLifecycleRecord:
    """Of an entry only its time matters here, and entries are large."""
    entries = tuple(RecordEntry(event_uid=one.event_uid, completion_time=one.completion_time) for one in record.entries)
    return NodeLifecycleRecord(metadata=wire.replace(record.metadata, labels={}, annotations={}), entries=entries)


def _name_only(node: Node) -> Node:
    return Node(metadata=ObjectMeta(name=node.name, uid=node.uid, resource_version=node.metadata.resource_version))
