"""How long pods get in a node shutdown: the kubelet's three settings, with the kubelet's rules.

    shutdownGracePeriod              for all pods together
    shutdownGracePeriodCriticalPods  the part of it that is reserved for critical pods
    shutdownGracePeriodByPodPriority [{priority, shutdownGracePeriodSeconds}], instead of the two above

The kubelet does not validate the list. This module does: a duplicate priority would leave the order of two groups
undefined, and a negative period would make the others longer than the operating system waits.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/kubelet/apis/config/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/kubelet/nodeshutdown/nodeshutdown_manager.go
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kube_fairlead.api import time as api_time

__all__ = [
    "DEFAULT_PRIORITY",
    "SYSTEM_CRITICAL_PRIORITY",
    "BadShutdownConfig",
    "Period",
    "ShutdownConfig",
    "read_shutdown_config",
]

DEFAULT_PRIORITY: Final = 0
SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000

_TOTAL: Final = "shutdownGracePeriod"
_CRITICAL: Final = "shutdownGracePeriodCriticalPods"
_LIST: Final = "shutdownGracePeriodByPodPriority"
_PRIORITY: Final = "priority"
_SECONDS: Final = "shutdownGracePeriodSeconds"
_INT32: Final = range(-(1 << 31), 1 << 31)
# A day. A longer period is a typing error, and no operating system waits that long.
_SECONDS_MAX: Final = 86_400
_ZERO: Final = dt.timedelta(0)
_SECOND: Final = dt.timedelta(seconds=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Period:
    """The seconds of pods with this priority or higher, up to the priority of the next period."""

    priority: int
    seconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class ShutdownConfig:
    """The periods in rising priority. Without periods, graceful shutdown is off."""

    periods: tuple[Period, ...] = ()

    @property
    def enabled(self) -> bool:
        """Whether graceful shutdown is on."""
        return bool(self.periods)

    @property
    def budget_seconds(self) -> int:
        """The seconds that the operating system must delay a shutdown."""
        return sum(period.seconds for period in self.periods)


class BadShutdownConfig(ValueError):
    """Raised when the settings are invalid; the message names every invalid field."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def read_shutdown_config(settings: Mapping[str, Any], *, gate_is_on: bool = True) -> ShutdownConfig:
    """Read the three fields of a kubelet's configuration; other fields are ignored.

    Raises:
        BadShutdownConfig: a field is invalid.
    """
    problems: list[str] = []
    total = _duration(settings, _TOTAL, problems)
    critical = _duration(settings, _CRITICAL, problems)
    periods = _periods(settings.get(_LIST), problems)
    if not problems:
        problems = _contradictions(total, critical, periods, gate_is_on=gate_is_on)
    if problems:
        raise BadShutdownConfig(problems)
    if periods:
        return ShutdownConfig(tuple(sorted(periods, key=lambda period: period.priority)))
    return ShutdownConfig(_migrated(total, critical))


def _contradictions(
    total: dt.timedelta, critical: dt.timedelta, periods: Sequence[Period], *, gate_is_on: bool
) -> list[str]:
    problems = []
    given = total != _ZERO or critical != _ZERO
    if not gate_is_on:
        if given:
            problems.append(
                f"invalid configuration: specifying {_TOTAL} or {_CRITICAL} requires feature gate GracefulNodeShutdown"
            )
        if periods:
            problems.append(f"invalid configuration: specifying {_LIST} requires feature gate GracefulNodeShutdown")
        return problems
    if critical > total:
        problems.append(
            f"invalid configuration: {_CRITICAL} {api_time.format_duration(critical)} "
            f"must be <= {_TOTAL} {api_time.format_duration(total)}"
        )
    for name, value in ((_TOTAL, total), (_CRITICAL, critical)):
        if value < _ZERO or _ZERO < value < _SECOND:
            problems.append(
                f"invalid configuration: {name} {api_time.format_duration(value)} "
                "must be either zero or otherwise >= 1 sec"
            )
    if total > _SECONDS_MAX * _SECOND:
        problems.append(f"invalid configuration: {_TOTAL} {api_time.format_duration(total)} must be <= 24h")
    if periods and given:
        problems.append(f"invalid configuration: Cannot specify both {_LIST} and {_TOTAL} at the same time")
    return problems


def _duration(settings: Mapping[str, Any], name: str, problems: list[str]) -> dt.timedelta:
    value = settings.get(name)
    if value is None:
        return _ZERO
    try:
        if isinstance(value, str):
            return api_time.parse_duration(value)
    except (ValueError, OverflowError):
        pass
    problems.append(f"invalid configuration: {name} {value!r} must be a duration such as '30s' or '2m'")
    return _ZERO


def _periods(value: Any, problems: list[str]) -> list[Period]:
    if value is None:
        return []
    if not isinstance(value, list):
        problems.append(f"invalid configuration: {_LIST} must be a list")
        return []
    found: list[Period] = []
    for index, entry in enumerate(value):
        path = f"{_LIST}[{index}]"
        if not isinstance(entry, Mapping):
            problems.append(f"invalid configuration: {path} must have {_PRIORITY} and {_SECONDS}")
            continue
        if unknown := sorted(str(key) for key in set(entry) - {_PRIORITY, _SECONDS}):
            problems.append(
                f"invalid configuration: {path}.{unknown[0]} is unknown; known fields: {_PRIORITY}, {_SECONDS}"
            )
        priority, seconds = entry.get(_PRIORITY, 0), entry.get(_SECONDS, 0)
        if type(priority) is not int or priority not in _INT32:
            problems.append(f"invalid configuration: {path}.{_PRIORITY} {priority!r} must be a 32-bit integer")
        elif any(period.priority == priority for period in found):
            problems.append(f"invalid configuration: {path}.{_PRIORITY} {priority} is a duplicate")
        elif type(seconds) is not int or not 0 <= seconds <= _SECONDS_MAX:
            problems.append(
                f"invalid configuration: {path}.{_SECONDS} {seconds!r} must be an integer from 0 to {_SECONDS_MAX}"
            )
        else:
            found.append(Period(priority, seconds))
    total = sum(period.seconds for period in found)
    if total > _SECONDS_MAX:
        problems.append(f"invalid configuration: {_LIST} adds up to {total} seconds, more than {_SECONDS_MAX}")
    return found


def _migrated(total: dt.timedelta, critical: dt.timedelta) -> tuple[Period, ...]:
    """Convert the two older fields to periods, in whole seconds as the kubelet counts them."""
    if total == _ZERO:
        return ()
    return (
        Period(DEFAULT_PRIORITY, (total - critical) // _SECOND),
        Period(SYSTEM_CRITICAL_PRIORITY, critical // _SECOND),
    )
