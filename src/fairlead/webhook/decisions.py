"""What one delete should change in the notes on an object. Pure: the same table as on our own server decides.

Admission runs again whenever the object changed while the delete was under way, and the note itself is such a change.
So the decision must come to rest: a delete that finds its own note leaves it as it is (invariant 1). Two deletes at
once come to rest as well, because of two notes the earlier deadline stays (invariant 2).
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.api.reserved import ANNOTATION_GRACE_DEADLINE, ANNOTATION_GRACE_REQUESTED
from fairlead.api.time import parse_time
from fairlead.lifecycle import deletion

__all__ = ["FIELD_MANAGER", "Decision", "Erase", "Leave", "Note", "decide"]

Json = Mapping[str, Any]

FIELD_MANAGER = "fairlead-webhook"

# A delete lives at most 34 s in kube-apiserver. A note on an object that nobody deletes is the running delete's own
# when it is younger than that and a little; an older one was left by a delete that somebody else refused.
_FRESH = dt.timedelta(seconds=40)

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


def decide(obj: Json, options: Json, now: dt.datetime) -> Decision:
    """What to do about a delete with these DeleteOptions of this object."""
    decision = _decide(obj, options, now)
    if not isinstance(decision, Leave) and (options.get("preconditions") or {}).get("resourceVersion"):
        # The note would change the version that the delete insists on.
        lost = "the grace period is not recorded: the delete has a resourceVersion precondition"
        return Leave(lost if isinstance(decision, Note) else "")
    return decision


def _decide(obj: Json, options: Json, now: dt.datetime) -> Decision:
    metadata: Json = obj.get("metadata") or {}
    annotations: Json = metadata.get("annotations") or {}
    noted = _time(annotations.get(ANNOTATION_GRACE_DEADLINE))
    stamp = _time(metadata.get("deletionTimestamp"))
    believed = noted if stamp is not None or _is_fresh(metadata, now) else None
    state = deletion.State(
        finalizers=_finalizers_after(metadata.get("finalizers") or (), options),
        deletion_timestamp=believed or stamp,
        grace_seconds=_whole(annotations.get(ANNOTATION_GRACE_REQUESTED)) if believed else None,
    )
    match deletion.decide_custom(state, options.get("gracePeriodSeconds"), now):
        case deletion.Mark(deadline, requested) if requested is not None:
            return Note(deadline, requested)
        case deletion.Mark():
            # A plain delete names no deadline, so one that is still noted from long ago must go.
            stale = ANNOTATION_GRACE_DEADLINE in annotations or ANNOTATION_GRACE_REQUESTED in annotations
            return Erase() if stale else Leave()
        case _:
            return Leave()


def _finalizers_after(existing: Sequence[str], options: Json) -> int:
    """How many finalizers hold the object once the policy for its dependents has added or taken its own."""
    policy = options.get("propagationPolicy")
    if policy is None and options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    if policy is None:
        return len(existing)
    others = sum(name not in {_ORPHAN, _FOREGROUND} for name in existing)
    return others + (policy in {"Orphan", "Foreground"})


def _is_fresh(metadata: Json, now: dt.datetime) -> bool:
    written = [
        _time(entry.get("time"))
        for entry in metadata.get("managedFields") or ()
        if entry.get("manager") == FIELD_MANAGER and not entry.get("subresource")
    ]
    return any(moment is not None and now - moment <= _FRESH for moment in written)


def _time(text: str | None) -> dt.datetime | None:
    try:
        return parse_time(text) if text else None
    except ValueError:  # annotations are anybody's to write
        return None


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and text.isascii() else None
