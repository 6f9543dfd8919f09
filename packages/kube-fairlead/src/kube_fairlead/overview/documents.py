"""Status and history as plain data, for JSON and YAML. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

from kube_fairlead.api import wire
from kube_fairlead.api.parts import Part
from kube_fairlead.api.time import format_time
from kube_fairlead.overview.cluster_status import ClusterStatus
from kube_fairlead.overview.node_history import History

__all__ = ["history_document", "status_document"]


def status_document(status: ClusterStatus) -> dict[str, Any]:
    """The state of nodes as plain data."""
    return {
        "time": format_time(status.now),
        "nodes": [_plain(summary.node) | {"platform": _plain(summary.platform)} for summary in status.nodes],
    }


def history_document(history: History) -> dict[str, Any]:
    """The history of nodes as plain data."""
    return {"nodes": [_plain(node) for node in history.nodes]}


def _plain(value: Any) -> Any:
    """Keys and times in Kubernetes' spelling, lengths of time in seconds."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {_camel(field.name): _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Part):
        return wire.to_dict(value)
    if isinstance(value, dt.datetime):
        return format_time(value)
    if isinstance(value, dt.timedelta):
        return int(value.total_seconds())
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value


def _camel(name: str) -> str:
    # A length of time names its unit; JSON keys have no `is_`.
    name = {"left": "left_seconds"}.get(name, name.removeprefix("is_"))
    first, *rest = name.split("_")
    return first + "".join("UID" if part == "uid" else part.capitalize() for part in rest)
