"""The agent's writes, one method each. Every one is guarded by what it was decided from, and checked before it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node, NodeCondition
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleEventStatus, LifecycleTransition, RecordEntry
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION, FINALIZER_CLAIMED
from kube_fairlead.base.clock import Clock
from kube_fairlead.claimant.record_writer import RecordWriter
from kube_fairlead.claimant.view import NodeView
from kube_fairlead.client import retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.patches import MergePatch, StrategicMergePatch
from kube_fairlead.client.verbs import Api
from kube_fairlead.lifecycle import conditions, invariants

__all__ = ["REQUEST_SECONDS", "EventWriter"]

REQUEST_SECONDS: Final = 10.0
"""How long one request may take; no more than the margin of the node's Lease, so that no write outlives it."""


class EventWriter:
    """Writes events and the node. Answers go into the view; an event that is gone is noted there and is no error.

    Raises (every method): Conflict when what is written to has changed, and whatever else the client raises.
    """

    def __init__(self, client: Client, view: NodeView, claimant: str) -> None:
        once = client.with_retry(retry.NEVER)
        self._events: Api[LifecycleEvent] = once.of(LifecycleEvent)
        self._transitions: Api[LifecycleTransition] = once.of(LifecycleTransition)
        self._nodes: Api[Node] = once.of(Node)
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
        """Hold the event."""
        invariants.check_own(event, self._claimant)
        held = (*event.metadata.finalizers, FINALIZER_CLAIMED)
        await self._store(event, self._events.update(wire.replace_metadata(event, finalizers=held)))

    async def write_record(self, event: LifecycleEvent, entry: RecordEntry) -> None:
        """Keep what a finished event came to."""
        invariants.check_own(event, self._claimant)
        async with self._clock.timeout(REQUEST_SECONDS):
            await self._records.write(event.spec.binding_node, entry)

    async def remove_finalizer(self, event: LifecycleEvent) -> None:
        """Let the event go."""
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
        """Read an event again, because what became of a write is not known, or somebody else wrote."""
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
        try:
            async with self._clock.timeout(REQUEST_SECONDS):
                node = await self._nodes.get(self._view.node_name)
        except api_errors.NotFound:
            return None
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
        written: list[NodeCondition] = []
        for one in wanted:
            current = node.condition(one.type)
            reason = "" if current is None else current.reason
            if one.type == CONDITION_LIFECYCLE_TRANSITION and reason != one.reason:
                invariants.check_reason(event, one.reason, reason)
            written.append(conditions.written(one, current, self._clock.now()))
        # Guarded by the version too: a shutdown may have said something else meanwhile, which must stay (invariant 10).
        body = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "status": {"conditions": [wire.to_dict(condition) for condition in written]},
        }
        await self._patch_node(node, StrategicMergePatch(_of_this(node, body)), subresource="status")

    async def annotate(self, node: Node, changes: Mapping[str, str | None]) -> None:
        """Set annotations of the node; None removes one."""
        body = {"metadata": {"annotations": dict(changes)}}
        await self._patch_node(node, MergePatch(_of_this(node, body)))

    async def _store(self, event: LifecycleEvent, request: Any) -> None:
        try:
            async with self._clock.timeout(REQUEST_SECONDS):
                stored: LifecycleEvent = await request
        except api_errors.NotFound:
            self._view.event_gone(event.uid)
            return
        if stored.deleting and not stored.metadata.finalizers:
            self._view.event_gone(event.uid)  # the last finalizer went with this write
        else:
            self._view.event_written(stored)

    async def _patch_node(self, node: Node, patch: StrategicMergePatch | MergePatch, *, subresource: str = "") -> None:
        try:
            async with self._clock.timeout(REQUEST_SECONDS):
                patched = await self._nodes.patch(node.name, patch, subresource=subresource)
        except api_errors.Conflict:
            await self.read_node()  # what is to be said is decided anew, by the node as it is now
            raise
        self._view.node_written(patched)


def _of_this(node: Node, body: dict[str, Any]) -> dict[str, Any]:
    """The same patch, which a node of the same name but another uid refuses."""
    metadata = {**body.get("metadata", {}), "uid": node.uid}
    return {**body, "metadata": metadata}
