"""What one delete should change in the notes on an object. Pure: the same table as on our own server decides.

Admission runs again whenever the object changed while the delete was under way, and the note itself is such a change.
So the decision must come to rest: a delete that finds its own note leaves it as it is. Two deletes at once come
to rest as well, because of two notes the earlier deadline stays (invariant 9).

A review does not say to which request it belongs: kube-apiserver gives every call a uid of its own. A note that asks
for the same seconds is taken for the request's own; one that asks for others is that of a request at the same moment,
or of an earlier one that was rejected; its age decides.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from kube_fairlead.api.time import parse_time
from kube_fairlead.grace import notes
from kube_fairlead.lifecycle import deletion

__all__ = ["Decision", "Erase", "Leave", "Note", "decide"]

JsonView = Mapping[str, Any]

# A delete lives at most 34 s in kube-apiserver. A note on an object that is not being deleted is the running delete's
# own when it asks for the same and is younger than that and a little.
_OWN_SECONDS = 40.0
# Two deletes that write at the same moment see each other's notes within milliseconds.
_AT_ONCE_SECONDS = 1.0

_ORPHAN = "orphan"
_FOREGROUND = "foregroundDeletion"


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """Write this deadline, and the seconds of the request that set it."""

    deadline: dt.datetime
    requested: int


@dataclasses.dataclass(frozen=True, slots=True)
class Erase:
    """Remove a note that no longer says anything true."""


@dataclasses.dataclass(frozen=True, slots=True)
class Leave:
    """Write nothing. ``warning`` is for the user whose grace period is lost."""

    warning: str = ""


Decision = Note | Erase | Leave


def decide(obj: JsonView, options: JsonView, now: dt.datetime) -> Decision:
    """What to do about a delete with these DeleteOptions of this object."""
    metadata: JsonView = obj.get("metadata") or {}
    note = notes.read_note(metadata.get("annotations") or {})
    decision = _decide(metadata, note, options, now)
    if isinstance(decision, Leave) or not (options.get("preconditions") or {}).get("resourceVersion"):
        return decision
    # Writing would change the version that the delete insists on.
    if isinstance(decision, Note):
        return Leave("the grace period is not recorded: the delete has a resourceVersion precondition")
    if note is not None and note.belongs_to(now):
        return Leave("an earlier request's grace period is not erased: the delete has a resourceVersion precondition")
    return Leave()  # the note is old enough that controllers ignore it


def _decide(metadata: JsonView, note: notes.Note | None, options: JsonView, now: dt.datetime) -> Decision:
    stamp = _time(metadata.get("deletionTimestamp"))
    requested = deletion.normalise_grace(options.get("gracePeriodSeconds"))
    counts = note is not None and _counts(note, stamp, requested, now)
    believed = note.deadline if note is not None and counts else None
    state = deletion.State(
        finalizers=_finalizers_after(metadata.get("finalizers") or (), options),
        deletion_timestamp=believed or stamp,
        grace_seconds=note.requested if note is not None and believed else None,
    )
    match deletion.decide_custom(state, requested, now):
        case deletion.Mark(deadline, seconds) if seconds is not None:
            return Note(deadline, seconds)
        case deletion.Remove():
            return Leave(deletion.without_effect(state, requested, now))
        case _ if note is not None and not counts:
            return Erase()  # it says nothing about this deletion
        case deletion.Unchanged() if stamp is not None and not (note is not None and note.requested == requested):
            # Not so for the request's own note, which admission sees when it runs again.
            return Leave(deletion.without_effect(state, requested, now))
        case _:
            return Leave()


def _counts(note: notes.Note, stamp: dt.datetime | None, requested: int | None, now: dt.datetime) -> bool:
    """Whether a note is about this deletion, and not left by an earlier request that was rejected."""
    if note.deadline is None:
        return False
    if stamp is not None:
        return note.belongs_to(stamp)
    age = note.age_seconds(now)
    return age is not None and abs(age) <= (_OWN_SECONDS if note.requested == requested else _AT_ONCE_SECONDS)


def _finalizers_after(existing: Sequence[str], options: JsonView) -> int:
    """How many finalizers hold the object once the policy for its dependents has added or taken its own."""
    policy = options.get("propagationPolicy")
    if policy is None and options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    if policy is None:
        return len(existing)
    others = sum(name not in {_ORPHAN, _FOREGROUND} for name in existing)
    return others + (policy in {"Orphan", "Foreground"})


def _time(text: str | None) -> dt.datetime | None:
    try:
        return parse_time(text) if text else None
    except ValueError:  # a review may hold anything
        return None
