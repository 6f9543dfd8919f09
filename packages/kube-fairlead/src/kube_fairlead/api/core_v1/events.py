"""Events: what components report about objects.

Upstream: k8s.io/api@v0.36.4/core/v1/types.go
"""

from __future__ import annotations

from kube_fairlead.api.core_v1.references import ObjectReference
from kube_fairlead.api.meta import KubeObject
from kube_fairlead.api.parts import MicroTime, Part, Time, always

__all__ = ["Event", "EventSeries", "EventSource"]


class EventSource(Part):
    """Which component spoke, on which node."""

    component: str = ""
    host: str = ""


class EventSeries(Part):
    """How often the same was said."""

    count: int = 0
    last_observed_time: MicroTime | None = None


class Event(KubeObject):
    """One thing that happened to one object, or the same thing many times."""

    api_version: str = always("v1")
    kind: str = always("Event")
    involved_object: ObjectReference = always(ObjectReference())
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    count: int = 0
    type: str = ""
    event_time: MicroTime | None = None
    series: EventSeries | None = None
    action: str = ""
    related: ObjectReference | None = None
    reporting_component: str = always("")
    reporting_instance: str = always("")
