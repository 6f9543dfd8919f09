"""How long a finished event is retained."""

from __future__ import annotations

import datetime as dt

from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent
from kube_fairlead.api.reserved import FINALIZER_CLAIMED
from kube_fairlead.lifecycle import deadlines

__all__ = ["collectable_at", "is_released"]


def is_released(event: LifecycleEvent) -> bool:
    """Whether the claimant of a finished event has removed its finalizer."""
    return event.finished and FINALIZER_CLAIMED not in event.metadata.finalizers


def collectable_at(event: LifecycleEvent, keep: dt.timedelta) -> dt.datetime | None:
    """Return when a finished event may be deleted; None while it is not finished.

    Without a completion time, which another claimant may leave out, the creation time counts. With a retention of zero
    no time counts, because a clock that was ahead may have written a completion time in the future.
    """
    if not event.finished:
        return None
    if not keep:
        return dt.datetime.min.replace(tzinfo=dt.UTC)
    since = event.status.completion_time or event.metadata.creation_timestamp
    return dt.datetime.min.replace(tzinfo=dt.UTC) if since is None else deadlines.deadline_after(since, keep)
