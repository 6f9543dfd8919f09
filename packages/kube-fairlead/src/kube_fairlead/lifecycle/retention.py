"""How long a finished event stays."""

from __future__ import annotations

import datetime as dt

from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent
from kube_fairlead.api.reserved import FINALIZER_CLAIMED
from kube_fairlead.lifecycle import deadlines

__all__ = ["collectable_at", "is_wound_up"]


def is_wound_up(event: LifecycleEvent) -> bool:
    """Whether a finished event's claimant is done with it: then its finalizer is gone."""
    return event.finished and FINALIZER_CLAIMED not in event.metadata.finalizers


def collectable_at(event: LifecycleEvent, keep: dt.timedelta) -> dt.datetime | None:
    """When a finished event may be deleted; None as long as it is not finished.

    One without a completion time was finished by somebody who did not say when: its creation must do. What need not be
    kept is not measured: a completion time may lie in the future, written by a clock that was set right since.
    """
    if not event.finished:
        return None
    if not keep:
        return dt.datetime.min.replace(tzinfo=dt.UTC)
    since = event.status.completion_time or event.metadata.creation_timestamp
    return dt.datetime.min.replace(tzinfo=dt.UTC) if since is None else deadlines.deadline_after(since, keep)
