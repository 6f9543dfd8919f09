"""The rules for the specs of lifecycle kinds in Python: tests compare the schema and CEL of the CRDs with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from kube_fairlead.api import names, wire
from kube_fairlead.api import time as api_time
from kube_fairlead.api.core_v1 import NodeSelector, NodeSelectorRequirement
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleTransition, LifecycleTransitionSpec
from kube_fairlead.api.parts import Part
from kube_fairlead.api.reserved import (
    NODE_DRAIN,
    NODE_SHUTDOWN,
    NODE_UNCORDON,
    STATES_TO_END_WITH,
    STATES_TO_START_WITH,
)
from kube_fairlead.api.validation.lifecycle import (
    END_ONLY_DETAIL,
    LONG_DURATION_PATTERN,
    ONE_NODE_CHOICE,
    RESERVED_NAME_DETAIL,
    RESERVED_STATE_DETAIL,
    SLA_DETAIL,
    SLA_MAX_HOURS,
    START_ONLY_DETAIL,
    STATE_MAX_LENGTH,
    reserved_states_detail,
)
from kube_fairlead.api.validation.selectors import _BAD_OPERATOR, MAX_SELECTOR_ITEMS, _key, _operator, _values

_LONG_DURATION: Final = re.compile(LONG_DURATION_PATTERN)
_SPEC: Final = FieldPath("spec")
_ONE_FIELD_VALUE = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"


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


def validate_node_selector(selector: NodeSelector, path: FieldPath) -> list[FieldError]:
    """A NodeSelector of one of our own kinds: it must select something, and its lists are bounded."""
    spot = path.child("nodeSelectorTerms")
    if not selector.node_selector_terms:
        return [FieldError.required(spot, "must have at least one node selector term")]
    errors = _bounded(selector.node_selector_terms, spot)
    for i, term in enumerate(selector.node_selector_terms):
        errors += _bounded(term.match_expressions, spot.index(i).child("matchExpressions"))
        errors += _bounded(term.match_fields, spot.index(i).child("matchFields"))
        for j, by_label in enumerate(term.match_expressions):
            where = spot.index(i).child("matchExpressions").index(j)
            errors += _operator(by_label.operator, by_label.values, where)
            errors += _key(by_label.key, where) + _values(by_label.values, where)
            errors += _bounded(by_label.values, where.child("values"))
        for j, by_field in enumerate(term.match_fields):
            errors += _node_field(by_field, spot.index(i).child("matchFields").index(j))
    return errors


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


def _bounded(items: Sequence[object], path: FieldPath) -> list[FieldError]:
    too_many = len(items) > MAX_SELECTOR_ITEMS
    return [FieldError.too_many(path, len(items), MAX_SELECTOR_ITEMS)] if too_many else []


def _node_field(requirement: NodeSelectorRequirement, path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    if requirement.operator not in {"In", "NotIn"}:
        errors.append(FieldError.invalid(path.child("operator"), requirement.operator, _BAD_OPERATOR))
    elif len(requirement.values) != 1:
        errors.append(FieldError.required(path.child("values"), _ONE_FIELD_VALUE))
    if requirement.key != "metadata.name":
        errors.append(FieldError.invalid(path.child("key"), requirement.key, "not a valid field selector key"))
        return errors
    for i, value in enumerate(requirement.values):
        spot = path.child("values").index(i)
        errors += [FieldError.invalid(spot, value, message) for message in names.dns1123_subdomain(value)]
    return errors
