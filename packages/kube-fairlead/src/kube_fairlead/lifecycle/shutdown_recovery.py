"""What an agent that has just started makes of what it finds: is this machine going down, and since when?

Four witnesses: the file on the node's disk, the LifecycleEvent and the condition in the API, and the system itself
(logind's PreparingForShutdown). The file and the event name the boot they speak of. A condition does not, so its time
is compared with the time of the boot. So a restart never makes a node that is going down look as if it were not
(invariant 10).

    the system says     of this boot    called off    of an earlier boot    nothing
    going down          GoOn            Begin         Begin                 Begin
    not going down      CalledOff       CalledOff     CameBack              StandBy
    nothing             GoOn            CalledOff     CameBack              StandBy

Where the system says nothing and the time is long past, the machine is evidently still up: CalledOff.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Final

__all__ = [
    "WORDS_CALLED_OFF",
    "WORDS_CAME_BACK",
    "Begin",
    "Cancelled",
    "Found",
    "NoShutdown",
    "Rebooted",
    "Recovery",
    "Resume",
    "Witness",
    "recover",
]

# What the event of a shutdown says in the end, whoever comes to say it: the agent, or the observer from elsewhere.
WORDS_CALLED_OFF: Final = "the shutdown of the node was called off"
WORDS_CAME_BACK: Final = "the node went down and is up again"

# A machine that was to go down and has not done so in this time after its budget does not go down any more.
_GIVEN_UP_AFTER = dt.timedelta(minutes=10)


@dataclasses.dataclass(frozen=True, slots=True)
class Witness:
    """What one source says about a shutdown."""

    started_at: dt.datetime
    boot_id: str = ""  # empty: it does not say
    complete: bool = False  # all pods have ended
    called_off: bool = False  # it is over, and only not wound up yet

    def is_of_boot(self, boot_id: str, booted_at: dt.datetime) -> bool:
        """Whether it speaks of the boot the machine is in."""
        if self.boot_id and boot_id:
            return self.boot_id == boot_id
        return self.started_at >= booted_at


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Everything that a starting agent can know."""

    boot_id: str
    booted_at: dt.datetime
    now: dt.datetime
    budget_seconds: float
    preparing: bool | None  # None: nobody to ask
    file: Witness | None = None
    event: Witness | None = None
    condition: Witness | None = None

    @property
    def witnesses(self) -> tuple[Witness, ...]:
        """Those that say something."""
        return tuple(witness for witness in (self.file, self.event, self.condition) if witness is not None)


@dataclasses.dataclass(frozen=True, slots=True)
class NoShutdown:
    """Nothing is under way and nothing is left over."""


@dataclasses.dataclass(frozen=True, slots=True)
class Begin:
    """The machine is going down and nobody here has noticed yet. `left_over`: an earlier shutdown is to be wound up."""

    left_over: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Resume:
    """A shutdown is under way since then."""

    started_at: dt.datetime
    complete: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Cancelled:
    """There was a shutdown in this boot, and the machine is not going down any more."""

    started_at: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class Rebooted:
    """The machine went down and is up again."""

    started_at: dt.datetime
    complete: bool


Recovery = NoShutdown | Begin | Resume | Cancelled | Rebooted


def recover(found: Found) -> Recovery:
    """Decide."""
    current = [one for one in found.witnesses if one.is_of_boot(found.boot_id, found.booted_at)]
    earlier = [one for one in found.witnesses if one not in current]
    if current:
        started_at = min(one.started_at for one in current)
        complete = any(one.complete for one in current)
        if any(one.called_off for one in current):
            return Begin(left_over=True) if found.preparing else Cancelled(started_at)
        if found.preparing is False or (found.preparing is None and _is_long_past(found, started_at)):
            return Cancelled(started_at)
        return Resume(started_at, complete)
    if found.preparing:
        return Begin(left_over=bool(earlier))
    if earlier:
        return Rebooted(min(one.started_at for one in earlier), any(one.complete for one in earlier))
    return NoShutdown()


def _is_long_past(found: Found, started_at: dt.datetime) -> bool:
    return found.now > started_at + dt.timedelta(seconds=found.budget_seconds) + _GIVEN_UP_AFTER
