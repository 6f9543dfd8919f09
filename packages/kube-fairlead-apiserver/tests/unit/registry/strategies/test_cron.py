from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead_apiserver.registry.strategies.cron import schedule_error

GOOD = (
    "* * * * *",
    "0 0 1 1 0",
    "*/5 0-6/2 1,15 jan-MAR Mon",
    "5/15 * * * ?",
    "1, * * * *",
    "  1 2 3 4 5  ",
    "@daily",
    "@every 1h30m",
    "TZ=UTC 0 0 * * *",
)


@pytest.mark.parametrize("schedule", GOOD)
def test_schedules_that_can_be_read(schedule: str) -> None:
    assert schedule_error(schedule) == ""


# In the words of robfig/cron, which kube-apiserver reads them with.
@pytest.mark.parametrize(
    ("schedule", "error"),
    [
        ("bla", "expected exactly 5 fields, found 1: [bla]"),
        ("", "expected exactly 5 fields, found 0: []"),
        ("61 * * * *", "end of range (61) above maximum (59): 61"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
        ("-1 * * * *", 'failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
        ("*/-2 * * * *", "negative number (-2) not allowed: -2"),
        (
            "99999999999999999999 * * * *",
            (
                "failed to parse int from 99999999999999999999: "
                'strconv.Atoi: parsing "99999999999999999999": value out of range'
            ),
        ),
        ("* * * mon *", 'failed to parse int from mon: strconv.Atoi: parsing "mon": invalid syntax'),
        ("@foo", "unrecognized descriptor: @foo"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
    ],
)
def test_schedules_that_cannot_be_read(schedule: str, error: str) -> None:
    assert schedule_error(schedule) == error


@given(st.text("0123456789*/,-?@ abjnTZ=", max_size=30) | st.text(max_size=20))
def test_anything_is_read_or_refused(schedule: str) -> None:
    assert isinstance(schedule_error(schedule), str)
