"""What a DELETE does to an object: removed at once, marked, or left as it is.

Three rules, by kind:

- custom resources: the table of KEP-5673 as our design decides it (`decide_custom`),
- pods: graceful deletion as Kubernetes does it (`decide_graceful`),
- everything else (`decide_plain`).

In all of them the deletion deadline is ``deletionTimestamp``: request time plus grace. Invariant 9: a deadline only
ever moves earlier, and an object without finalizers is not kept by a grace period that nobody would enforce.

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
    """What the table looks at. ``finalizers`` counts after the propagation policy's own were added."""

    finalizers: int
    deletion_timestamp: dt.datetime | None = None
    grace_seconds: int | None = None  # deletionGracePeriodSeconds as stored


class Remove(msgspec.Struct, frozen=True):
    """The object goes now."""


class Mark(msgspec.Struct, frozen=True):
    """The object stays, with this deadline and grace (None: the field is absent)."""

    deletion_timestamp: dt.datetime
    grace_seconds: int | None


class Unchanged(msgspec.Struct, frozen=True):
    """Nothing is written: it is being deleted already, and this request does not hasten it."""


Decision = Remove | Mark | Unchanged


def normalise_grace(requested: int | None) -> int | None:
    """A negative grace counts as one second, as Kubernetes has it for pods."""
    return 1 if requested is not None and requested < 0 else requested


def decide_custom(state: State, requested: int | None, now: dt.datetime) -> Decision:
    """The design's table for custom resources; row numbers as there."""
    requested = normalise_grace(requested)
    if state.finalizers == 0:
        return Remove()  # rows 4-6 and 10-12
    if state.deletion_timestamp is None:
        # Row 1 leaves the grace absent, so that a controller can tell "nothing was said" from "at once" (row 2).
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
    """Why a delete of a custom resource does not get the time that it asks for; empty when it does.

    Nothing is said about 0 and 1: kubectl sends 1 for `--now`, and both mean as soon as possible.
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
    """Pods. ``grace`` is what applies (asked for, or the pod's own); ``explicit``: the request named it."""
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
        # The time is up already: at once, but a kubelet is still given a second unless zero was asked for.
        deadline, grace = _deadline(now, 0), 0 if grace == 0 else 1
    if grace == 0 and state.finalizers == 0:
        return Remove()
    return Mark(deadline, grace)


def decide_plain(state: State, now: dt.datetime) -> Decision:
    """Every other built-in kind: finalizers hold it, grace means nothing and is stored as 0."""
    if state.finalizers == 0:
        return Remove()
    if state.deletion_timestamp is None or state.deletion_timestamp > now:
        return Mark(_deadline(now, 0), 0)
    return Unchanged() if state.grace_seconds == 0 else Mark(state.deletion_timestamp, 0)


# The latest moment that RFC 3339 with a four-digit year can spell; a larger grace means "as late as can be said".
_LATEST = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)


def _deadline(now: dt.datetime, grace: int) -> dt.datetime:
    """Timestamps are stored in whole seconds; the fraction of now is dropped, as Kubernetes drops it."""
    whole = now.replace(microsecond=0)
    if grace >= (_LATEST - whole).total_seconds():
        return _LATEST
    return whole + dt.timedelta(seconds=grace)


def _shifted(moment: dt.datetime, seconds: int) -> dt.datetime:
    """A moment moved earlier; a stored grace may be larger than the calendar."""
    try:
        return moment + dt.timedelta(seconds=seconds)
    except OverflowError:
        return dt.datetime.min.replace(tzinfo=dt.UTC)
