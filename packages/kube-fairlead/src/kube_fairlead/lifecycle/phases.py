"""Move an event from one claim status to the next. The API's own table lists the legal moves."""

from __future__ import annotations

from typing import Any, Final

from kube_fairlead.api.lifecycle_v1alpha1 import LEGAL_MOVES, ClaimStatus, LifecycleEventStatus
from kube_fairlead.api.validation.lifecycle import MESSAGE_MAX_LENGTH
from kube_fairlead.api.wire import replace

__all__ = ["WAITING", "IllegalPhaseChange", "advance", "phase_of", "shortened"]

WAITING: Final = "waiting: "
"""The prefix of a pending event's message."""

_CUT = "..."


class IllegalPhaseChange(ValueError):
    """Raised when a claim status may not follow the current one."""

    def __init__(self, source: ClaimStatus, target: ClaimStatus) -> None:
        self.source = source
        self.target = target
        super().__init__(f"an event that is {source} cannot become {target}")


def phase_of(status: LifecycleEventStatus) -> ClaimStatus:
    """Return the claim status; raise ValueError for one that this version does not know."""
    return ClaimStatus(status.claim_status or ClaimStatus.PENDING)


def advance(status: LifecycleEventStatus, target: ClaimStatus, **changes: Any) -> LifecycleEventStatus:
    """Return the status after a move, with the other fields that change with it.

    Raises:
        IllegalPhaseChange: the table has no such move. To keep the claim status, use `wire.replace`.
    """
    source = phase_of(status)
    if target not in LEGAL_MOVES[source]:
        raise IllegalPhaseChange(source, target)
    return replace(status, claim_status=target, **changes)


def shortened(message: str) -> str:
    """Cut a message to the length that the API accepts."""
    if len(message) <= MESSAGE_MAX_LENGTH:
        return message
    return message[: MESSAGE_MAX_LENGTH - len(_CUT)] + _CUT
