"""events.k8s.io/v1: the newer form of Events.

Upstream: k8s.io/api@v0.36.4/events/v1/types.go
"""

from __future__ import annotations

from kube_fairlead.api.core_v1 import EventSource, ObjectReference
from kube_fairlead.api.meta import KubeObject
from kube_fairlead.api.parts import MicroTime, Part, Time, always

__all__ = ["Event", "EventSeries"]


class EventSeries(Part):
    """How often the same was said."""

    count: int = always(0)
    last_observed_time: MicroTime | None = None


class Event(KubeObject):
    """One thing that happened to one object, or the same thing many times."""

    api_version: str = always("events.k8s.io/v1")
    kind: str = always("Event")
    event_time: MicroTime | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
    deprecated_source: EventSource = EventSource()
    deprecated_first_timestamp: Time | None = None
    deprecated_last_timestamp: Time | None = None
    deprecated_count: int = 0
