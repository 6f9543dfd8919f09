"""By when an event must be finished (invariant 4), and how long it may wait for its driver.

Times in the API are whole seconds. A deadline is rounded up, so that an SLA is never cut short by the rounding.
"""

from __future__ import annotations

import datetime as dt

from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleEventStatus

__all__ = ["deadline_after", "driver_wait_ends", "expired", "is_past", "whole_seconds"]

_SECOND = dt.timedelta(seconds=1)


def whole_seconds(moment: dt.datetime) -> dt.datetime:
    """A moment as the API stores it."""
    return moment.replace(microsecond=0)


def deadline_after(start: dt.datetime, length: dt.timedelta) -> dt.datetime:
    """The first whole second at which the whole length has passed. As late as can be said, where that is too late."""
    try:
        exact = start + length
        return whole_seconds(exact) if not exact.microsecond else whole_seconds(exact) + _SECOND
    except OverflowError:
        return dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)


def expired(status: LifecycleEventStatus, at: dt.datetime) -> bool:
    """Whether the deadline was there at that moment. Without an SLA it never is."""
    return is_past(status.sla, at)


def is_past(deadline: dt.datetime | None, at: dt.datetime) -> bool:
    """Whether a deadline was there at that moment; None never is."""
    return deadline is not None and at >= deadline


def driver_wait_ends(event: LifecycleEvent, wait: dt.timedelta, now: dt.datetime) -> dt.datetime:
    """When a pending event that has no driver fails. One that nobody has recorded seeing is seen now.

    Seen at a time that has not come yet: that clock was ahead. Then the wait counts from the event's creation, or an
    event would wait for as long as the clock was wrong.
    """
    seen, created = event.status.first_seen_time or whole_seconds(now), event.metadata.creation_timestamp
    return deadline_after(seen if seen <= now or created is None else min(seen, created), wait)
