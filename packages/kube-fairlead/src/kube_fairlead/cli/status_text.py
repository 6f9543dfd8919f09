"""The state of nodes as a table, as a page about one node, and as JSON or YAML. Pure."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from typing import Final

from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus
from kube_fairlead.api.time import format_time
from kube_fairlead.api.yamltext import emitter
from kube_fairlead.cli.text_tables import aligned, cut, progress, span
from kube_fairlead.lifecycle.node_overview import EventOverview, NodeOverview, RecordedEvent
from kube_fairlead.overview.cluster_status import ClusterStatus, NodeSummary, Platform
from kube_fairlead.overview.documents import status_document

__all__ = ["as_json", "as_page", "as_table", "as_yaml"]

# A claimant is `<name>_<uuid>`; the uuid distinguishes its restarts, which a table does not show.
_UUID: Final = re.compile(r"_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def as_table(status: ClusterStatus) -> str:
    """One line per node."""
    if not status.nodes:
        return "There are no nodes.\n"
    has_ownership = any(summary.platform.ownership for summary in status.nodes)
    head = ["NODE", "STATE", "EVENT", "DRIVER", "HELD BY", "FOR", "LEFT", "CORDONED BY", "PLATFORM"]
    head += ["OWNERSHIP"] if has_ownership else []
    rows = [[*head, "DETAIL"]]
    for summary in status.nodes:
        node, event = summary.node, _foremost(summary.node)
        since = event.since if event is not None else node.state_since
        row = [
            node.name,
            _state(node),
            f"{event.name} ({event.status})" if event is not None else "",
            event.driver if event is not None else "",
            _holder(node, event),
            span(status.now - since) if since is not None else "",
            _left(event),
            _cordon(node),
            _platform(summary.platform),
        ]
        row += [summary.platform.ownership] if has_ownership else []
        rows.append([*row, _detail(node, event, status.now)])
    return aligned(rows)


def as_page(status: ClusterStatus) -> str:
    """Everything about one node."""
    return "\n".join("\n".join(_page(summary, status.now)) for summary in status.nodes) + "\n"


def as_json(status: ClusterStatus) -> str:
    """Everything, as JSON."""
    return json.dumps(status_document(status), indent=2) + "\n"


def as_yaml(status: ClusterStatus) -> str:
    """Everything, as YAML."""
    return emitter.write(status_document(status))


def _foremost(node: NodeOverview) -> EventOverview | None:
    """The event that a row shows: the claimed one, else the next one, else the last one."""
    last = node.finished[-1] if node.finished else None
    return node.current or (node.waiting[0] if node.waiting else last)


def _state(node: NodeOverview) -> str:
    return node.state if node.exists else "(no such node)"


def _left(event: EventOverview | None) -> str:
    if event is None or event.left is None:
        return ""
    return span(event.left) if event.left > dt.timedelta(0) else f"{span(-event.left)} late"


def _cordon(node: NodeOverview) -> str:
    if not node.is_cordoned:
        return ""
    return f"fairlead ({node.cordoned_by})" if node.cordoned_by else "another user"


def _platform(platform: Platform) -> str:
    return platform.name or ("(malformed)" if platform.said_by else "")


def _holder(node: NodeOverview, event: EventOverview | None) -> str:
    """The claimant of the event, else the holder of the node's Lease."""
    if event is not None and event.claimed_by:
        return event.claimed_by
    return _UUID.sub("", node.claimant.holder) if node.claimant is not None else ""


def _detail(node: NodeOverview, event: EventOverview | None, now: dt.datetime) -> str:
    parts = [progress(event)] if event is not None else []
    if event is None and node.recorded:
        parts.append(cut(_last(node.recorded[0], now)))
    if event is not None:
        # `waits_for` is computed now. The claimant's message may be old if the claimant has stopped.
        parts.append(cut(event.waits_for if event in node.waiting else event.message or event.waits_for))
    if event is not None and event is node.current:
        parts.append(_silence(node, now))
    if len(node.waiting) > (event in node.waiting):
        parts.append(f"{len(node.waiting) - (event in node.waiting)} more waiting")
    return "; ".join(part for part in parts if part)


def _last(last: RecordedEvent, now: dt.datetime) -> str:
    when = f" {span(now - last.completed)} ago" if last.completed is not None else ""
    why = f": {last.message}" if last.message else ""
    return f"last: {last.transition} {last.result}{when}{why}"


def _silence(node: NodeOverview, now: dt.datetime) -> str:
    claimant = node.claimant
    if claimant is None:
        return "the node's Lease has no holder"
    if claimant.is_alive or claimant.renewed is None:
        return ""
    return f"its claimant has not renewed the Lease for {span(now - claimant.renewed)}"


def _page(summary: NodeSummary, now: dt.datetime) -> Iterator[str]:
    node = summary.node
    yield f"Node:       {node.name}"
    state = node.state or "in no transition"
    since = f", for {span(now - node.state_since)}" if node.state_since is not None else ""
    yield f"State:      {state}{since}"
    if node.state_message:
        yield f"            {node.state_message}"
    yield f"Ready:      {node.ready or 'unknown'}"
    yield f"Cordoned:   {'by ' + _cordon(node) if node.is_cordoned else 'no'}"
    source = f" (by its {summary.platform.said_by})" if summary.platform.said_by else ""
    owned = f", {summary.platform.ownership}" if summary.platform.ownership else ""
    yield f"Platform:   {_platform(summary.platform) or 'unknown'}{source}{owned}"
    claimant = node.claimant
    if claimant is None:
        yield "Claimant:   none, the node's Lease has no holder"
    else:
        silence = _silence(node, now)
        yield f"Claimant:   {claimant.holder}{f' ({silence})' if silence else ''}"
    if node.current is None and not node.waiting and not node.finished:
        yield "Events:     none"
    for title, events in (
        ("Current", [node.current] if node.current else []),
        ("Waiting", node.waiting),
        ("Finished", node.finished),
    ):
        for event in events:
            yield ""
            yield from _event_lines(title, event, now)
    if node.recorded:
        yield ""
        yield f"Recorded:   {_last(node.recorded[0], now).removeprefix('last: ')}"
        more = len(node.recorded) - 1
        yield f"            {f'and {more} more; ' if more else ''}fairlead history {node.name} shows all"


def _event_lines(title: str, event: EventOverview, now: dt.datetime) -> Iterator[str]:
    yield f"{title + ':':<12}{event.name}"
    since = f", for {span(now - event.since)}" if event.since is not None else ""
    yield f"  Status:     {event.status}{since}{', being deleted' if event.deleting else ''}"
    yield f"  Transition: {event.transition}" + (f" ({event.start} -> {event.end})" if event.start else "")
    yield f"  Driver:     {event.driver or 'unknown'}"
    if event.claimed_by:
        yield f"  Claimed by: {event.claimed_by}"
    if event.deadline is not None:
        left = f" ({_left(event)}{' left' if event.left > dt.timedelta(0) else ''})" if event.left is not None else ""
        yield f"  Deadline:   {format_time(event.deadline)}{left}"
    if progress(event):
        yield f"  Progress:   {progress(event)}"
    waits_for = event.waits_for
    if event.message and not (waits_for and event.status == ClaimStatus.PENDING):
        yield f"  Message:    {event.message}"
        # It ends with the driver's message, which may be a long list of pods.
        waits_for = waits_for.removesuffix(event.message).removesuffix("; ")
    if waits_for:
        yield f"  Waits for:  {waits_for}"
