"""additionalPrinterColumns: the columns and cells of a Table of custom resources.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/registry/customresource/tableconvertor/tableconvertor.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/duration/duration.go
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from kube_fairlead.api import time
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver import jsonpath

__all__ = ["Columns", "human_duration"]


_NAME_DESCRIPTION = "What the object is called, once in its namespace."
_NAME = {"name": "Name", "type": "string", "format": "name", "description": _NAME_DESCRIPTION, "priority": 0}
# The columns of a CRD that defines none.
_AGE = {
    "name": "Age",
    "type": "date",
    "description": "How long ago the object was created.",
    "jsonPath": ".metadata.creationTimestamp",
}
_MANY_COLUMNS = 64


class Columns:
    """The compiled columns of one version. If a path is malformed, only the name is printed, as in Kubernetes."""

    __slots__ = ("_paths", "definitions")

    def __init__(self, columns: Sequence[Json]) -> None:
        chosen = list(columns) or [_AGE]
        self._paths: list[tuple[str, jsonpath.JsonPath]] = []
        self.definitions: list[Json] = [_NAME]
        for column in chosen:
            path = column.get("jsonPath", "")
            try:
                compiled = jsonpath.compile_jsonpath(path)
            except jsonpath.JsonPathError:
                return
            self._paths.append((column.get("type", ""), compiled))
            self.definitions.append(
                {
                    "name": column.get("name", ""),
                    "type": column.get("type", ""),
                    "format": column.get("format", ""),
                    "description": column.get("description")
                    or f"Custom resource definition column (in JSONPath format): {path}",
                    "priority": column.get("priority", 0),
                }
            )

    @property
    def is_costly(self) -> bool:
        """Whether a row may take milliseconds, however small its object is."""
        return len(self._paths) > _MANY_COLUMNS or any(path.is_costly for _, path in self._paths)

    def cells(self, obj: Json, now: dt.datetime) -> list[Any]:
        """Return one row; ages are relative to ``now``."""
        row: list[Any] = [obj.get("metadata", {}).get("name", "")]
        budget = jsonpath.Budget(obj)
        for kind, path in self._paths:
            try:
                found = path.find(obj, budget)
            except jsonpath.JsonPathError:
                found = []
            row.append(_cell(kind, found[0], now) if found else None)
        return row


def _cell(kind: str, value: Any, now: dt.datetime) -> Any:
    if kind == "string":
        return jsonpath.print_value(value)
    is_number = value.__class__ is int or value.__class__ is float
    if kind == "integer" and is_number:
        return int(value)
    if kind == "number" and is_number:
        return float(value)
    if kind == "boolean" and value.__class__ is bool:
        return value
    if kind == "date" and value.__class__ is str:
        return _age(value, now)
    return None


def _age(text: str, now: dt.datetime) -> str:
    if text in {"", "null"}:
        return "<unknown>"
    try:
        moment = time.parse_time(text)
    except ValueError:
        return "<invalid>"
    return human_duration(now - moment)


def human_duration(duration: dt.timedelta) -> str:
    """Format a duration with the two or three figures of kubectl: 5m30s, 3h, 12d."""
    seconds = int(duration.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"
