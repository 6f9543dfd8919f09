"""An Event on the wire, in its two forms.

Upstream: k8s.io/client-go@v0.36.4/tools/events/event_recorder.go,
    k8s.io/client-go@v0.36.4/tools/record/event.go
"""

from __future__ import annotations

import dataclasses
from typing import Any

from kube_fairlead.api import time as api_time
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import ObjectReference
from kube_fairlead.client.eventseries import Series

__all__ = ["Source", "core_v1", "events_v1", "repetition"]

# The limits of the API, in bytes.
_NOTE_LIMIT = 1024
_WORD_LIMIT = 128


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The reporting component."""

    controller: str  # a qualified name, e.g. fairlead.dev/agent
    instance: str  # e.g. the node's name


def events_v1(series: Series, source: Source, namespace: str) -> dict[str, Any]:
    """events.k8s.io/v1."""
    occurrence = series.occurrence
    body: dict[str, Any] = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": series.name, "namespace": namespace},
        "eventTime": api_time.format_micro_time(series.first),
        "reportingController": source.controller,
        "reportingInstance": _cut(source.instance, _WORD_LIMIT),
        "action": _cut(occurrence.action, _WORD_LIMIT),
        "reason": _cut(occurrence.reason, _WORD_LIMIT),
        "regarding": _reference(occurrence.regarding),
        "note": _cut(occurrence.note, _NOTE_LIMIT),
        "type": occurrence.type,
    }
    if occurrence.related is not None:
        body["related"] = _reference(occurrence.related)
    if series.count > 1:
        body |= repetition(series, legacy=False)
    return body


def core_v1(series: Series, source: Source, namespace: str) -> dict[str, Any]:
    """v1, for servers and tools that know nothing newer."""
    occurrence = series.occurrence
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": series.name, "namespace": namespace},
        "involvedObject": _reference(occurrence.regarding),
        "reason": _cut(occurrence.reason, _WORD_LIMIT),
        "message": _cut(occurrence.note, _NOTE_LIMIT),
        "type": occurrence.type,
        "action": _cut(occurrence.action, _WORD_LIMIT),
        "source": {"component": source.controller, "host": source.instance},
        "firstTimestamp": api_time.format_time(series.first),
        "reportingComponent": source.controller,
        "reportingInstance": _cut(source.instance, _WORD_LIMIT),
    }
    if occurrence.related is not None:
        body["related"] = _reference(occurrence.related)
    return body | repetition(series, legacy=True)


def repetition(series: Series, *, legacy: bool) -> dict[str, Any]:
    """What changes when it happens again; the merge patch for an Event that exists."""
    if legacy:
        return {"count": series.count, "lastTimestamp": api_time.format_time(series.last)}
    last = api_time.format_micro_time(series.last)
    return {"series": {"count": series.count, "lastObservedTime": last}}


def _reference(reference: ObjectReference) -> dict[str, Any]:
    return wire.to_dict(reference)


def _cut(text: str, limit: int) -> str:
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[: limit - 3].decode(errors="ignore") + "..."
