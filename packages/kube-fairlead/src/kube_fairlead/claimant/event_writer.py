"""The claimant's writes, one method each. The version that it was decided from guards each write; checks come first."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Mapping
from typing import Any

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleEventStatus, LifecycleTransition, RecordEntry
from kube_fairlead.api.reserved import FINALIZER_CLAIMED
from kube_fairlead.base.clock import Clock
from kube_fairlead.claimant.node_writer import REQUEST_SECONDS, NodeWriter
from kube_fairlead.claimant.record_writer import RecordWriter
from kube_fairlead.claimant.view import NodeView
from kube_fairlead.client import retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.verbs import Api
from kube_fairlead.lifecycle import conditions, invariants

__all__ = ["EventWriter"]


class EventWriter:
    """Writes events and the node. Answers go into the view; an event that is gone is recorded there and is no error.

    Raises (every method): Conflict when the object has changed, and the other errors of the client.
    """

    def __init__(self, client: Client, view: NodeView, claimant: str) -> None:
        once = client.with_retry(retry.NEVER)
        self._events: Api[LifecycleEvent] = once.of(LifecycleEvent)
        self._transitions: Api[LifecycleTransition] = once.of(LifecycleTransition)
        self._node = NodeWriter(client, view.node_name)
        self._records = RecordWriter(client)
        self._clock: Clock = client.clock
        self._view = view
        self._claimant = claimant

    async def write_status(self, event: LifecycleEvent, status: LifecycleEventStatus) -> None:
        """Store a new status, if the event is still the version that it was decided from."""
        invariants.check_own(event, self._claimant)
        changed = wire.replace(event, status=status)
        invariants.check_status_change(event, changed)
        await self._store(event, self._events.update_status(changed))

    async def add_finalizer(self, event: LifecycleEvent) -> None:
        """Add the claimant's finalizer."""
        invariants.check_own(event, self._claimant)
        held = (*event.metadata.finalizers, FINALIZER_CLAIMED)
        await self._store(event, self._events.update(wire.replace_metadata(event, finalizers=held)))

    async def write_record(self, event: LifecycleEvent, entry: RecordEntry) -> None:
        """Add the result of a finished event to the node's record."""
        invariants.check_own(event, self._claimant)
        async with self._clock.timeout(REQUEST_SECONDS):
            await self._records.write(event.spec.binding_node, entry)

    async def remove_finalizer(self, event: LifecycleEvent) -> None:
        """Remove the claimant's finalizer."""
        invariants.check_own(event, self._claimant)
        invariants.check_may_release(event)
        kept = tuple(name for name in event.metadata.finalizers if name != FINALIZER_CLAIMED)
        await self._store(event, self._events.update(wire.replace_metadata(event, finalizers=kept)))

    async def delete(self, event: LifecycleEvent) -> None:
        """Delete exactly this event, not another of the same name."""
        invariants.check_own(event, self._claimant)
        try:
            async with self._clock.timeout(REQUEST_SECONDS):
                left = await self._events.delete(event.name, uid=event.uid)
        except api_errors.NotFound:
            left = None
        if left is not None and left.deleting and left.metadata.finalizers:
            self._view.event_written(left)
        else:
            self._view.event_gone(event.uid)

    async def refresh(self, event: LifecycleEvent) -> None:
        """Read an event again, because the result of a write is not known, or another client wrote."""
        try:
            async with self._clock.timeout(REQUEST_SECONDS):
                current = await self._events.get(event.name)
        except api_errors.NotFound:
            self._view.event_gone(event.uid)
            return
        if current.uid == event.uid:
            self._view.event_written(current)
        else:
            self._view.event_gone(event.uid)

    async def read_node(self) -> Node | None:
        """The node as it is now; None when there is none."""
        node = await self._node.read()
        if node is not None:
            self._view.node_written(node)
        return node

    async def read_transition(self, name: str) -> LifecycleTransition | None:
        """A transition as it is now; None when there is none."""
        try:
            async with self._clock.timeout(REQUEST_SECONDS):
                return await self._transitions.get(name)
        except api_errors.NotFound:
            return None

    async def publish(self, event: LifecycleEvent, node: Node, wanted: tuple[conditions.Wanted, ...]) -> None:
        """Write conditions of the node, and no others."""
        check_move = functools.partial(invariants.check_reason, event)
        await self._written(self._node.publish(node, wanted, check_move))

    async def annotate(self, node: Node, changes: Mapping[str, str | None]) -> None:
        """Set annotations of the node; None removes one."""
        await self._written(self._node.annotate(node, changes))

    async def _store(self, event: LifecycleEvent, request: Any) -> None:
        try:
            async with self._clock.timeout(REQUEST_SECONDS):
                stored: LifecycleEvent = await request
        except api_errors.NotFound:
            self._view.event_gone(event.uid)
            return
        if stored.deleting and not stored.metadata.finalizers:
            self._view.event_gone(event.uid)  # this write removed the last finalizer
        else:
            self._view.event_written(stored)

    async def _written(self, request: Awaitable[Node]) -> None:
        try:
            self._view.node_written(await request)
        except api_errors.Conflict:
            await self.read_node()  # the next decision uses the current node
            raise
