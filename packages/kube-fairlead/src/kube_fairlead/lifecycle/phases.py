"""Moving an event from one claim status to the next. The table of legal moves is the API's own."""

from __future__ import annotations

from typing import Any, Final

from kube_fairlead.api.lifecycle_v1alpha1 import LEGAL_MOVES, ClaimStatus, LifecycleEventStatus
from kube_fairlead.api.validation.lifecycle import MESSAGE_MAX_LENGTH
from kube_fairlead.api.wire import replace

__all__ = ["WAITING", "IllegalPhaseChange", "advance", "phase_of", "shortened"]

WAITING: Final = "waiting: "
"""How the message of a pending event begins."""

_CUT = "..."


class IllegalPhaseChange(ValueError):
    """Raised when a status is asked to go where the table does not lead."""

    def __init__(self, source: ClaimStatus, target: ClaimStatus) -> None:
        self.source = source
        self.target = target
        super().__init__(f"an event that is {source} cannot become {target}")


def phase_of(status: LifecycleEventStatus) -> ClaimStatus:
    """Where an event of this status stands; a ValueError for one that this version does not know."""
    return ClaimStatus(status.claim_status or ClaimStatus.PENDING)


def advance(status: LifecycleEventStatus, target: ClaimStatus, **changes: Any) -> LifecycleEventStatus:
    """The status after a move, with whatever else changes at that moment.

    Raises:
        IllegalMove: the table has no such move. Staying is none: use `wire.replace` for that.
    """
    source = phase_of(status)
    if target not in LEGAL_MOVES[source]:
        raise IllegalPhaseChange(source, target)
    return replace(status, claim_status=target, **changes)


def shortened(message: str) -> str:
    """A message that the API accepts, whoever wrote it."""
    if len(message) <= MESSAGE_MAX_LENGTH:
        return message
    return message[: MESSAGE_MAX_LENGTH - len(_CUT)] + _CUT
