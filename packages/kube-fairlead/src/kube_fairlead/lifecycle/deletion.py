"""What a DELETE does to an object: remove it, mark it as deleting, or leave it unchanged.

Three rules, by kind:

- custom resources: the table of KEP-5673 as our design decides it (`decide_custom`),
- pods: graceful deletion as Kubernetes does it (`decide_graceful`),
- everything else (`decide_plain`).

In all of them the deletion deadline is ``deletionTimestamp``: request time plus grace. Invariant 9: a deadline only
ever moves earlier, and an object without finalizers is not kept by a grace period that no controller enforces.

Upstream: k8s.io/apiserver@v0.36.4/pkg/registry/rest/delete.go,
    k8s.io/apiserver@v0.36.4/pkg/registry/generic/registry/store.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/core/pod/strategy.go
"""

from __future__ import annotations

import datetime as dt

import msgspec

__all__ = [
    "Decision",
    "Mark",
    "Remove",
    "State",
    "Unchanged",
    "decide_custom",
    "decide_graceful",
    "decide_plain",
    "normalise_grace",
    "without_effect",
]


class State(msgspec.Struct, frozen=True):
    """The input of the tables. ``finalizers`` includes those that the propagation policy adds."""

    finalizers: int
    deletion_timestamp: dt.datetime | None = None
    grace_seconds: int | None = None  # deletionGracePeriodSeconds as stored


class Remove(msgspec.Struct, frozen=True):
    """The object is removed now."""


class Mark(msgspec.Struct, frozen=True):
    """The object stays, with this deadline and grace (None: the field is absent)."""

    deletion_timestamp: dt.datetime
    grace_seconds: int | None


class Unchanged(msgspec.Struct, frozen=True):
    """Nothing is written: the object is deleting already, and this request does not move its deadline earlier."""


Decision = Remove | Mark | Unchanged


def normalise_grace(requested: int | None) -> int | None:
    """Replace a negative grace by one second, as Kubernetes does for pods."""
    return 1 if requested is not None and requested < 0 else requested


def decide_custom(state: State, requested: int | None, now: dt.datetime) -> Decision:
    """Decide for a custom resource; the comments name the rows of the design's table."""
    requested = normalise_grace(requested)
    if state.finalizers == 0:
        return Remove()  # rows 4-6 and 10-12
    if state.deletion_timestamp is None:
        # Row 1 leaves the grace absent, so that a controller can distinguish "not set" from "at once" (row 2).
        return Mark(_deadline(now, requested or 0), requested)  # rows 1-3
    if requested is None:
        return Unchanged()  # row 7
    if requested == 0:
        forced = Mark(min(state.deletion_timestamp, _deadline(now, 0)), 0)  # row 8
        return Unchanged() if forced == Mark(state.deletion_timestamp, state.grace_seconds) else forced
    deadline = _deadline(now, requested)
    if deadline < state.deletion_timestamp:
        return Mark(deadline, requested)  # row 9, shorter than what remains
    return Unchanged()


def without_effect(state: State, requested: int | None, now: dt.datetime) -> str:
    """Return why the requested grace of a custom resource has no effect; empty when it has.

    0 and 1 are not reported: kubectl sends 1 for `--now`, and both mean as soon as possible.
    """
    requested = normalise_grace(requested)
    if requested is None or requested <= 1:
        return ""
    if state.finalizers == 0:
        return "the grace period has no effect: the object has no finalizer"
    if state.deletion_timestamp is not None and isinstance(decide_custom(state, requested, now), Unchanged):
        return "the grace period has no effect: the object is being deleted already, with less time left"
    return ""


def decide_graceful(state: State, grace: int, now: dt.datetime, *, explicit: bool) -> Decision:
    """Decide for a pod. ``grace`` is the one that applies; ``explicit``: the request contained it."""
    if state.deletion_timestamp is None:
        if grace == 0 and state.finalizers == 0:
            return Remove()
        return Mark(_deadline(now, grace), grace)
    stored = state.grace_seconds or 0
    if stored == 0:
        return Remove() if state.finalizers == 0 else Unchanged()
    if not explicit or grace >= stored:
        return Unchanged()
    deadline = _shifted(state.deletion_timestamp, grace - stored)
    if deadline < now:
        # The deadline has passed: delete at once, but the kubelet still gets one second unless zero was requested.
        deadline, grace = _deadline(now, 0), 0 if grace == 0 else 1
    if grace == 0 and state.finalizers == 0:
        return Remove()
    return Mark(deadline, grace)


def decide_plain(state: State, now: dt.datetime) -> Decision:
    """Decide for any other built-in kind: finalizers keep the object, grace has no effect and is stored as 0."""
    if state.finalizers == 0:
        return Remove()
    if state.deletion_timestamp is None or state.deletion_timestamp > now:
        return Mark(_deadline(now, 0), 0)
    return Unchanged() if state.grace_seconds == 0 else Mark(state.deletion_timestamp, 0)


# The latest moment that RFC 3339 with a four-digit year can spell; a larger grace is cut to it.
_LATEST = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)


def _deadline(now: dt.datetime, grace: int) -> dt.datetime:
    """Add the grace to now, without the fraction of a second, as Kubernetes does."""
    whole = now.replace(microsecond=0)
    if grace >= (_LATEST - whole).total_seconds():
        return _LATEST
    return whole + dt.timedelta(seconds=grace)


def _shifted(moment: dt.datetime, seconds: int) -> dt.datetime:
    """Move a moment earlier; a stored grace may exceed the range of the calendar."""
    try:
        return moment + dt.timedelta(seconds=seconds)
    except OverflowError:
        return dt.datetime.min.replace(tzinfo=dt.UTC)
