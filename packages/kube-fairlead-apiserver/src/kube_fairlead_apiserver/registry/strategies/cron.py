"""Validation of cron schedules.

Upstream: github.com/robfig/cron/v3@v3.0.1/parser.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/batch/validation/validation.go
"""

from __future__ import annotations

import re
from typing import Final

from kube_fairlead.api import golang
from kube_fairlead.api.time import parse_duration

__all__ = ["schedule_error"]

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# Lowest and highest value of each field, and the names that values have.
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, start=1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_EVERY: Final = "@every "
_MAX_DIGITS: Final = 18
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


class _Unreadable(ValueError):
    """The schedule is invalid; the message has the reason."""


def schedule_error(schedule: str) -> str:
    """Return the error of a schedule; empty when it is valid."""
    try:
        _read(schedule)
    except _Unreadable as error:
        return str(error)
    return ""


def _read(schedule: str) -> None:
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        schedule = schedule.partition(" ")[2].strip()  # the field's own rule rejects a time zone in the schedule
    if schedule.startswith("@"):
        _read_descriptor(schedule)
        return
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        raise _Unreadable(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    for field, (low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in filter(None, field.split(",")):
            _read_range(part, low, high, names)


def _read_descriptor(descriptor: str) -> None:
    if descriptor in _DESCRIPTORS:
        return
    if not descriptor.startswith(_EVERY):
        raise _Unreadable(f"unrecognized descriptor: {descriptor}")
    try:
        parse_duration(descriptor.removeprefix(_EVERY))
    except ValueError as error:
        raise _Unreadable(f"failed to parse duration {descriptor}: {error}") from error


def _read_range(part: str, low: int, high: int, names: dict[str, int]) -> None:
    bounds, *steps = part.split("/")
    first, *last = bounds.split("-")
    if first in {"*", "?"}:
        start, end = low, high
    else:
        start = _number(first, names)
        if len(last) > 1:
            raise _Unreadable(f"too many hyphens: {part}")
        end = _number(last[0], names) if last else start
    if len(steps) > 1:
        raise _Unreadable(f"too many slashes: {part}")
    step = _number(steps[0], {}) if steps else 1
    if steps and not last:
        end = high  # "5/10" is every tenth value from five on
    if start < low:
        raise _Unreadable(f"beginning of range ({start}) below minimum ({low}): {part}")
    if end > high:
        raise _Unreadable(f"end of range ({end}) above maximum ({high}): {part}")
    if start > end:
        raise _Unreadable(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if step == 0:
        raise _Unreadable(f"step of range should be a positive number: {part}")


def _number(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if not _INTEGER.fullmatch(text) or len(text) > _MAX_DIGITS:
        cause = "value out of range" if _INTEGER.fullmatch(text) else "invalid syntax"
        raise _Unreadable(f"failed to parse int from {text}: strconv.Atoi: parsing {golang.quote(text)}: {cause}")
    if int(text) < 0:
        raise _Unreadable(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
