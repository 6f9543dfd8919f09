from __future__ import annotations

import datetime as dt

from kube_fairlead.api.core_v1 import ObjectReference
from kube_fairlead.client.eventseries import Correlator, Occurrence, Series

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def occurrence(note: str = "it happened", name: str = "a", reason: str = "Happened") -> Occurrence:
    regarding = ObjectReference(kind="Node", name=name)
    return Occurrence(regarding=regarding, type="Normal", reason=reason, action="Act", note=note)


def observe(correlator: Correlator, what: Occurrence, seconds: float = 0) -> Series:
    series = correlator.observe(what, START + dt.timedelta(seconds=seconds))
    assert series is not None
    return series


def test_the_same_again_is_counted() -> None:
    correlator = Correlator()
    first = observe(correlator, occurrence())
    assert observe(correlator, occurrence(), 10) is first
    assert (first.count, first.first, first.last) == (2, START, START + dt.timedelta(seconds=10))
    assert observe(correlator, occurrence(reason="Other")) is not first
    assert observe(correlator, occurrence(name="b")) is not first


def test_a_series_ends_after_six_quiet_minutes() -> None:
    correlator = Correlator()
    first = observe(correlator, occurrence())
    assert observe(correlator, occurrence(), 359) is first
    assert observe(correlator, occurrence(), 359 + 360) is not first


def test_many_different_notes_become_one_series() -> None:
    correlator = Correlator()
    single = [observe(correlator, occurrence(f"note {number}")) for number in range(10)]
    assert len({series.number for series in single}) == 10
    combined = observe(correlator, occurrence("note 10"))
    assert combined.occurrence.note == "(combined from similar events): note 10"
    assert observe(correlator, occurrence("note 11")) is combined
    assert combined.count == 2
    assert observe(correlator, occurrence("note 3")) is single[3], "what has a series keeps it"


def test_notes_are_told_apart_again_after_ten_minutes() -> None:
    correlator = Correlator()
    for number in range(11):
        observe(correlator, occurrence(f"note {number}"))
    assert observe(correlator, occurrence("note 12"), 601).occurrence.note == "note 12"


def test_new_events_about_one_object_are_limited() -> None:
    correlator = Correlator()
    for number in range(25):
        observe(correlator, occurrence(reason=f"Reason{number}"))
    assert correlator.observe(occurrence(reason="OneMore"), START) is None
    assert observe(correlator, occurrence(reason="Reason0")).count == 2, "counting goes on"
    observe(correlator, occurrence(name="b"))
    observe(correlator, occurrence(reason="OneMore"), 301)
    assert correlator.observe(occurrence(reason="Another"), START + dt.timedelta(seconds=301)) is None


def test_memory_is_bounded() -> None:
    correlator = Correlator()
    first = observe(correlator, occurrence(name="node-0"))
    for number in range(1, 5000):
        observe(correlator, occurrence(name=f"node-{number}"))
    assert observe(correlator, occurrence(name="node-0")) is not first
    assert len(correlator._series) == 4096


def test_a_forgotten_series_begins_anew() -> None:
    correlator = Correlator()
    first = observe(correlator, occurrence())
    correlator.forget(first)
    correlator.forget(first)
    assert observe(correlator, occurrence()) is not first
