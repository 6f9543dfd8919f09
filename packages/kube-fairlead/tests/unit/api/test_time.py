from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead.api import time as api_time

moments = st.datetimes(min_value=dt.datetime(1, 1, 2), max_value=dt.datetime(9999, 12, 30)).map(  # noqa: DTZ001 - zoned below
    lambda moment: moment.replace(tzinfo=dt.UTC)
)


@given(moments)
def test_micro_times_survive(moment: dt.datetime) -> None:
    assert api_time.parse_micro_time(api_time.format_micro_time(moment)) == moment


@given(moments)
def test_times_survive_to_the_second(moment: dt.datetime) -> None:
    assert api_time.parse_time(api_time.format_time(moment)) == moment.replace(microsecond=0)


@given(st.integers(-(2**63), 2**63 - 1))
def test_durations_survive(nanoseconds: int) -> None:
    text = api_time.format_duration_nanoseconds(nanoseconds)
    assert api_time.parse_duration_nanoseconds(text) == nanoseconds


@given(st.timedeltas(dt.timedelta(days=-100_000), dt.timedelta(days=100_000)))
def test_timedeltas_survive(duration: dt.timedelta) -> None:
    assert api_time.parse_duration(api_time.format_duration(duration)) == duration


def test_what_is_finer_than_a_microsecond_is_cut_towards_zero() -> None:
    assert api_time.parse_duration("1999ns") == dt.timedelta(microseconds=1)
    assert api_time.parse_duration("-1999ns") == dt.timedelta(microseconds=-1)


def test_other_zones_are_written_as_utc() -> None:
    zone = dt.timezone(dt.timedelta(hours=2))
    assert api_time.format_time(dt.datetime(2026, 1, 1, 1, tzinfo=zone)) == "2025-12-31T23:00:00Z"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05+00:00", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.9+01:00", "2026-01-02T02:04:05Z"),
        ("2026-01-02T3:04:05Z", "2026-01-02T03:04:05Z"),
    ],
)
def test_times_have_one_spelling(sent: str, kept: str) -> None:
    assert api_time.canonical_time(sent) == kept


def test_micro_times_have_one_spelling() -> None:
    assert api_time.canonical_micro_time("2026-01-02T03:04:05.678901+01:00") == "2026-01-02T02:04:05.678901Z"
    with pytest.raises(ValueError, match=r'cannot parse "Z" as ".000000"'):
        api_time.canonical_micro_time("2026-01-02T03:04:05Z")


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="without a zone"):
        api_time.format_time(dt.datetime(2026, 1, 1))  # noqa: DTZ001 - the point of the test


@pytest.mark.parametrize("text", ["9" * 300_000 + "s", "1s" * 150_000 + "x", "0" * 300_000 + "x"])
def test_huge_durations_take_no_time_to_refuse(text: str) -> None:
    """What a client sends may be megabytes long; the test's own time limit is the measure."""
    with pytest.raises(ValueError, match=r"^time: "):
        api_time.parse_duration_nanoseconds(text)
