"""The rules for lifecycle kinds. The CRDs that `kube_fairlead.api.crds` makes hold the same rules as schema and CEL."""

from __future__ import annotations

import re
from typing import Any, Final

from kube_fairlead.api import names, wire
from kube_fairlead.api import time as api_time
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.lifecycle_v1alpha1 import (
    LEGAL_MOVES,
    ClaimStatus,
    LifecycleEvent,
    LifecycleEventStatus,
    LifecycleTransition,
    LifecycleTransitionSpec,
)
from kube_fairlead.api.parts import Part
from kube_fairlead.api.reserved import (
    NODE_DRAIN,
    NODE_SHUTDOWN,
    NODE_UNCORDON,
    STATES_TO_END_WITH,
    STATES_TO_START_WITH,
    Transition,
)
from kube_fairlead.api.validation.selectors import validate_node_selector

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
    "validate_event",
    "validate_event_status_update",
    "validate_event_update",
    "validate_transition",
    "validate_transition_update",
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

_LONG_DURATION: Final = re.compile(LONG_DURATION_PATTERN)
_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")


def validate_transition(transition: LifecycleTransition) -> list[FieldError]:
    """What is wrong with a transition."""
    spec = transition.spec
    return [
        *_state(spec.start, _SPEC.child("start")),
        *_state(spec.end, _SPEC.child("end")),
        *_node_choice(spec),
        *_sla(spec),
        *_named(spec.driver, _SPEC.child("driver"), names.qualified_name(spec.driver)),
        *_reserved(transition),
        *_misplaced(transition),
    ]


def validate_transition_update(new: LifecycleTransition, old: LifecycleTransition) -> list[FieldError]:
    """What is wrong with a transition in place of an older one: its spec never changes."""
    return validate_transition(new) + _immutable_spec(new.spec, old.spec)


def validate_event(event: LifecycleEvent) -> list[FieldError]:
    """What is wrong with an event, its status aside."""
    spec = event.spec
    return [
        *_named(spec.transition_name, _SPEC.child("transitionName"), names.dns1123_subdomain(spec.transition_name)),
        *_named(spec.binding_node, _SPEC.child("bindingNode"), names.dns1123_subdomain(spec.binding_node)),
    ]


def validate_event_update(new: LifecycleEvent, old: LifecycleEvent) -> list[FieldError]:
    """What is wrong with an event in place of an older one: its spec never changes."""
    return validate_event(new) + _immutable_spec(new.spec, old.spec)


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


def _state(value: str, path: FieldPath) -> list[FieldError]:
    if not value:
        return [FieldError.required(path)]
    too_long = len(value) > STATE_MAX_LENGTH
    return [FieldError.too_long_characters(path, value, STATE_MAX_LENGTH)] if too_long else []


def _named(value: str, path: FieldPath, messages: list[str]) -> list[FieldError]:
    if not value:
        return [FieldError.required(path)]
    return [FieldError.invalid(path, value, message) for message in messages]


def _node_choice(spec: LifecycleTransitionSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    chosen: list[str] = []
    if spec.node_name is not None:
        chosen.append("`nodeName`")
        path = _SPEC.child("nodeName")
        errors += [
            FieldError.invalid(path, spec.node_name, message) for message in names.dns1123_subdomain(spec.node_name)
        ]
    if spec.node_selector is not None:
        chosen.append("`nodeSelector`")
        errors += validate_node_selector(spec.node_selector, _SPEC.child("nodeSelector"))
    if spec.all_nodes:
        chosen.append("`allNodes`")
    elif spec.all_nodes is not None:
        path = _SPEC.child("allNodes")
        errors.append(FieldError.invalid(path, spec.all_nodes, "must be either unset or set to true"))
    if not chosen:
        errors.append(FieldError.required(_SPEC, ONE_NODE_CHOICE))
    elif len(chosen) > 1:
        shown = "{" + ", ".join(chosen) + "}"
        errors.append(FieldError.invalid(_SPEC, shown, f"{ONE_NODE_CHOICE}, but multiple fields are set"))
    return errors


def _sla(spec: LifecycleTransitionSpec) -> list[FieldError]:
    if spec.sla is None:
        return []
    path = _SPEC.child("sla")
    if _LONG_DURATION.search(spec.sla):
        return [FieldError.invalid(path, spec.sla, SLA_DETAIL)]
    try:
        nanoseconds = api_time.parse_duration_nanoseconds(spec.sla)
    except ValueError as error:
        return [FieldError.invalid(path, spec.sla, str(error))]
    is_legal = 0 < nanoseconds <= SLA_MAX_HOURS * 3_600 * 10**9
    return [] if is_legal else [FieldError.invalid(path, spec.sla, SLA_DETAIL)]


def _reserved(transition: LifecycleTransition) -> list[FieldError]:
    spec = transition.spec
    expected = (NODE_SHUTDOWN.start, NODE_SHUTDOWN.end, NODE_SHUTDOWN.driver)
    if transition.name == NODE_SHUTDOWN.name:
        actual = (spec.start, spec.end, spec.driver)
        return [] if actual == expected else [FieldError.forbidden(_SPEC, RESERVED_NAME_DETAIL)]
    states = {NODE_SHUTDOWN.start, NODE_SHUTDOWN.end}
    misused = {
        "start": spec.start in states,
        "end": spec.end in states,
        "driver": spec.driver == NODE_SHUTDOWN.driver,
    }
    return [
        FieldError.forbidden(_SPEC.child(field), RESERVED_STATE_DETAIL) for field, taken in misused.items() if taken
    ]


def reserved_states_detail(one: Transition) -> str:
    """The error for a reserved name that is used for something else."""
    return f"the transition {one.name} is reserved: it goes from {one.start} to {one.end}"


def _misplaced(transition: LifecycleTransition) -> list[FieldError]:
    spec = transition.spec
    errors = [
        FieldError.forbidden(_SPEC, reserved_states_detail(one))
        for one in (NODE_DRAIN, NODE_UNCORDON)
        if transition.name == one.name and (spec.start, spec.end) != (one.start, one.end)
    ]
    if spec.end in STATES_TO_START_WITH:
        errors.append(FieldError.forbidden(_SPEC.child("end"), START_ONLY_DETAIL))
    if spec.start in STATES_TO_END_WITH:
        errors.append(FieldError.forbidden(_SPEC.child("start"), END_ONLY_DETAIL))
    return errors


def _immutable_spec(new: Part, old: Part) -> list[FieldError]:
    return [] if new == old else [FieldError.invalid(_SPEC, wire.to_dict(new), "field is immutable")]


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
