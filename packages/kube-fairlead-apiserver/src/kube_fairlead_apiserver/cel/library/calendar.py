"""Parts of timestamps and durations, such as ``getFullYear()``, in UTC or a given zone.

Upstream: github.com/google/cel-go@v0.26.0/common/types/timestamp.go,
    github.com/google/cel-go@v0.26.0/common/types/duration.go
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from kube_fairlead_apiserver.cel import times
from kube_fairlead_apiserver.cel.declarations import Library, Overload, member
from kube_fairlead_apiserver.cel.types import DURATION, INT, STRING, TIMESTAMP
from kube_fairlead_apiserver.cel.values import Duration, Timestamp

__all__ = ["CALENDAR"]

_PARTS: dict[str, Callable[[dt.datetime], int]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
}
_UNITS = {"getHours": 3_600_000_000_000, "getMinutes": 60_000_000_000, "getSeconds": 1_000_000_000}
_MILLISECOND = 1_000_000


def _part(name: str, part: Callable[[dt.datetime], int]) -> tuple[Overload, Overload]:
    return (
        member(name, (TIMESTAMP,), INT, lambda timestamp: part(times.in_zone(timestamp, "UTC"))),
        member(name, (TIMESTAMP, STRING), INT, lambda timestamp, zone: part(times.in_zone(timestamp, zone))),
    )


def _whole(unit: int) -> Callable[[Duration], int]:
    def count(duration: Duration) -> int:
        amount = abs(duration.nanoseconds) // unit
        return -amount if duration.nanoseconds < 0 else amount

    return count


def _milliseconds(timestamp: Timestamp, zone: str = "UTC") -> int:
    times.in_zone(timestamp, zone)  # an invalid zone is an error even where it has no effect
    return timestamp.nanoseconds % 1_000_000_000 // _MILLISECOND


CALENDAR = Library(
    "calendar",
    overloads=(
        *(overload for name, part in _PARTS.items() for overload in _part(name, part)),
        member("getMilliseconds", (TIMESTAMP,), INT, _milliseconds),
        member("getMilliseconds", (TIMESTAMP, STRING), INT, _milliseconds),
        *(member(name, (DURATION,), INT, _whole(unit)) for name, unit in _UNITS.items()),
        member("getMilliseconds", (DURATION,), INT, _whole(_MILLISECOND)),
    ),
)
