"""Events. Stored once, served under two groups; the newer group has stricter rules.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/core/validation/events.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/event/strategy.go
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.registry.event_conversion import EVENT_CONVERSION
from kube_fairlead_apiserver.registry.strategies import field_checks
from kube_fairlead_apiserver.registry.strategy import Strategy

__all__ = ["EventStrategy", "GroupEventStrategy"]

_ABOUT: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_MAX_CHARACTERS: Final = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_TYPES: Final = ("Normal", "Warning")
# What only the older group writes.
_UNSET: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
# Immutable fields: only the series changes. Named as in the older group in both groups.
_FIXED: Final = (
    "involvedObject",
    "reason",
    "message",
    *("source", "firstTimestamp", "lastTimestamp", "count"),
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)


class EventStrategy(Strategy):
    """v1 Event."""

    allow_create_on_update: bool = True
    name_rule: Callable[..., list[str]] = staticmethod(names.name_is_path_segment)
    selectable = frozenset({f"involvedObject.{field}" for field in _ABOUT}) | {
        "reason",
        "reportingComponent",
        "source",
        "type",
    }
    # The name of the reporter field in this group.
    reporter: ClassVar[str] = "reportingComponent"

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate: the namespace is that of the object; with an eventTime, reporter, reason and action."""
        return _validate_namespace(obj) + (_validate_report(obj, self.reporter) if obj.get("eventTime") else [])

    def fields(self, obj: Json) -> dict[str, str]:
        """Return the selectable fields, which `kubectl describe` uses. From the stored form."""
        about = obj.get("involvedObject") or {}
        found = {f"involvedObject.{field}": str(about.get(field) or "") for field in _ABOUT}
        source = (obj.get("source") or {}).get("component") or obj.get("reportingComponent") or ""
        return {
            **found,
            "reason": obj.get("reason") or "",
            "reportingComponent": obj.get("reportingComponent") or "",
            "source": source,
            "type": obj.get("type") or "",
        }


class GroupEventStrategy(EventStrategy):
    """events.k8s.io/v1 Event."""

    name_rule: Callable[..., list[str]] = staticmethod(names.name_is_dns_subdomain)
    reporter: ClassVar[str] = "reportingController"

    def validate(self, obj: Json) -> list[FieldError]:
        """Validate a new event: eventTime and type, and no deprecated fields."""
        event = _as_stored(obj)
        problems = super().validate(event) + _validate_series(event)
        if not event.get("eventTime"):
            problems.append(FieldError.required(FieldPath("eventTime"), ""))
        if event.get("type") not in _TYPES:
            problems.append(FieldError.invalid(FieldPath("type"), "", f"has invalid value: {event.get('type') or ''}"))
        return problems + [
            FieldError.invalid(FieldPath(field), "", "needs to be unset") for field in _UNSET if event.get(field)
        ]

    def validate_update(self, obj: Json, old: Json) -> list[FieldError]:
        """Validate a change: deprecated fields may stay, and the immutable fields do not change."""
        event, before = _as_stored(obj), _as_stored(old)
        problems = super().validate(event)
        if event.get("series") != before.get("series"):
            problems += _validate_series(event)
        return problems + [
            FieldError.invalid(
                FieldPath(self.reporter if field == "reportingComponent" else field),
                event.get(field),
                "field is immutable",
            )
            for field in _FIXED
            if (event.get(field) or None) != (before.get(field) or None)
        ]


def _as_stored(obj: Json) -> Json:
    event = dict(obj)
    EVENT_CONVERSION.to_stored(event)
    return event


def _validate_namespace(event: Json) -> list[FieldError]:
    """The events of a cluster-scoped object are in `default`."""
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    own = event["metadata"].get("namespace") or ""
    # The rules are weaker for an event with an eventTime.
    expected = {about or "default"} if not event.get("eventTime") else {"default", "kube-system"}
    if own in expected or (about and event.get("eventTime")):
        return []
    path = FieldPath("involvedObject", "namespace")
    return [FieldError.invalid(path, about, "does not match event.namespace")]


def _validate_report(event: Json, reporter: str) -> list[FieldError]:
    controller, path = event.get("reportingComponent") or "", FieldPath(reporter)
    problems = [] if controller else [FieldError.required(path, "")]
    problems += field_checks.complaints(path, controller, names.qualified_name(controller))
    for field, limit in _MAX_CHARACTERS.items():
        said = event.get(field) or ""
        if not said and field != "message":
            problems.append(FieldError.required(FieldPath(field), ""))
        if len(said.encode()) > limit:
            problems.append(FieldError.invalid(FieldPath(field), "", f"can have at most {limit} characters"))
    return problems


def _validate_series(event: Json) -> list[FieldError]:
    """Validate the series: a count of at least two."""
    series = event.get("series")
    if series is None:
        return []
    problems: list[FieldError] = []
    if (series.get("count") or 0) < 2:
        problems.append(FieldError.invalid(FieldPath("series.count"), "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        problems.append(FieldError.required(FieldPath("series.lastObservedTime"), ""))
    return problems
