"""The note that `fairlead webhook` leaves on an object: what a delete request set, and when. Pure.

A delete request can be rejected after its note was written, by another webhook for instance. The note stays, and a
later delete request may not be able to erase it: it has a resourceVersion precondition, or the webhook is away. So a
note counts only for a deletion that it belongs to, which its time shows.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping

from kube_fairlead.api.reserved import (
    ANNOTATION_GRACE_DEADLINE,
    ANNOTATION_GRACE_REQUEST_TIME,
    ANNOTATION_GRACE_REQUEST_UID,
    ANNOTATION_GRACE_REQUESTED,
)
from kube_fairlead.api.time import parse_time

__all__ = ["ANNOTATIONS", "FIELD_MANAGER", "Note", "read_note"]

FIELD_MANAGER = "fairlead-webhook"
ANNOTATIONS = (
    ANNOTATION_GRACE_DEADLINE,
    ANNOTATION_GRACE_REQUESTED,
    ANNOTATION_GRACE_REQUEST_TIME,
    ANNOTATION_GRACE_REQUEST_UID,
)

# How long before the deletion a note of the same request can have been written: the API server stamps the deletion
# after all admission has answered, and ten seconds are the default timeout of a webhook. "Forced" counts for as
# long as our own webhook takes at most: a grace period that is not known costs less than a forced end that no user
# asked for, and a user can force again, which is then noted while the deletion runs.
_ATTRIBUTION_SECONDS = 10.0
_FORCED_ATTRIBUTION_SECONDS = 2.0


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """What one delete request set. None is what cannot be read."""

    deadline: dt.datetime | None
    requested: int | None
    requested_at: dt.datetime | None  # by the webhook's clock

    def age_seconds(self, now: dt.datetime) -> float | None:
        """How long ago the request was seen."""
        taken = self.requested_at or self._counted_back()
        return None if taken is None else (now - taken).total_seconds()

    def belongs_to(self, deletion_timestamp: dt.datetime) -> bool:
        """Whether it was written for a deletion that the API server stamped then, or while that deletion ran."""
        taken = self.requested_at or self._counted_back() or self.deadline
        if taken is None:
            return False
        allowed = _FORCED_ATTRIBUTION_SECONDS if self.requested == 0 else _ATTRIBUTION_SECONDS
        return (deletion_timestamp - taken).total_seconds() <= allowed

    def _counted_back(self) -> dt.datetime | None:
        """A note without a time: the deadline is the time of the request plus its seconds."""
        if self.deadline is None or self.requested is None:
            return None
        try:
            return self.deadline - dt.timedelta(seconds=self.requested)
        except OverflowError:
            return None


def read_note(annotations: Mapping[str, str]) -> Note | None:
    """The note in an object's annotations; None where there is none."""
    if not any(name in annotations for name in ANNOTATIONS):
        return None
    return Note(
        deadline=_time(annotations.get(ANNOTATION_GRACE_DEADLINE)),
        requested=_whole(annotations.get(ANNOTATION_GRACE_REQUESTED)),
        requested_at=_time(annotations.get(ANNOTATION_GRACE_REQUEST_TIME)),
    )


def _time(text: str | None) -> dt.datetime | None:
    try:
        return parse_time(text) if text else None
    except ValueError:  # every client may write annotations
        return None


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and text.isascii() else None
