"""The state of every node, or of one: what it does, which claimant holds its Lease, what blocks it."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Collection, Iterator, Mapping
from typing import TypeVar

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleTransition, NodeLifecycleRecord
from kube_fairlead.api.meta import KubeObject
from kube_fairlead.api.reserved import ANNOTATION_PLATFORM, NAMESPACE_NODE_LEASE
from kube_fairlead.client import lifecyclegroup
from kube_fairlead.client.client import Client
from kube_fairlead.cloud import ownership
from kube_fairlead.lifecycle.node_overview import NodeOverview, claimant_of, overview

__all__ = ["ClusterStatus", "NodeSummary", "Platform", "read_cluster_status"]

_O = TypeVar("_O", bound=KubeObject)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """The cloud of a node, the field that names it, and the node's ownership for managers of the given platforms."""

    name: str = ""
    said_by: str = ""  # providerID, annotation, or empty
    ownership: str = ""  # Owned, Foreign or Unknown; empty without given platforms


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeSummary:
    """One node."""

    node: NodeOverview
    platform: Platform


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """The nodes at one moment, and why something is missing."""

    now: dt.datetime
    nodes: tuple[NodeSummary, ...]
    notes: tuple[str, ...] = ()


async def read_cluster_status(
    client: Client, node_name: str = "", *, platforms: Collection[str] = (), group: str = ""
) -> ClusterStatus:
    """Read the state of one node, or of all.

    Args:
        client: the API server's.
        node_name: empty: all nodes.
        platforms: the platforms of the cloud controller managers whose ownership is judged.
        group: the API group of the lifecycle kinds; empty: the one that the server serves. If it serves none, the
            state has the nodes alone, and a note.

    Raises:
        NotFound: the node does not exist.
    """
    notes: list[str] = []
    try:
        client = await lifecyclegroup.discovered(client, group)
    except lifecyclegroup.GroupUnknown as error:
        notes.append(str(error))
    nodes = [await client.of(Node).get(node_name)] if node_name else (await client.of(Node).list_all()).items
    # Not every server can select events by node, so all are read and selected below.
    events = await _list(client, LifecycleEvent, notes)
    transitions = await _list(client, LifecycleTransition, notes)
    records = {record.name: record for record in await _list(client, NodeLifecycleRecord, notes)}
    leases = {lease.name: lease for lease in await _list(client, Lease, notes, namespace=NAMESPACE_NODE_LEASE)}
    known: dict[str, Node | None] = {node.name: node for node in nodes}
    if not node_name:
        known |= {event.spec.binding_node: None for event in events if event.spec.binding_node not in known}
    now = client.clock.now()
    if not node_name:
        notes.extend(_leases_without_node(leases, known, now))
    summaries = [
        NodeSummary(
            node=overview(
                name,
                node,
                [event for event in events if event.spec.binding_node == name],
                transitions={transition.name: transition for transition in transitions},
                lease=leases.get(name),
                now=now,
                record=records.get(name),
            ),
            platform=_platform(node, platforms),
        )
        for name, node in sorted(known.items())
    ]
    return ClusterStatus(now=now, nodes=tuple(summaries), notes=tuple(notes))


async def _list(client: Client, kind: type[_O], notes: list[str], *, namespace: str | None = None) -> list[_O]:
    try:
        return list((await client.of(kind).list_all(namespace=namespace)).items)
    except api_errors.NotFound:
        note = await _why_missing(client, kind)
    except api_errors.Forbidden as error:
        note = f"not shown: {error}"
    if note and note not in notes:
        notes.append(note)
    return []


async def _why_missing(client: Client, kind: type[KubeObject]) -> str:
    group = client.of(kind).resource.gvr.group
    served = await lifecyclegroup.served_groups(client)
    if group in served:
        return f"this cluster has no {kind.__name__} in {group}: apply the output of fairlead install of this version"
    # That no group is served was noted when the group was discovered.
    return lifecyclegroup.explain_absence(group, served)


def _leases_without_node(leases: Mapping[str, Lease], known: Collection[str], now: dt.datetime) -> Iterator[str]:
    for name, lease in sorted(leases.items()):
        claimant = claimant_of(lease, now)
        if name not in known and claimant is not None and claimant.is_alive:
            yield f"{claimant.holder} holds the Lease of {name}, which is no node; check the agent's --node-name"


def _platform(node: Node | None, platforms: Collection[str]) -> Platform:
    if node is None:
        return Platform()
    said_by = ""
    if node.spec.provider_id:
        said_by = "providerID"
    elif ANNOTATION_PLATFORM in node.metadata.annotations:
        said_by = "annotation"
    judged = ownership.ownership(node, platforms).value if platforms else ""
    return Platform(name=ownership.platform_of(node), said_by=said_by, ownership=judged)
