"""Writes nodes; no other module does. Every write is bound to the state that was judged (invariant 8).

Rules:
1. A write carries the resource version of the node that the decision was about; a node that has changed since, and so
   might have another owner by now, is not written.
2. A node that is Foreign is rejected here once more, for every caller; one that is Unknown, or Owned by an annotation
   alone, may only be initialised.

A refusal, by the API server or by rule 2, concerns one node: controllers continue with the next (`NOT_WRITTEN`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node, NodeAddress, NodeCondition, Taint
from kube_fairlead.api.json_object import Json
from kube_fairlead.base import logs
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client import patches
from kube_fairlead.client.client import Client
from kube_fairlead.cloud.decisions.initialisation import Initialise
from kube_fairlead.cloud.ownership import Ownership, owned_by_id, ownership

__all__ = ["NOT_WRITTEN", "InvariantBroken", "NodeWriter"]


_log = logs.get_logger(__name__)


class InvariantBroken(RuntimeError):
    """Raised for a write to a node that is not this manager's: a bug, found before the write."""


NOT_WRITTEN: Final = (api_errors.ApiError, client_errors.ClientError, InvariantBroken)
"""Why one node is not written."""


class NodeWriter:
    """Writes to nodes of these platforms."""

    def __init__(self, client: Client, platforms: Collection[str]) -> None:
        self._api = client.of(Node, keep=False)
        self._platforms = platforms

    async def read(self, name: str) -> Node:
        """The node as it is now, to judge it again."""
        return await self._api.get(name)

    async def initialise(self, node: Node, change: Initialise) -> Node:
        """Make it a node of this cloud: labels, id, and no longer tainted as waiting."""
        self._check(node, ownership(node, self._platforms) is not Ownership.FOREIGN)
        spec: Json = {"taints": [wire.to_dict(taint) for taint in change.taints]}
        if change.provider_id:
            spec["providerID"] = change.provider_id
        return await self._patch(node, metadata={"labels": dict(change.labels)}, spec=spec)

    async def set_labels(self, node: Node, labels: Mapping[str, str]) -> Node:
        """Add or change labels."""
        self._check(node, owned_by_id(node, self._platforms))
        return await self._patch(node, metadata={"labels": dict(labels)})

    async def set_taints(self, node: Node, taints: tuple[Taint, ...]) -> Node:
        """Replace all taints."""
        self._check(node, owned_by_id(node, self._platforms))
        return await self._patch(node, spec={"taints": [wire.to_dict(taint) for taint in taints]})

    async def set_addresses(self, node: Node, addresses: tuple[NodeAddress, ...]) -> Node:
        """Replace all addresses."""
        self._check(node, owned_by_id(node, self._platforms))
        # A strategic merge would mix up several addresses of one type: this list is replaced whole.
        return await self._patch(node, status={"addresses": [wire.to_dict(address) for address in addresses]})

    async def set_condition(self, node: Node, condition: NodeCondition) -> Node:
        """Set one condition."""
        self._check(node, owned_by_id(node, self._platforms))
        document = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "status": {"conditions": [wire.to_dict(condition)]},
        }
        return await self._api.patch(node.name, patches.StrategicMergePatch(document), subresource="status")

    async def delete(self, node: Node) -> None:
        """Delete this very node, as it was judged."""
        self._check(node, owned_by_id(node, self._platforms))
        await self._api.delete(node.name, uid=node.uid, resource_version=node.metadata.resource_version)

    async def _patch(self, node: Node, *, metadata: Json | None = None, **parts: Json) -> Node:
        guard = {"resourceVersion": node.metadata.resource_version}
        document = {"metadata": {**(metadata or {}), **guard}, **parts}
        subresource = "status" if "status" in parts else ""
        return await self._api.patch(node.name, patches.MergePatch(document), subresource=subresource)

    def _check(self, node: Node, is_allowed: bool) -> None:  # noqa: FBT001 - the caller names the condition
        if not is_allowed:
            whose = ownership(node, self._platforms)
            by = "" if node.spec.provider_id else ", without a providerID,"
            refusal = f"node {node.name}{by} is {whose} to platforms {sorted(self._platforms)}; not written"
            _log.error("write rejected: the node is not owned", node=node.name, refusal=refusal)
            raise InvariantBroken(refusal)
