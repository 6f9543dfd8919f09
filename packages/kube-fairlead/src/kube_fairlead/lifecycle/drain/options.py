"""What a drain is asked to do: the flags of kubectl drain, with its names, meanings and defaults.

On the wire they are text (annotations `drain.fairlead.dev/<flag>` on the event), here they are a value.

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
    """Raised for an option that does not exist or has a value that it cannot have. Says which and what would do."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DrainOptions:
    """How to drain. The defaults are kubectl's."""

    force: bool = False  # pods without a controller go too
    ignore_daemonsets: bool = False  # their pods stay; else they make the drain refuse
    delete_emptydir_data: bool = False
    grace_period: int = -1  # seconds; negative: the pod's own
    timeout: dt.timedelta = dt.timedelta(0)  # zero: none
    pod_selector: str = ""
    disable_eviction: bool = False  # delete instead, whatever the disruption budgets say
    skip_wait_for_delete_timeout: int = 0  # seconds after which a deleted pod that is still there is not waited for
    # Not kubectl's: where groups of pods begin, by priority. A group goes when all lower ones are gone.
    priority_groups: tuple[int, ...] = ()

    @property
    def grace_seconds(self) -> int | None:
        """What to say in a deletion; None says nothing, so that the pod's own period counts."""
        return None if self.grace_period < 0 else self.grace_period


KUBECTL: Final = DrainOptions()
# What an event that says nothing gets: the proposal's own driver sets these.
PROFILE: Final = DrainOptions(force=True, ignore_daemonsets=True, delete_emptydir_data=True)

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _boolean(text: str) -> bool:
    # Go's spellings, which kubectl accepts.
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
    """Options from their texts, by flag name; what is not given is as in the default.

    Raises:
        OptionError: an unknown flag or a bad value. Neither is ever ignored: a typing error must not evict pods.
    """
    changes = {_field(name): _parsed(name, text) for name, text in texts.items()}
    return dataclasses.replace(default, **changes)


def spell(options: DrainOptions) -> dict[str, str]:
    """Every option as text, by flag name: `parse` gives the same options again, whatever its default."""
    return {name: _text(getattr(options, _field(name))) for name in _PARSERS}


def parse_uncordon(texts: Mapping[str, str]) -> bool:
    """Whether an uncordon may undo somebody else's cordon.

    Raises:
        OptionError: an unknown flag or a bad value.
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
