"""Times and durations as Kubernetes writes them: RFC 3339 in seconds or microseconds, and Go's duration syntax.

A duration has nanoseconds in Go and microseconds in Python, so there are two pairs of functions: `parse_duration` and
`format_duration` for arithmetic with datetimes, the `_nanoseconds` ones where nothing may be lost.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/apis/meta/v1/time.go,
    k8s.io/apimachinery@v0.36.4/pkg/apis/meta/v1/micro_time.go,
    k8s.io/apimachinery@v0.36.4/pkg/apis/meta/v1/duration.go
"""

from __future__ import annotations

import datetime as dt
import functools
import re

__all__ = [
    "canonical_micro_time",
    "canonical_time",
    "format_duration",
    "format_duration_nanoseconds",
    "format_micro_time",
    "format_time",
    "parse_duration",
    "parse_duration_nanoseconds",
    "parse_micro_time",
    "parse_time",
]

_LAYOUT_SECONDS = "2006-01-02T15:04:05Z07:00"
_LAYOUT_MICROS = "2006-01-02T15:04:05.000000Z07:00"

_CANONICAL_LENGTH = len("2006-01-02T15:04:05Z")
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)
_MICRO_TIME = re.compile(r".*:\d\d[.,]\d{6}(?:Z|[+-].*)", re.ASCII)
# The pieces Go's parser walks through: what each looks like, the name its message gives to it, and its bounds.
_PIECES = (
    (r"\d{4}", "2006", "", 0, 0),
    ("-", "-", "", 0, 0),
    (r"\d\d", "01", "month", 1, 12),
    ("-", "-", "", 0, 0),
    (r"\d\d", "02", "", 0, 0),
    ("T", "T", "", 0, 0),
    (r"\d\d?", "15", "hour", 0, 23),
    (":", ":", "", 0, 0),
    (r"\d\d", "04", "minute", 0, 59),
    (":", ":", "", 0, 0),
    (r"\d\d", "05", "second", 0, 59),
)
_FRACTION = {
    _LAYOUT_SECONDS: (r"(?:[.,]\d+)?", "", "", 0, 0),
    _LAYOUT_MICROS: (r"[.,]\d{6}", ".000000", "", 0, 0),
}
_ZONE = (r"Z|[+-]\d\d:\d\d", "Z07:00", "", 0, 0)


def parse_time(text: str) -> dt.datetime:
    """Read an RFC 3339 time into an aware UTC datetime; a fraction is kept to the microsecond."""
    return _parse(text, _LAYOUT_SECONDS)


def parse_micro_time(text: str) -> dt.datetime:
    """Read a MicroTime, which must have exactly six digits after the point, as in Kubernetes."""
    if not _MICRO_TIME.fullmatch(text):
        raise ValueError(_explain(text, _LAYOUT_MICROS))
    return _parse(text, _LAYOUT_MICROS)


def format_time(moment: dt.datetime) -> str:
    """A Time: UTC, whole seconds, `Z`."""
    utc = _utc(moment)
    return _format_parts(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second)


@functools.lru_cache(maxsize=64)
def _format_parts(year: int, month: int, day: int, hour: int, minute: int, second: int) -> str:
    # A busy server stamps thousands of objects within a second.
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}Z"


def format_micro_time(moment: dt.datetime) -> str:
    """A MicroTime: UTC, six digits after the point, `Z`."""
    return f"{format_time(moment)[:-1]}.{_utc(moment).microsecond:06d}Z"


def canonical_time(text: str) -> str:
    """A Time as Kubernetes writes it back: clients may send fractions and other zones (`+00:00` says Python)."""
    moment = parse_time(text)
    return text if len(text) == _CANONICAL_LENGTH and text[-1] == "Z" else format_time(moment)


def canonical_micro_time(text: str) -> str:
    """A MicroTime as Kubernetes writes it back."""
    return format_micro_time(parse_micro_time(text))


def _utc(moment: dt.datetime) -> dt.datetime:
    if moment.tzinfo is None:
        raise ValueError("a time without a zone has no place on the wire")
    return moment.astimezone(dt.UTC)


@functools.lru_cache(maxsize=512)
def _parse(text: str, layout: str) -> dt.datetime:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(_explain(text, layout))
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, zone_hour, zone_minute = match.groups()[6:]
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    try:
        moment = dt.datetime(year, month, day, hour, minute, second, micros, tzinfo=dt.UTC)
        if sign:
            # Go lets an offset be as large as 24:60.
            offset = dt.timedelta(hours=_at_most(zone_hour, 24), minutes=_at_most(zone_minute, 60))
            moment = moment - offset if sign == "+" else moment + offset
    except (ValueError, OverflowError):
        raise ValueError(_explain(text, layout)) from None
    return moment


