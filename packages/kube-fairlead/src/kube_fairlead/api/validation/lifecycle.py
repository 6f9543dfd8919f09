"""The limits and error texts of lifecycle kinds, and the check of an event's new status.

The CRDs that `kube_fairlead.api.crds` makes enforce the same limits by schema and CEL.
"""

from __future__ import annotations

from typing import Any, Final

from kube_fairlead.api import wire
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.lifecycle_v1alpha1 import (
    LEGAL_MOVES,
    ClaimStatus,
    LifecycleEvent,
    LifecycleEventStatus,
)
from kube_fairlead.api.reserved import (
    NODE_SHUTDOWN,
    STATES_TO_END_WITH,
    STATES_TO_START_WITH,
    Transition,
)

__all__ = [
    "BLOCKED_BY_MAX_LENGTH",
    "CLAIM_FIELD_DETAIL",
    "CLAIM_STATUS_FIELDS",
    "END_ONLY_DETAIL",
    "FROZEN_STATUS_FIELDS",
    "LONG_DURATION_PATTERN",
    "MESSAGE_MAX_LENGTH",
    "ONE_NODE_CHOICE",
    "OPTIONS_MAX",
    "OPTION_MAX_LENGTH",
    "PODS_MAX",
    "RESERVED_NAME_DETAIL",
    "RESERVED_STATE_DETAIL",
    "SLA_DETAIL",
    "SLA_MAX_HOURS",
    "START_ONLY_DETAIL",
    "STATE_MAX_LENGTH",
    "reserved_states_detail",
    "validate_event_status_update",
]

STATE_MAX_LENGTH: Final = 128
MESSAGE_MAX_LENGTH: Final = 32_768
OPTIONS_MAX: Final = 64
OPTION_MAX_LENGTH: Final = 1024
PODS_MAX: Final = 128  # a kubelet runs 110 by default
BLOCKED_BY_MAX_LENGTH: Final = 512
ONE_NODE_CHOICE: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes` is required"
RESERVED_NAME_DETAIL: Final = (
    f"the transition {NODE_SHUTDOWN.name} is reserved: it goes from {NODE_SHUTDOWN.start} to {NODE_SHUTDOWN.end} "
    f"by driver {NODE_SHUTDOWN.driver}"
)
RESERVED_STATE_DETAIL: Final = f"reserved for the transition {NODE_SHUTDOWN.name}"
START_ONLY_DETAIL: Final = f"{' and '.join(STATES_TO_START_WITH)} are reserved: a transition may only start with them"
END_ONLY_DETAIL: Final = f"{' and '.join(STATES_TO_END_WITH)} is reserved: a transition may only end with it"
# Set in the write that claims the event, or never. A deadline that is added later could end another's claim.
CLAIM_STATUS_FIELDS: Final = ("driver", "sla", "claimedBy", "nodeUID", "transition", "options", "claimTime")
# Set once, and never changed or removed again.
FROZEN_STATUS_FIELDS: Final = ("firstSeenTime", "sequence", "startTime", "completionTime")
SLA_MAX_HOURS: Final = 999_999
"""Some 114 years. CEL and Go count nanoseconds in 64 bits, which is about two and a half times as much."""
CLAIM_FIELD_DETAIL: Final = "may only be set together with the claim, and is immutable afterwards"
SLA_DETAIL: Final = f"must be greater than zero and at most {SLA_MAX_HOURS}h"
LONG_DURATION_PATTERN: Final = (
    "[0-9]{7,}([.][0-9]*)?h|[0-9]{9,}([.][0-9]*)?m([^s]|$)|[0-9]{11,}([.][0-9]*)?s|[0-9]{14,}([.][0-9]*)?ms"
)
"""Durations with a number that is too large for its unit. Parsing one fails in words that no user understands."""

_STATUS: Final = FieldPath("status")


def validate_event_status_update(new: LifecycleEvent, old: LifecycleEvent) -> list[FieldError]:
    """What is wrong with a new status in place of an old one: an illegal move, or a frozen field that changed."""
    before, after = old.status, new.status
    path = _STATUS.child("claimStatus")
    if after.claim_status not in {"", *ClaimStatus}:
        return [FieldError.not_supported(path, after.claim_status, sorted(ClaimStatus))]
    errors: list[FieldError] = []
    source, target = old.claim_status, new.claim_status
    if source is not target and target not in LEGAL_MOVES[source]:
        legal = " or ".join(sorted(LEGAL_MOVES[source]))
        detail = f"{source} may only become {legal}" if legal else f"{source} is terminal and never changes"
        errors.append(FieldError.invalid(path, after.claim_status, detail))
    return errors + _frozen(after, before) + _sizes(after)


def reserved_states_detail(one: Transition) -> str:
    """The error for a reserved name that is used for something else."""
    return f"the transition {one.name} is reserved: it goes from {one.start} to {one.end}"


def _frozen(new: LifecycleEventStatus, old: LifecycleEventStatus) -> list[FieldError]:
    before, after = wire.to_dict(old), wire.to_dict(new)
    errors = [
        FieldError.invalid(_STATUS.child(field), after.get(field), "field is immutable once set")
        for field in FROZEN_STATUS_FIELDS
        if field in before and after.get(field) != before[field]
    ]
    is_claim = _is_pending(old) and not _is_pending(new)
    return errors + [
        FieldError.invalid(_STATUS.child(field), after.get(field), CLAIM_FIELD_DETAIL)
        for field in CLAIM_STATUS_FIELDS
        if not is_claim and after.get(field) != before.get(field)
    ]


def _is_pending(status: LifecycleEventStatus) -> bool:
    return status.claim_status in {"", ClaimStatus.PENDING}


def _sizes(status: LifecycleEventStatus) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(status.message) > MESSAGE_MAX_LENGTH:
        path = _STATUS.child("message")
        errors.append(FieldError.too_long_characters(path, status.message, MESSAGE_MAX_LENGTH))
    path = _STATUS.child("options")
    if len(status.options) > OPTIONS_MAX:
        errors.append(FieldError.too_many(path, len(status.options), OPTIONS_MAX))
    errors += [
        FieldError.too_long_characters(path.key(name), value, OPTION_MAX_LENGTH)
        for name, value in status.options.items()
        if len(value) > OPTION_MAX_LENGTH
    ]
    if len(status.pods) > PODS_MAX:
        errors.append(FieldError.too_many(_STATUS.child("pods"), len(status.pods), PODS_MAX))
    numbers: dict[str, Any] = {}
    if status.progress is not None:
        numbers = {"done": status.progress.done, "total": status.progress.total}
    errors += [
        FieldError.invalid(_STATUS.child("progress", name), value, "must be greater than or equal to 0")
        for name, value in numbers.items()
        if value < 0
    ]
    return errors
