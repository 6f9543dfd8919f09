"""The options of a drain: the flags of kubectl drain, with its names, meanings and defaults.

On the event they are annotations (`drain.fairlead.dev/<flag>`), here they are typed values.

Upstream: k8s.io/kubectl@v0.36.4/pkg/cmd/drain/drain.go,
    k8s.io/kubectl@v0.36.4/pkg/drain/drain.go
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, Final

from kube_fairlead.api import selectors
from kube_fairlead.api import time as api_time

__all__ = ["KUBECTL", "PROFILE", "DrainOptions", "OptionError", "parse", "parse_uncordon", "spell"]


class OptionError(ValueError):
    """Raised for an unknown option or an invalid value. The message names the option and the valid values."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DrainOptions:
    """How to drain. The defaults are kubectl's."""

    force: bool = False  # delete pods without a controller too
    ignore_daemonsets: bool = False  # skip their pods; else the drain fails
    delete_emptydir_data: bool = False
    grace_period: int = -1  # seconds; negative: the pod's own
    timeout: dt.timedelta = dt.timedelta(0)  # zero: none
    pod_selector: str = ""
    disable_eviction: bool = False  # delete pods instead, without regard to disruption budgets
    skip_wait_for_delete_timeout: int = 0  # seconds; skip pods that were deleted longer ago
    # Not in kubectl: the lowest priority of each group. A group is evicted after all lower groups have ended.
    priority_groups: tuple[int, ...] = ()

    @property
    def grace_seconds(self) -> int | None:
        """The gracePeriodSeconds of a deletion; None: the pod's own period applies."""
        return None if self.grace_period < 0 else self.grace_period


KUBECTL: Final = DrainOptions()
# The defaults of an event without options, as the driver of the proposal sets them.
PROFILE: Final = DrainOptions(force=True, ignore_daemonsets=True, delete_emptydir_data=True)

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _boolean(text: str) -> bool:
    # kubectl accepts Go's spellings.
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError("must be true or false")


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("must be a whole number") from None


def _duration(text: str) -> dt.timedelta:
    value = dt.timedelta(0) if text == "0" else api_time.parse_duration(text)
    if value < dt.timedelta(0):
        raise ValueError("must not be negative")
    return value


def _selector(text: str) -> str:
    selectors.parse_label_selector(text)
    return text


def _groups(text: str) -> tuple[int, ...]:
    groups = tuple(_integer(part.strip()) for part in text.split(",")) if text.strip() else ()
    if list(groups) != sorted(set(groups)):
        raise ValueError("must be rising priorities separated by commas, such as 0,1000,2000000000")
    return groups


_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "force": _boolean,
    "ignore-daemonsets": _boolean,
    "delete-emptydir-data": _boolean,
    "grace-period": _integer,
    "timeout": _duration,
    "pod-selector": _selector,
    "disable-eviction": _boolean,
    "skip-wait-for-delete-timeout": _integer,
    "priority-groups": _groups,
}


def parse(texts: Mapping[str, str], default: DrainOptions = PROFILE) -> DrainOptions:
    """Parse options by flag name. A missing option has the value of the default.

    Raises:
        OptionError: an unknown flag or an invalid value. Neither is ignored: a typing error must not evict pods.
    """
    changes = {_field(name): _parsed(name, text) for name, text in texts.items()}
    return dataclasses.replace(default, **changes)


def spell(options: DrainOptions) -> dict[str, str]:
    """Return every option as text, by flag name. `parse` returns the same options, whatever its default."""
    return {name: _text(getattr(options, _field(name))) for name in _PARSERS}


def parse_uncordon(texts: Mapping[str, str]) -> bool:
    """Whether an uncordon may remove another client's cordon.

    Raises:
        OptionError: an unknown flag or an invalid value.
    """
    unknown = sorted(set(texts) - {"force"})
    if unknown:
        raise OptionError(f"unknown option {unknown[0]}; node-uncordon knows force")
    return bool(_parsed("force", texts["force"])) if "force" in texts else False


def _field(name: str) -> str:
    if name not in _PARSERS:
        raise OptionError(f"unknown option {name}; node-drain knows {', '.join(_PARSERS)}")
    return name.replace("-", "_")


def _parsed(name: str, text: str) -> Any:
    try:
        return _PARSERS[name](text)
    except ValueError as error:
        raise OptionError(f"option {name}: {text!r}: {error}") from error


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.timedelta):
        return api_time.format_duration(value)
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)
    return str(value)
