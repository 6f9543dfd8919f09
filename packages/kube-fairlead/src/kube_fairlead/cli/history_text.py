"""The history of nodes as a table, as a page about one node, and as JSON or YAML. Pure."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator

from kube_fairlead.api.lifecycle_v1alpha1 import PodOutcome, RequesterSource
from kube_fairlead.api.time import format_time
from kube_fairlead.api.yamltext import emitter
from kube_fairlead.cli.text_tables import aligned, cut, progress, span
from kube_fairlead.lifecycle.node_overview import RecordedEvent
from kube_fairlead.overview.documents import history_document
from kube_fairlead.overview.node_history import History, NodeHistory

__all__ = ["as_json", "as_page", "as_table", "as_yaml"]


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
    """Everything, as JSON."""
    return json.dumps(history_document(history), indent=2) + "\n"


def as_yaml(history: History) -> str:
    """Everything, as YAML."""
    return emitter.write(history_document(history))


def _page(node: NodeHistory) -> Iterator[str]:
    yield f"Node:       {node.name}"
    if not node.recorded:
        yield "Recorded:   nothing yet"
    for one in node.recorded:
        yield ""
        yield f"{one.result + ':':<12}{one.transition} ({one.event})"
        if one.is_of_earlier_node:
            yield f"  Node:         an earlier node of this name, uid {one.node_uid}"
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
            yield f"                {one.pods_omitted} more pods were dropped"
    if node.dropped_entries:
        yield ""
        yield f"{node.dropped_entries} older entries were dropped."


def _pod(pod: PodOutcome) -> str:
    name = f"{pod.namespace}/{pod.name}" if pod.namespace else pod.name
    times = "1 attempt" if pod.attempts == 1 else f"{pod.attempts} attempts"
    blocked = f"; blocked {pod.blocked_by}" if pod.blocked_by else ""
    return f"{name} (uid {pod.uid}): {pod.state or 'unknown'}, {times}{blocked}"


def _requester(one: RecordedEvent) -> str:
    is_program = one.requester_source == RequesterSource.FIELD_MANAGER
    return f"{one.requested_by} (program)" if is_program else one.requested_by


def _took(one: RecordedEvent) -> str:
    since = one.claimed or one.requested
    return span(one.completed - since) if one.completed is not None and since is not None else ""
