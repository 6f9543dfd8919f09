"""Conversion of Events between v1, which is stored, and events.k8s.io/v1. Only field names differ.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/events/v1/conversion.go
"""

from __future__ import annotations

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.registry.resource import Conversion

__all__ = ["EVENT_CONVERSION", "EVENT_FIELD_ALIASES"]

# events.k8s.io/v1 name -> v1 name
_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


def _rename(obj: Json, names: dict[str, str]) -> None:
    for name, other in names.items():
        if name in obj:
            obj[other] = obj.pop(name)


def _to_stored(obj: Json) -> None:
    _rename(obj, _NAMES)


def _to_served(obj: Json) -> None:
    _rename(obj, {other: name for name, other in _NAMES.items()})


# Field selectors of events.k8s.io/v1 and their names in the stored form.
EVENT_FIELD_ALIASES = {
    f"regarding.{field}": f"involvedObject.{field}"
    for field in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
} | {"reportingController": "reportingComponent"}
EVENT_CONVERSION = Conversion(_to_stored, _to_served)
