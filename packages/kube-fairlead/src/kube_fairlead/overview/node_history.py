"""The finished events of nodes, from their records."""

from __future__ import annotations

import dataclasses

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import NodeLifecycleRecord
from kube_fairlead.client.client import Client
from kube_fairlead.lifecycle.node_overview import RecordedEvent, recorded

__all__ = ["History", "NodeHistory", "read_history"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeHistory:
    """The finished events of the nodes of one name, newest first."""

    name: str
    recorded: tuple[RecordedEvent, ...]
    dropped_entries: int = 0  # how many older ones the record has dropped


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The finished events of one node, or of all."""

    nodes: tuple[NodeHistory, ...]


async def read_history(client: Client, node_name: str = "") -> History:
    """Read the record of one node, or of all.

    Raises:
        NotFound: neither the node nor a record of it exists.
    """
    records = client.of(NodeLifecycleRecord)
    if not node_name:
        nodes = {node.name: node.uid for node in (await client.of(Node).list_all()).items}
        found = (await records.list_all()).items
        return History(nodes=tuple(_history(one, nodes.get(one.name, "")) for one in found))
    try:
        record = await records.get(node_name)
    except api_errors.NotFound:
        await client.of(Node).get(node_name)
        return History(nodes=(NodeHistory(name=node_name, recorded=()),))
    try:
        uid = (await client.of(Node).get(node_name)).uid
    except api_errors.NotFound:
        uid = ""
    return History(nodes=(_history(record, uid),))


def _history(record: NodeLifecycleRecord, node_uid: str) -> NodeHistory:
    return NodeHistory(name=record.name, recorded=recorded(record, node_uid), dropped_entries=record.dropped_entries)