def _at_most(digits: str, limit: int) -> int:
    value = int(digits)
    if value > limit:
        raise ValueError(digits)
    return value


def _explain(text: str, layout: str) -> str:
    """Go's message for a time that cannot be read: it names the first piece that does not fit."""
    rest = text
    for pattern, name, bounded, low, high in (*_PIECES, _FRACTION[layout], _ZONE):
        match = re.match(pattern, rest, re.ASCII)
        if match is None:
            return f"parsing time {_quote(text)} as {_quote(layout)}: cannot parse {_quote(rest)} as {_quote(name)}"
        piece, rest = match.group(), rest[match.end() :]
        if bounded and not low <= int(piece) <= high:
            return f"parsing time {_quote(text)}: {bounded} out of range"
        if name == "Z07:00" and piece != "Z":
            for part, value, limit in (("hour", piece[1:3], 24), ("minute", piece[4:], 60)):
                if int(value) > limit:
                    return f"parsing time {_quote(text)}: time zone offset {part} out of range"
    if rest:
        return f"parsing time {_quote(text)}: extra text: {_quote(rest)}"
    return f"parsing time {_quote(text)}: day out of range"


def _quote(text: str) -> str:
    """Go's time package quotes for itself: every byte outside of printable ASCII in hex."""
    chars = (chr(byte) if 0x20 <= byte < 0x80 else f"\\x{byte:02x}" for byte in text.encode())
    return '"' + "".join("\\" + char if char in {'"', "\\"} else char for char in chars) + '"'


_UNITS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,  # micro sign
    "\u03bcs": 1_000,  # Greek letter mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM = re.compile(r"([0-9]*)(\.([0-9]*))?([^.0-9]*)")
_MAX_NANOSECONDS = 2**63 - 1
_MAX_DIGITS = 19  # more are more than any unit can hold, and slow to read


def parse_duration_nanoseconds(text: str) -> int:
    """Read a Go duration such as `1h30m` or `-1.5s`; a ValueError has Go's message."""
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return 0
    if not rest:
        raise ValueError(f"time: invalid duration {_quote(text)}")
    total = 0
    at, end = len(text) - len(rest), len(text)
    while at < end:
        match = _TERM.match(text, at)
        whole, _, fraction, unit = match.groups() if match else ("", None, None, "")
        if (not whole and not fraction) or len(whole.lstrip("0")) > _MAX_DIGITS:
            raise ValueError(f"time: invalid duration {_quote(text)}")
        if not unit:
            raise ValueError(f"time: missing unit in duration {_quote(text)}")
        if unit not in _UNITS:
            raise ValueError(f"time: unknown unit {_quote(unit)} in duration {_quote(text)}")
        digits = (fraction or "")[:18]
        total += int(whole or 0) * _UNITS[unit] + int(digits or 0) * _UNITS[unit] // 10 ** len(digits)
        if total > _MAX_NANOSECONDS + (text[0] == "-"):
            raise ValueError(f"time: invalid duration {_quote(text)}")
        at = match.end() if match else end
    return -total if text[0] == "-" else total


def parse_duration(text: str) -> dt.timedelta:
    """Read a Go duration; what is finer than a microsecond is cut off."""
    nanoseconds = parse_duration_nanoseconds(text)
    micros = abs(nanoseconds) // 1_000
    return dt.timedelta(microseconds=-micros if nanoseconds < 0 else micros)


def format_duration_nanoseconds(nanoseconds: int) -> str:
    """Write a duration as Go's `Duration.String` does."""
    sign = "-" if nanoseconds < 0 else ""
    rest = abs(nanoseconds)
    if rest == 0:
        return "0s"
    for unit, size, limit in (("ns", 1, 1_000), ("\u00b5s", 1_000, 1_000_000), ("ms", 1_000_000, 1_000_000_000)):
        if rest < limit:
            return f"{sign}{_decimal(rest, size)}{unit}"
    minutes, rest = divmod(rest, 60_000_000_000)
    seconds = _decimal(rest, 1_000_000_000)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}s"
    return f"{sign}{minutes}m{seconds}s" if minutes else f"{sign}{seconds}s"


def format_duration(duration: dt.timedelta) -> str:
    """Write a duration as Go's `Duration.String` does."""
    return format_duration_nanoseconds(duration // dt.timedelta(microseconds=1) * 1_000)


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    if not rest:
        return str(whole)
    return f"{whole}.{rest:0{len(str(unit)) - 1}d}".rstrip("0")
