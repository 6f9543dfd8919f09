"""The answer as a table, as a page about one node, and as data. Pure: text from what was seen."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from kube_fairlead.api import wire
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus
from kube_fairlead.api.parts import Part
from kube_fairlead.api.time import format_time
from kube_fairlead.api.yamltext import writing
from kube_fairlead.cli.status.looking import Platform, Seen, Sight
from kube_fairlead.lifecycle.overview import EventOverview, NodeOverview, Recorded

__all__ = ["aligned", "as_json", "as_page", "as_table", "as_yaml", "cut", "plain", "progress", "span"]

_NOTHING = "-"
_WORDS_WIDTH: Final = 80
# A claimant is `<name>_<uuid>`; the uuid tells its machines apart, and no reader of a table does.
_UUID: Final = re.compile(r"_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def as_table(sight: Sight) -> str:
    """One line per node."""
    if not sight.nodes:
        return "There are no nodes.\n"
    has_ownership = any(seen.platform.ownership for seen in sight.nodes)
    head = ["NODE", "STATE", "EVENT", "DRIVER", "HELD BY", "FOR", "LEFT", "CORDONED BY", "PLATFORM"]
    head += ["OWNERSHIP"] if has_ownership else []
    rows = [[*head, "DETAIL"]]
    for seen in sight.nodes:
        node, event = seen.node, _foremost(seen.node)
        since = event.since if event is not None else node.state_since
        row = [
            node.name,
            _state(node),
            f"{event.name} ({event.status})" if event is not None else "",
            event.driver if event is not None else "",
            _holder(node, event),
            span(sight.now - since) if since is not None else "",
            _left(event),
            _cordon(node),
            _platform(seen.platform),
        ]
        row += [seen.platform.ownership] if has_ownership else []
        rows.append([*row, _detail(node, event, sight.now)])
    return aligned(rows)


def as_page(sight: Sight) -> str:
    """Everything about one node."""
    return "\n".join("\n".join(_page(seen, sight.now)) for seen in sight.nodes) + "\n"


def as_json(sight: Sight) -> str:
    """All of it, for programs."""
    return json.dumps(_data(sight), indent=2) + "\n"


def as_yaml(sight: Sight) -> str:
    """All of it, for programs and people."""
    return writing.write(_data(sight))


def span(length: dt.timedelta) -> str:
    """A length of time as kubectl shows ages: 42s, 3m5s, 2h, 5d."""
    seconds = int(length.total_seconds())
    if seconds < 0:
        return f"-{span(-length)}"
    if seconds < 120:
        return f"{seconds}s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes}m{seconds}s" if seconds else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"


def cut(words: str) -> str:
    """One line of a length that fits into a table."""
    line = " ".join(words.split())
    return line if len(line) <= _WORDS_WIDTH else line[: _WORDS_WIDTH - 3] + "..."


def _foremost(node: NodeOverview) -> EventOverview | None:
    """The event that a line is about: what is done, else what comes next, else what was last."""
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
    return f"fairlead ({node.cordoned_by})" if node.cordoned_by else "somebody else"


def _platform(platform: Platform) -> str:
    return platform.name or ("(malformed)" if platform.said_by else "")


def _holder(node: NodeOverview, event: EventOverview | None) -> str:
    """Who has claimed the event, else who holds the node's Lease and would."""
    if event is not None and event.claimed_by:
        return event.claimed_by
    return _UUID.sub("", node.claimant.holder) if node.claimant is not None else ""


def _detail(node: NodeOverview, event: EventOverview | None, now: dt.datetime) -> str:
    parts = [progress(event)] if event is not None else []
    if event is None and node.recorded:
        parts.append(cut(_last(node.recorded[0], now)))
    if event is not None:
        # Why it waits is seen from here, now. What the node's claimant wrote may be old, if nobody claims any more.
        parts.append(cut(event.waits_for if event in node.waiting else event.message or event.waits_for))
    if event is not None and event is node.current:
        parts.append(_silence(node, now))
    if len(node.waiting) > (event in node.waiting):
        parts.append(f"{len(node.waiting) - (event in node.waiting)} more waiting")
    return "; ".join(part for part in parts if part)


def _last(last: Recorded, now: dt.datetime) -> str:
    when = f" {span(now - last.completed)} ago" if last.completed is not None else ""
    why = f": {last.message}" if last.message else ""
    return f"last: {last.transition} {last.result}{when}{why}"


def _silence(node: NodeOverview, now: dt.datetime) -> str:
    claimant = node.claimant
    if claimant is None:
        return "nobody holds the node's Lease"
    if claimant.is_alive or claimant.renewed is None:
        return ""
    return f"its claimant is silent for {span(now - claimant.renewed)}"


def progress(event: EventOverview | Recorded) -> str:
    """How far it has come; empty when the driver did not say."""
    return "" if event.total is None else f"{event.done}/{event.total} {event.unit}".rstrip()


def _page(seen: Seen, now: dt.datetime) -> Iterator[str]:
    node = seen.node
    yield f"Node:       {node.name}"
    state = node.state or "in no transition"
    since = f", for {span(now - node.state_since)}" if node.state_since is not None else ""
    yield f"State:      {state}{since}"
    if node.state_message:
        yield f"            {node.state_message}"
    yield f"Ready:      {node.ready or 'unknown'}"
    yield f"Cordoned:   {'by ' + _cordon(node) if node.is_cordoned else 'no'}"
    said = f" (by its {seen.platform.said_by})" if seen.platform.said_by else ""
    owned = f", {seen.platform.ownership}" if seen.platform.ownership else ""
    yield f"Platform:   {_platform(seen.platform) or 'not said'}{said}{owned}"
    claimant = node.claimant
    if claimant is None:
        yield "Claimant:   nobody holds the node's Lease"
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
        # It ends in the driver's own words, which may be a long list of pods.
        waits_for = waits_for.removesuffix(event.message).removesuffix("; ")
    if waits_for:
        yield f"  Waits for:  {waits_for}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    shown = [[cell or _NOTHING for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in shown) for column in range(len(shown[0]))]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown)
    return "\n".join(lines) + "\n"


def _data(sight: Sight) -> dict[str, Any]:
    return {
        "time": format_time(sight.now),
        "nodes": [plain(seen.node) | {"platform": plain(seen.platform)} for seen in sight.nodes],
    }


def plain(value: Any) -> Any:
    """As JSON: keys in Kubernetes' spelling, times as it writes them, lengths of time in seconds."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {_camel(field.name): plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Part):
        return wire.to_dict(value)
    if isinstance(value, dt.datetime):
        return format_time(value)
    if isinstance(value, dt.timedelta):
        return int(value.total_seconds())
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    return value


def _camel(name: str) -> str:
    # A length of time says its unit; `is_` is how Python asks, not how JSON says.
    name = {"left": "left_seconds"}.get(name, name.removeprefix("is_"))
    first, *rest = name.split("_")
    return first + "".join("UID" if part == "uid" else part.capitalize() for part in rest)
