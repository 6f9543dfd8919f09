"""Writes a shutdown on the node: its conditions, its cordon and its taint.

Every step reads the node and writes only what is missing. So it may be repeated, and the next process continues where
this one was killed.
"""

from __future__ import annotations

from typing import Any, Final

from kube_fairlead.agent.shutdown.state_file import ShutdownState
from kube_fairlead.api import time as api_time
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.meta import ConditionStatus
from kube_fairlead.api.reserved import (
    ANNOTATION_CORDONED_BY,
    ANNOTATION_WINDING_UP,
    CONDITION_GRACEFUL_NODE_SHUTDOWN_IN_PROGRESS,
    CONDITION_LIFECYCLE_TRANSITION,
    NODE_SHUTDOWN,
)
from kube_fairlead.claimant.node_writer import NodeWriter
from kube_fairlead.client.client import Client
from kube_fairlead.lifecycle import conditions, invariants, shutdown_events, shutdown_status
from kube_fairlead.lifecycle.drain import cordons
from kube_fairlead.lifecycle.shutdown_recovery import ShutdownEvidence

__all__ = ["ShutdownStatusWriter"]

_STATES: Final = (NODE_SHUTDOWN.start, NODE_SHUTDOWN.end)


class ShutdownStatusWriter:
    """Writes the shutdowns of one node.

    Raises (every method): what the client raises when the server cannot be reached or rejects the request.
    """

    def __init__(self, client: Client, node_name: str, *, well_known: bool = True) -> None:
        self._clock = client.clock
        self._node_name = node_name
        self._well_known = well_known
        self._node = NodeWriter(client, node_name)

    async def evidence(self) -> ShutdownEvidence | None:
        """What the node's condition shows of a shutdown, for an agent that starts."""
        node = await self._node.read()
        current = None if node is None else node.condition(CONDITION_LIFECYCLE_TRANSITION)
        if current is None or current.reason not in _STATES or current.last_transition_time is None:
            return None
        return ShutdownEvidence(current.last_transition_time, complete=current.reason == NODE_SHUTDOWN.end)

    async def cordon(self, state: ShutdownState) -> None:
        """Cordon and taint the node. The same write marks the cordon as Fairlead's, so a lost answer does no harm."""
        node = await self._node.read()
        if node is None:
            return
        spec: dict[str, Any] = {}
        annotations: dict[str, Any] = {}
        if not node.spec.unschedulable:
            spec["unschedulable"] = True
            annotations[ANNOTATION_CORDONED_BY] = shutdown_events.event_name(self._node_name, state.start_time)
        if shutdown_status.TAINT not in [wire.replace(taint, time_added=None) for taint in node.spec.taints]:
            spec["taints"] = [wire.to_dict(taint) for taint in shutdown_status.taints_with_ours(node)]
        await self._change(node, spec, annotations)

    async def invalidate_older_writes(self) -> None:
        """The shutdown is over: no older write about it is stored from now on.

        A request that timed out may still be in flight. Every write of a shutdown carries the resourceVersion of the
        node, so a new version makes the API server reject it. A later read shows what was stored before.
        """
        node = await self._node.read()
        if node is not None:
            since = {ANNOTATION_WINDING_UP: api_time.format_micro_time(self._clock.now())}
            await self._node.annotate(node, since)

    async def uncordon(self) -> None:
        """Remove taint and cordon. A cordon that was there before the shutdown stays."""
        node = await self._node.read()
        if node is None:
            return
        spec: dict[str, Any] = {}
        annotations: dict[str, Any] = {}
        if ANNOTATION_WINDING_UP in node.metadata.annotations:
            annotations[ANNOTATION_WINDING_UP] = None
        # The disk with the name of the shutdown may be lost, so the cordon of any shutdown of the node is removed.
        if shutdown_events.is_event_name(node.metadata.annotations.get(ANNOTATION_CORDONED_BY, ""), self._node_name):
            annotations[ANNOTATION_CORDONED_BY] = None
            if cordons.owner(node):
                spec["unschedulable"] = None
        left = shutdown_status.taints_without_ours(node.spec.taints)
        if len(left) != len(node.spec.taints):
            spec["taints"] = [wire.to_dict(taint) for taint in left] or None
        await self._change(node, spec, annotations)

    async def publish(self, *, complete: bool, with_ready: bool) -> None:
        """Show the state of the shutdown; also that the node is not ready, if the agent stands in for the kubelet."""
        node = await self._node.read()
        while node is not None:
            state = shutdown_status.next_state(node, complete=complete)
            wanted = shutdown_status.node_conditions(state, well_known=self._well_known, with_ready=with_ready)
            if missing := conditions.outstanding(wanted, node):
                node = await self._node.publish(
                    node,
                    missing,
                    lambda reason, current: invariants.check_move(
                        f"the shutdown of {self._node_name}", _STATES, reason, current, is_started=complete
                    ),
                )
            if not complete or state == NODE_SHUTDOWN.end:
                return

    async def clear_conditions(self, reason: str) -> None:
        """Remove the state of the shutdown from the node."""
        node = await self._node.read()
        if node is None:
            return
        changes: list[dict[str, Any]] = []
        current = node.condition(CONDITION_LIFECYCLE_TRANSITION)
        if current is not None and current.reason in _STATES:
            changes.append({"type": CONDITION_LIFECYCLE_TRANSITION, "$patch": "delete"})
        known = node.condition(CONDITION_GRACEFUL_NODE_SHUTDOWN_IN_PROGRESS)
        if known is not None and known.status == ConditionStatus.TRUE:
            over = conditions.Wanted(known.type, ConditionStatus.FALSE, reason, "")
            changes.append(wire.to_dict(conditions.written(over, known, self._clock.now())))
        if changes:
            await self._node.patch_conditions(node, changes)

    async def _change(self, node: Node, spec: dict[str, Any], annotations: dict[str, Any]) -> None:
        if spec or annotations:
            await self._node.change(node, spec, annotations)
