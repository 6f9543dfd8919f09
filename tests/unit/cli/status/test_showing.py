from __future__ import annotations

import datetime as dt

import pytest

from fairlead.cli.status.showing import span


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (185, "3m5s"),
        (601, "10m"),
        (3 * 3600, "3h"),
        (47 * 3600, "47h"),
        (5 * 86400, "5d"),
        (-30, "-30s"),
    ],
)
def test_spans(seconds: int, expected: str) -> None:
    assert span(dt.timedelta(seconds=seconds)) == expected
