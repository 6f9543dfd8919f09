"""When an event must be finished (invariant 4), and how long it may wait for its driver.

Times in the API are whole seconds. A deadline is rounded up, so that rounding never shortens an SLA.
"""

from __future__ import annotations

import datetime as dt

from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleEventStatus

__all__ = ["deadline_after", "driver_wait_ends", "expired", "is_past", "whole_seconds"]

_SECOND = dt.timedelta(seconds=1)


def whole_seconds(moment: dt.datetime) -> dt.datetime:
    """Drop the fraction of a second, as the API does."""
    return moment.replace(microsecond=0)


def deadline_after(start: dt.datetime, length: dt.timedelta) -> dt.datetime:
    """Return the first whole second at which the whole length has passed, or the latest time the API can store."""
    try:
        exact = start + length
        return whole_seconds(exact) if not exact.microsecond else whole_seconds(exact) + _SECOND
    except OverflowError:
        return dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)


def expired(status: LifecycleEventStatus, at: dt.datetime) -> bool:
    """Whether the deadline has passed at a moment. An event without an SLA has none."""
    return is_past(status.sla, at)


def is_past(deadline: dt.datetime | None, at: dt.datetime) -> bool:
    """Whether a deadline has passed at a moment; None never has."""
    return deadline is not None and at >= deadline


def driver_wait_ends(event: LifecycleEvent, wait: dt.timedelta, now: dt.datetime) -> dt.datetime:
    """Return when a pending event without a driver fails. An event without firstSeenTime counts as seen now.

    A firstSeenTime in the future was written by a clock that was ahead. The wait then counts from the creation of the
    event; otherwise it would last for as long as the clock was wrong.
    """
    seen, created = event.status.first_seen_time or whole_seconds(now), event.metadata.creation_timestamp
    return deadline_after(seen if seen <= now or created is None else min(seen, created), wait)
