"""The grace period of an object's deletion. Pure: the time is an argument.

Two kinds of API server keep a grace period in two ways:

- One that honours it (ours) keeps the deadline in ``deletionTimestamp`` and the seconds that were granted in
  ``deletionGracePeriodSeconds``. A plain delete leaves the seconds absent; 0 means a forced deletion.
- Stock Kubernetes stores 0 for every delete of a custom resource, whatever was requested. The request is in the
  annotations of `fairlead webhook`, where that runs. Without them nothing is known: least of all that it was forced.
  A note of an earlier delete request is ignored.

Most states are unambiguous: seconds above 0, or none at all, occur on ours only. A bare 0 cannot, and
there ``native`` decides, which `is_native` finds out once per server.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from typing import Any

from kube_fairlead.api.meta import KubeObject
from kube_fairlead.api.time import parse_time
from kube_fairlead.grace.notes import Note, read_note

__all__ = ["Grace", "Object", "deadline", "is_forced", "read", "remaining", "requested"]

Object = KubeObject | Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Grace:
    """What is known about the deletion of one object.

    Invariants:
    1. ``forced`` is True only when a request is known to have set no grace at all; None means unknown.
    2. ``deadline`` is None when no request set one (a plain delete) and when it is unknown: the controller's own
       default applies.
    """

    asked_at: dt.datetime  # when the deletion was requested, as far as known
    deadline: dt.datetime | None = None
    requested: int | None = None  # seconds, of the request that set the deadline
    forced: bool | None = None

    def deadline_or(self, default_seconds: float | None) -> dt.datetime | None:
        """The deadline that was named, else the controller's own default counted from the request."""
        if self.deadline is not None or default_seconds is None:
            return self.deadline
        return self.asked_at + dt.timedelta(seconds=default_seconds)


def read(item: Object, *, native: bool = False) -> Grace | None:
    """Everything that is known about an object's deletion; None before any delete request.

    Args:
        item: the object, typed or as a mapping.
        native: the API server is known to honour grace periods (`is_native`).
    """
    stamp, seconds, annotations = _deletion_of(item)
    if stamp is None:
        return None
    if seconds is None:
        return Grace(stamp, forced=False)
    if seconds > 0:
        return Grace(_earlier(stamp, seconds), stamp, seconds, forced=False)
    if native:
        return Grace(stamp, stamp, 0, forced=True)
    return _noted(stamp, read_note(annotations))


def requested(item: Object, *, native: bool = False) -> int | None:
    """The seconds that were granted last; None when none were named, when that is unknown, and before any deletion."""
    grace = read(item, native=native)
    return None if grace is None else grace.requested


def deadline(item: Object, *, native: bool = False, default_seconds: float | None = None) -> dt.datetime | None:
    """Until when clean-up may take. Where no deadline is known it is the default, counted from the request."""
    grace = read(item, native=native)
    return None if grace is None else grace.deadline_or(default_seconds)


def remaining(
    item: Object, now: dt.datetime, *, native: bool = False, default_seconds: float | None = None
) -> float | None:
    """Seconds until the deadline, 0 when it has passed; None when there is no deadline."""
    ends = deadline(item, native=native, default_seconds=default_seconds)
    return None if ends is None else max(0.0, (ends - now).total_seconds())


def is_forced(item: Object, *, native: bool = False) -> bool | None:
    """Whether the deletion was forced (no grace at all). None: unknown, so treat it as not forced."""
    grace = read(item, native=native)
    return False if grace is None else grace.forced


def _noted(stamp: dt.datetime, note: Note | None) -> Grace:
    """On stock Kubernetes: the stamp is the moment of the first request, the deadline is in the note."""
    if note is None or note.deadline is None or not note.belongs_to(stamp):
        return Grace(stamp)
    if note.requested is None:
        # Another program's note. Time was granted if it ends after the request; else it cannot be known.
        return Grace(stamp, note.deadline, forced=False if note.deadline > stamp else None)
    return Grace(stamp, note.deadline, note.requested, forced=note.requested == 0)


def _deletion_of(item: Object) -> tuple[dt.datetime | None, int | None, Mapping[str, str]]:
    if isinstance(item, KubeObject):
        known = item.metadata
        return known.deletion_timestamp, known.deletion_grace_period_seconds, known.annotations
    metadata: Mapping[str, Any] = item.get("metadata") or {}
    stamp = _time(metadata.get("deletionTimestamp"))
    return stamp, metadata.get("deletionGracePeriodSeconds"), metadata.get("annotations") or {}


def _earlier(moment: dt.datetime, seconds: int) -> dt.datetime:
    try:
        return moment - dt.timedelta(seconds=seconds)
    except OverflowError:  # a grace beyond the calendar
        return dt.datetime.min.replace(tzinfo=dt.UTC)


def _time(text: str | None) -> dt.datetime | None:
    try:
        return parse_time(text) if text else None
    except ValueError:  # a mapping may hold anything
        return None
