"""Whether the node is shutting down when an agent starts, and since when.

Four sources: the state file on the node's disk, the LifecycleEvent, the Node condition, and the operating system
(logind's PreparingForShutdown). The file and the event contain the boot id. A condition does not, so its time is
compared with the time of the boot. A restarted agent therefore never ignores a shutdown in progress (invariant 10).

    operating system      evidence: this boot    cancelled    earlier boot    none
    shutting down         Resume                 Begin        Begin           Begin
    not shutting down     Cancelled              Cancelled    Rebooted        NoShutdown
    unknown               Resume                 Cancelled    Rebooted        NoShutdown

When the operating system cannot say and the shutdown should have ended long ago, the node is still up: Cancelled.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Final

__all__ = [
    "MESSAGE_CANCELLED",
    "MESSAGE_REBOOTED",
    "Begin",
    "Cancelled",
    "NoShutdown",
    "Rebooted",
    "Recovery",
    "RecoveryFacts",
    "Resume",
    "ShutdownEvidence",
    "recover",
]

# The final message of a shutdown's event. The agent or the shutdown observer of the controller manager writes it.
MESSAGE_CANCELLED: Final = "the shutdown of the node was cancelled"
MESSAGE_REBOOTED: Final = "the node shut down and started again"

# A node that is still up so long after its pods' time does not shut down any more.
_GIVEN_UP_AFTER = dt.timedelta(minutes=10)


@dataclasses.dataclass(frozen=True, slots=True)
class ShutdownEvidence:
    """What one source says about a shutdown."""

    started_at: dt.datetime
    boot_id: str = ""  # empty: unknown
    complete: bool = False  # all pods have ended
    cancelled: bool = False  # cancelled, and its effects are not reverted yet

    def is_of_boot(self, boot_id: str, booted_at: dt.datetime) -> bool:
        """Whether it is about the present boot."""
        if self.boot_id and boot_id:
            return self.boot_id == boot_id
        return self.started_at >= booted_at


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryFacts:
    """The facts that a starting agent decides from."""

    boot_id: str
    booted_at: dt.datetime
    now: dt.datetime
    budget_seconds: float
    preparing: bool | None  # None: the operating system cannot say
    file: ShutdownEvidence | None = None
    event: ShutdownEvidence | None = None
    condition: ShutdownEvidence | None = None

    @property
    def evidence(self) -> tuple[ShutdownEvidence, ...]:
        """The evidence of all sources that have any."""
        return tuple(one for one in (self.file, self.event, self.condition) if one is not None)


@dataclasses.dataclass(frozen=True, slots=True)
class NoShutdown:
    """No shutdown is in progress, and none is left to finish."""


@dataclasses.dataclass(frozen=True, slots=True)
class Begin:
    """The node shuts down, and no agent has recorded it yet. `left_over`: an earlier shutdown is not finished."""

    left_over: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Resume:
    """A shutdown is in progress since then."""

    started_at: dt.datetime
    complete: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Cancelled:
    """A shutdown began in this boot, and the node does not shut down any more."""

    started_at: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True)
class Rebooted:
    """The node shut down and started again."""

    started_at: dt.datetime
    complete: bool


Recovery = NoShutdown | Begin | Resume | Cancelled | Rebooted


def recover(facts: RecoveryFacts) -> Recovery:
    """Decide which case it is."""
    current = [one for one in facts.evidence if one.is_of_boot(facts.boot_id, facts.booted_at)]
    earlier = [one for one in facts.evidence if one not in current]
    if current:
        started_at = min(one.started_at for one in current)
        complete = any(one.complete for one in current)
        if any(one.cancelled for one in current):
            return Begin(left_over=True) if facts.preparing else Cancelled(started_at)
        if facts.preparing is False or (facts.preparing is None and _is_long_past(facts, started_at)):
            return Cancelled(started_at)
        return Resume(started_at, complete)
    if facts.preparing:
        return Begin(left_over=bool(earlier))
    if earlier:
        return Rebooted(min(one.started_at for one in earlier), any(one.complete for one in earlier))
    return NoShutdown()


def _is_long_past(facts: RecoveryFacts, started_at: dt.datetime) -> bool:
    return facts.now > started_at + dt.timedelta(seconds=facts.budget_seconds) + _GIVEN_UP_AFTER
