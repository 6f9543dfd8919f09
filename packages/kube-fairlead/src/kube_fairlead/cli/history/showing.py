"""Records of nodes: read, and shown as a table, as a page about one node, and as data."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import NodeLifecycleRecord, PodOutcome, RequesterSource
from kube_fairlead.api.time import format_time
from kube_fairlead.api.yamltext import writing
from kube_fairlead.cli.status.showing import aligned, cut, plain, progress, span
from kube_fairlead.client.client import Client
from kube_fairlead.lifecycle.overview import Recorded, recorded

__all__ = ["History", "NodeHistory", "as_json", "as_page", "as_table", "as_yaml", "look"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeHistory:
    """What was done to the nodes of one name, newest first."""

    name: str
    recorded: tuple[Recorded, ...]
    dropped_entries: int = 0  # older ones that are not kept


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All that was asked for."""

    nodes: tuple[NodeHistory, ...]


async def look(client: Client, node_name: str) -> History:
    """Read the record of one node, or all.

    Raises:
        NotFound: there is neither such a node nor a record of one.
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


def as_table(history: History) -> str:
    """One line per finished event, newest first."""
    lines = [(one, node.name) for node in history.nodes for one in node.recorded]
    if not lines:
        return "No finished events are recorded.\n"
    long_ago = dt.datetime.min.replace(tzinfo=dt.UTC)
    lines.sort(key=lambda line: (line[0].completed or long_ago, line[1]), reverse=True)
    rows = [["COMPLETED", "NODE", "TRANSITION", "RESULT", "REQUESTED BY", "TOOK", "PROGRESS", "MESSAGE"]]
    for one, name in lines:
        rows.append(
            [
                "" if one.completed is None else format_time(one.completed),
                f"{name} (earlier)" if one.is_of_earlier_node else name,
                one.transition,
                one.result,
                _requester(one),
                _took(one),
                progress(one),
                cut(one.message),
            ]
        )
    return aligned(rows)


def as_page(history: History) -> str:
    """Everything about one node."""
    return "\n".join(line for node in history.nodes for line in _page(node)) + "\n"


def as_json(history: History) -> str:
    """All of it, for programs."""
    return json.dumps(_data(history), indent=2) + "\n"


def as_yaml(history: History) -> str:
    """All of it, for programs and people."""
    return writing.write(_data(history))


def _page(node: NodeHistory) -> Iterator[str]:
    yield f"Node:       {node.name}"
    if not node.recorded:
        yield "Recorded:   nothing yet"
    for one in node.recorded:
        yield ""
        yield f"{one.result + ':':<12}{one.transition} ({one.event})"
        if one.is_of_earlier_node:
            yield f"  Node:         an earlier one of this name, uid {one.node_uid}"
        if requester := _requester(one):
            yield f"  Requested by: {requester}"
        for title, moment in (("Requested", one.requested), ("Claimed", one.claimed), ("Completed", one.completed)):
            if moment is not None:
                yield f"  {title + ':':<14}{format_time(moment)}"
        if took := _took(one):
            yield f"  Took:         {took}"
        if one.message:
            yield f"  Message:      {one.message}"
        if counted := progress(one):
            yield f"  Progress:     {counted}"
        for pod in one.pods:
            yield f"  Pod:          {_pod(pod)}"
        if one.pods_omitted:
            yield f"                {one.pods_omitted} more pods are not kept"
    if node.dropped_entries:
        yield ""
        yield f"{node.dropped_entries} older entries are not kept."


def _pod(pod: PodOutcome) -> str:
    name = f"{pod.namespace}/{pod.name}" if pod.namespace else pod.name
    times = "1 attempt" if pod.attempts == 1 else f"{pod.attempts} attempts"
    blocked = f"; blocked {pod.blocked_by}" if pod.blocked_by else ""
    return f"{name} (uid {pod.uid}): {pod.state or 'unknown'}, {times}{blocked}"


def _requester(one: Recorded) -> str:
    is_program = one.requester_source == RequesterSource.FIELD_MANAGER
    return f"{one.requested_by} (program)" if is_program else one.requested_by


def _took(one: Recorded) -> str:
    since = one.claimed or one.requested
    return span(one.completed - since) if one.completed is not None and since is not None else ""


def _data(history: History) -> dict[str, Any]:
    return {"nodes": [plain(node) for node in history.nodes]}
