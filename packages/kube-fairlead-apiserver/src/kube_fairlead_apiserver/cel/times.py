"""Parses and formats timestamps and durations with nanoseconds, which Python's datetime lacks.

Upstream: github.com/google/cel-go@v0.26.0/common/types/timestamp.go,
    github.com/google/cel-go@v0.26.0/common/types/duration.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/common/valuesunstructured.go
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
import zoneinfo

from kube_fairlead.api import golang, time
from kube_fairlead_apiserver.cel import errors, values

__all__ = [
    "format_duration",
    "format_timestamp",
    "in_zone",
    "parse_date",
    "parse_duration",
    "parse_schema_date_time",
    "parse_schema_duration",
    "parse_timestamp",
]

_SECOND = 1_000_000_000
_DURATION_CHARACTERS_MAX = 1_000  # far beyond what any duration needs; parsing takes quadratic time
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)
_LOCAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d{1,9}", re.ASCII)
_SCHEMA_DURATION_TERM = re.compile(r"([0-9]+)\s*([A-Za-zµ]+)")
# The last name of each unit is a prefix: "hours" is an hour.
_SCHEMA_UNITS = (
    (("ns", "nano"), 1),
    (("us", "µs", "micro"), 1_000),
    (("ms", "milli"), 1_000_000),
    (("s", "sec"), _SECOND),
    (("m", "min"), 60 * _SECOND),
    (("h", "hr", "hour"), 3600 * _SECOND),
    (("d", "day"), 24 * 3600 * _SECOND),
    (("w", "wk", "week"), 7 * 24 * 3600 * _SECOND),
)


def parse_timestamp(text: str) -> values.Timestamp:
    """Parse RFC 3339 with any fraction; a ValueError has no details."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError("not an RFC 3339 time")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, zone_hours, zone_minutes = match.groups()[6:]
    if year == 0:
        raise errors.EvaluationError("timestamp overflow")
    seconds = _seconds(dt.datetime(year, month, day, hour, minute, second, tzinfo=dt.UTC))
    offset = 0
    if sign:
        if int(zone_hours) > 24 or int(zone_minutes) > 60:
            raise ValueError("zone offset out of range")
        offset = (int(zone_hours) * 3600 + int(zone_minutes) * 60) * (-1 if sign == "-" else 1)
    seconds -= offset
    if not values.TIMESTAMP_SECONDS_MIN <= seconds <= values.TIMESTAMP_SECONDS_MAX:
        raise errors.EvaluationError("timestamp overflow")
    nanoseconds = int((fraction or "0")[:9].ljust(9, "0"))
    return values.Timestamp(seconds * _SECOND + nanoseconds, offset)


def parse_date(text: str) -> values.Timestamp:
    """Parse a full-date: midnight in UTC."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError("not a date")
    year, month, day = (int(part) for part in match.groups())
    return values.Timestamp(_seconds(dt.datetime(year, month, day, tzinfo=dt.UTC)) * _SECOND)


def parse_schema_date_time(text: str) -> values.Timestamp:
    """Parse a date-time of a schema: RFC 3339, the same without a zone, or empty for the epoch."""
    if not text:
        return values.Timestamp(0)
    return parse_timestamp(text + "Z" if _LOCAL.fullmatch(text) else text)


def parse_duration(text: str) -> values.Duration:
    """Parse Go's duration syntax."""
    if len(text) > _DURATION_CHARACTERS_MAX:
        raise ValueError("too long for a duration")
    return values.Duration(time.parse_duration_nanoseconds(text))


def parse_schema_duration(text: str) -> values.Duration:
    """Parse a duration of a schema: Go's syntax, or text such as ``3 days``."""
    try:
        return parse_duration(text)
    except ValueError:
        pass
    total = 0
    found = False
    for amount, word in _SCHEMA_DURATION_TERM.findall(text):
        unit = word.lower()
        for names, nanoseconds in _SCHEMA_UNITS:
            if unit in names or unit.startswith(names[-1]):
                total += int(amount) * nanoseconds
                found = True
    if not found:
        raise ValueError(f"unable to parse {text} as duration")
    return values.Duration(total)


def format_timestamp(timestamp: values.Timestamp) -> str:
    """Format as RFC 3339 with the fewest digits that lose nothing, in its original zone."""
    seconds, nanoseconds = divmod(timestamp.nanoseconds, _SECOND)
    moment = _moment(seconds + timestamp.offset_seconds)
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
    zone = "Z"
    if timestamp.offset_seconds:
        minutes = abs(timestamp.offset_seconds) // 60
        zone = f"{'-' if timestamp.offset_seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    day = f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}"
    return f"{day}T{moment.hour:02d}:{moment.minute:02d}:{moment.second:02d}{fraction}{zone}"


def format_duration(duration: values.Duration) -> str:
    """Format as decimal seconds with an ``s``, the only unit that CEL writes."""
    seconds, rest = divmod(abs(duration.nanoseconds), _SECOND)
    text = format(decimal.Decimal(repr(seconds + rest / _SECOND)), "f")
    return f"{'-' if duration.nanoseconds < 0 else ''}{text.removesuffix('.0')}s"


def in_zone(timestamp: values.Timestamp, zone: str) -> dt.datetime:
    """Return the calendar fields in a zone: an IANA name or an offset such as ``-08:00``."""
    seconds = timestamp.nanoseconds // _SECOND
    if ":" in zone:
        hours, minutes = (_number(part) for part in zone.split(":", 1))
        offset = hours * 60 + (-minutes if zone.startswith("-") else minutes)
        return _moment(seconds + offset * 60)
    if zone in {"", "UTC"}:
        return _moment(seconds)
    try:
        return _moment(seconds).astimezone(zoneinfo.ZoneInfo(zone))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise errors.EvaluationError(f"unknown time zone {zone}") from None


def _number(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise errors.EvaluationError(f"strconv.Atoi: parsing {golang.quote(text)}: invalid syntax")
    return int(text)


def _seconds(moment: dt.datetime) -> int:
    return (moment - _EPOCH) // dt.timedelta(seconds=1)


def _moment(seconds: int) -> dt.datetime:
    try:
        return _EPOCH + dt.timedelta(seconds=seconds)
    except OverflowError:
        raise errors.EvaluationError("timestamp overflow") from None
