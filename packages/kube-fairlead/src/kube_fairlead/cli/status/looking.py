"""What the API server says about nodes, put together."""

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
from kube_fairlead.lifecycle.overview import NodeOverview, claimant_of, overview

__all__ = ["Platform", "Seen", "Sight", "look"]

_O = TypeVar("_O", bound=KubeObject)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Which cloud a node says it runs on, by what, and what it is to the managers that were asked about."""

    name: str = ""
    said_by: str = ""  # providerID, annotation, or empty
    ownership: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One node."""

    node: NodeOverview
    platform: Platform


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """All of them, of one moment, and what could not be seen."""

    now: dt.datetime
    nodes: tuple[Seen, ...]
    notes: tuple[str, ...] = ()


async def look(client: Client, node_name: str, platforms: Collection[str], *, group: str = "") -> Sight:
    """Ask the API server about one node, or about all.

    `group`: where the lifecycle kinds are; empty: as the server says. Without them nodes are still worth seeing.

    Raises:
        NotFound: there is no node of that name.
    """
    notes: list[str] = []
    try:
        client = await lifecyclegroup.discovered(client, group)
    except lifecyclegroup.GroupUnknown as error:
        notes.append(str(error))
    nodes = [await client.of(Node).get(node_name)] if node_name else (await client.of(Node).list_all()).items
    # Some servers cannot select by the field; what is too much is left out below.
    events = await _list(client, LifecycleEvent, notes)
    transitions = await _list(client, LifecycleTransition, notes)
    records = {record.name: record for record in await _list(client, NodeLifecycleRecord, notes)}
    leases = {lease.name: lease for lease in await _list(client, Lease, notes, namespace=NAMESPACE_NODE_LEASE)}
    known: dict[str, Node | None] = {node.name: node for node in nodes}
    if not node_name:
        known |= {event.spec.binding_node: None for event in events if event.spec.binding_node not in known}
    now = client.clock.now()
    if not node_name:
        notes.extend(_waiting_in_vain(leases, known, now))
    seen = [
        Seen(
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
    return Sight(now=now, nodes=tuple(seen), notes=tuple(notes))


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
        return f"this cluster has no {kind.__name__} in {group}: apply what fairlead install of this version prints"
    # What is not there at all was noted when it was looked for.
    return lifecyclegroup.explain_absence(group, served)


def _waiting_in_vain(leases: Mapping[str, Lease], known: Collection[str], now: dt.datetime) -> Iterator[str]:
    for name, lease in sorted(leases.items()):
        claimant = claimant_of(lease, now)
        if name not in known and claimant is not None and claimant.is_alive:
            yield f"{claimant.holder} waits for node {name}, which does not exist; is the agent's --node-name right?"


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
