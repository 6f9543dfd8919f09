"""Which occurrences are the same Event again, which are aggregated, and which are spam. Pure.

The numbers are those of client-go's recorder.

Upstream: k8s.io/client-go@v0.36.4/tools/record/events_cache.go,
    k8s.io/client-go@v0.36.4/tools/events/event_broadcaster.go
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import itertools
from typing import Any

from kube_fairlead.api.core_v1 import ObjectReference

__all__ = ["Correlator", "Occurrence", "Series"]

# The same occurrence within this time continues its series; later it starts a new one.
_SERIES_SECONDS = 360.0
# So many different notes about the same object within this time are aggregated.
_SIMILAR_LIMIT = 10
_SIMILAR_SECONDS = 600.0
_COMBINED = "(combined from similar events): "
# New Events about one object: so many at once, then one every five minutes.
_SPAM_BURST = 25
_SPAM_REFILL_SECONDS = 300.0
# How many series and objects are remembered; the ones that were quiet longest are forgotten first.
_REMEMBERED = 4096


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One occurrence. Two that are equal are the same Event."""

    regarding: ObjectReference
    type: str
    reason: str
    action: str
    note: str
    related: ObjectReference | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class Series:
    """One Event in the API: how often it happened, and how much of that was written."""

    number: int  # no two series have the same
    occurrence: Occurrence
    name: str = ""  # set by the writer
    first: dt.datetime
    last: dt.datetime
    count: int = 1
    written: int = 0

    @property
    def is_unwritten(self) -> bool:
        """Whether the API knows less than happened."""
        return self.count > self.written


class Correlator:
    """Decides which series an occurrence belongs to."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._series: collections.OrderedDict[Occurrence, Series] = collections.OrderedDict()
        self._notes: collections.OrderedDict[Occurrence, tuple[dt.datetime, set[str]]] = collections.OrderedDict()
        self._tokens: collections.OrderedDict[ObjectReference, tuple[dt.datetime, float]] = collections.OrderedDict()

    def observe(self, occurrence: Occurrence, now: dt.datetime) -> Series | None:
        """Count an occurrence; None when there were too many new Events about its object."""
        key = self._combined(occurrence, now)
        known = self._series.get(key)
        if known is not None and (now - known.last).total_seconds() < _SERIES_SECONDS:
            known.count += 1
            known.last = now
            self._series.move_to_end(key)
            return known
        if not self._spend_token(key.regarding, now):
            return None
        series = Series(number=next(self._numbers), occurrence=key, first=now, last=now)
        self._series[key] = series
        _trim(self._series)
        return series

    def forget(self, series: Series) -> None:
        """The next such occurrence begins a new series."""
        if self._series.get(series.occurrence) is series:
            del self._series[series.occurrence]

    def _combined(self, occurrence: Occurrence, now: dt.datetime) -> Occurrence:
        similar = dataclasses.replace(occurrence, note="")
        since, notes = self._notes.get(similar, (now, set()))
        if (now - since).total_seconds() >= _SIMILAR_SECONDS:
            since, notes = now, set()
        if len(notes) >= _SIMILAR_LIMIT and occurrence.note not in notes:
            # One series for all that come after, under the first note that did not fit.
            return next(
                (key for key in reversed(self._series) if _is_combination_of(similar, key)),
                dataclasses.replace(occurrence, note=_COMBINED + occurrence.note),
            )
        notes.add(occurrence.note)
        self._notes[similar] = (since, notes)
        self._notes.move_to_end(similar)
        _trim(self._notes)
        return occurrence

    def _spend_token(self, regarding: ObjectReference, now: dt.datetime) -> bool:
        since, tokens = self._tokens.get(regarding, (now, float(_SPAM_BURST)))
        tokens = min(float(_SPAM_BURST), tokens + (now - since).total_seconds() / _SPAM_REFILL_SECONDS)
        allowed = tokens >= 1
        self._tokens[regarding] = (now, tokens - 1 if allowed else tokens)
        self._tokens.move_to_end(regarding)
        _trim(self._tokens)
        return allowed


def _is_combination_of(similar: Occurrence, key: Occurrence) -> bool:
    return key.note.startswith(_COMBINED) and dataclasses.replace(key, note="") == similar


def _trim(remembered: collections.OrderedDict[Any, Any]) -> None:
    while len(remembered) > _REMEMBERED:
        remembered.popitem(last=False)
