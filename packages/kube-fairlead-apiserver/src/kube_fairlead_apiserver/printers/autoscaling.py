"""Prints the targets of an autoscaler: current value over target value, for each metric.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/printers/internalversion/printers.go
"""

from __future__ import annotations

from collections.abc import Sequence

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.printers.columns import NONE, UNKNOWN, dig, quantity_text

__all__ = ["metrics_text"]

_MOST = 2
_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}


def metrics_text(specs: Sequence[Json], statuses: Sequence[Json]) -> str:
    """Return the first two metrics, and how many more there are."""
    if not specs:
        return NONE
    texts = [_metric(spec, statuses[i] if i < len(statuses) else {}) for i, spec in enumerate(specs)]
    shown = ", ".join(texts[:_MOST])
    return f"{shown} + {len(texts) - _MOST} more..." if len(texts) > _MOST else shown


def _metric(spec: Json, status: Json) -> str:
    source = _SOURCES.get(spec.get("type", ""))
    if source is None:
        return "<unknown type>"
    wanted = dig(spec, source, "target", default={})
    known = dig(status, source)
    current = dig(status, source, "current", default={})
    if source in {"external", "object"}:
        return _value(wanted, current, known=known is not None)
    if source == "pods":
        average = quantity_text(current.get("averageValue")) if known is not None else UNKNOWN
        return f"{average}/{quantity_text(wanted.get('averageValue'))}"
    name = dig(spec, source, "name", default="")
    if wanted.get("averageValue") is not None:
        average = quantity_text(current.get("averageValue")) if known is not None else UNKNOWN
        return f"{name}: {average}/{quantity_text(wanted['averageValue'])}"
    used, target = current.get("averageUtilization"), wanted.get("averageUtilization")
    return f"{name}: {UNKNOWN if used is None else f'{used}%'}/{'<auto>' if target is None else f'{target}%'}"


def _value(wanted: Json, current: Json, *, known: bool) -> str:
    if wanted.get("averageValue") is not None:
        average = current.get("averageValue")
        shown = UNKNOWN if average is None else quantity_text(average)
        return f"{shown}/{quantity_text(wanted['averageValue'])} (avg)"
    shown = quantity_text(current.get("value")) if known else UNKNOWN
    return f"{shown}/{quantity_text(wanted.get('value'))}"
