"""Writing a node: its conditions, annotations and spec, for its claimant and for the agent that shuts it down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION
from kube_fairlead.base.clock import Clock
from kube_fairlead.client import retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.patches import MergePatch, StrategicMergePatch
from kube_fairlead.client.verbs import Api
from kube_fairlead.lifecycle import conditions

__all__ = ["REQUEST_SECONDS", "CheckMove", "NodeWriter"]

REQUEST_SECONDS: Final = 10.0
"""How long one request may take; no more than the margin of the node's Lease, so that no write outlives it."""

CheckMove = Callable[[str, str], None]
"""Invariant 2: given the reason to publish and the one that the node shows, raises where that move is illegal."""


class NodeWriter:
    """Writes one node, and no other of the same name. It has no state.

    Raises (every method): Conflict when the node is another or has changed, and the other errors of the client.
    """

    def __init__(self, client: Client, node_name: str) -> None:
        self._nodes: Api[Node] = client.with_retry(retry.NEVER).of(Node)
        self._clock: Clock = client.clock
        self._node_name = node_name

    async def read(self) -> Node | None:
        """The node as it is now; None when there is none."""
        try:
            async with self._clock.timeout(REQUEST_SECONDS):
                return await self._nodes.get(self._node_name)
        except api_errors.NotFound:
            return None

    async def publish(self, node: Node, wanted: Iterable[conditions.Wanted], check_move: CheckMove) -> Node:
        """Write these conditions."""
        changes: list[dict[str, Any]] = []
        for one in wanted:
            current = node.condition(one.type)
            reason = "" if current is None else current.reason
            if one.type == CONDITION_LIFECYCLE_TRANSITION and reason != one.reason:
                check_move(one.reason, reason)
            changes.append(wire.to_dict(conditions.written(one, current, self._clock.now())))
        return await self.patch_conditions(node, changes)

    async def patch_conditions(self, node: Node, changes: list[dict[str, Any]]) -> Node:
        """Write these conditions, as they are."""
        # The version too: a state that a shutdown has published since stays (invariant 10), and a late write must not
        # reach a node that is up again after one.
        metadata = {"uid": node.uid, "resourceVersion": node.metadata.resource_version}
        body = {"metadata": metadata, "status": {"conditions": changes}}
        return await self._patch(node, StrategicMergePatch(body), subresource="status")

    async def annotate(self, node: Node, changes: Mapping[str, str | None]) -> Node:
        """Set annotations; None removes one. They are keys of a map: changes of other clients are no conflict."""
        return await self._patch(node, MergePatch({"metadata": {"uid": node.uid, "annotations": dict(changes)}}))

    async def change(self, node: Node, spec: dict[str, Any], annotations: dict[str, Any]) -> Node:
        """Change fields of the spec, and annotations in the same write."""
        # A merge patch replaces the whole list of taints, so the version guards those of other clients.
        metadata: dict[str, Any] = {"uid": node.uid, "resourceVersion": node.metadata.resource_version}
        if annotations:
            metadata["annotations"] = annotations
        return await self._patch(node, MergePatch({"metadata": metadata, "spec": spec}))

    async def _patch(self, node: Node, patch: StrategicMergePatch | MergePatch, *, subresource: str = "") -> Node:
        async with self._clock.timeout(REQUEST_SECONDS):
            return await self._nodes.patch(node.name, patch, subresource=subresource)
