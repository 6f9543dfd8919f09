"""What the types cannot say about the lifecycle kinds: descriptions, bounds, and CEL rules.

A field is named by its path on the wire, `[]` standing for the items of a list. The bounds and rules are those of
`kube_fairlead.api.validation.lifecycle`, in the language of CRDs; a test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from kube_fairlead.api import golang
from kube_fairlead.api.lifecycle_v1alpha1 import LEGAL_MOVES, ClaimStatus
from kube_fairlead.api.reserved import (
    NODE_DRAIN,
    NODE_SHUTDOWN,
    NODE_UNCORDON,
    STATES_TO_END_WITH,
    STATES_TO_START_WITH,
)
from kube_fairlead.api.validation import lifecycle as rules
from kube_fairlead.api.validation import selectors as limits

__all__ = ["EVENT_FIELDS", "TRANSITION_FIELDS", "Field", "Rule", "pod_fields", "progress_fields"]


class Rule(msgspec.Struct, frozen=True):
    """A CEL rule and what to say when it does not hold. One that names `oldSelf` is checked on updates only."""

    rule: str
    message: str
    reason: str = ""
    field_path: str = ""  # the field to blame, from where the rule stands

    def to_dict(self) -> dict[str, str]:
        """The entry in `x-kubernetes-validations`."""
        entry = {
            "rule": self.rule,
            "message": self.message,
            "reason": self.reason,
            "fieldPath": self.field_path,
        }
        return {key: value for key, value in entry.items() if value}


class Field(msgspec.Struct, frozen=True):
    """What is known of a field beside its type."""

    description: str
    required: bool = False
    keywords: Mapping[str, Any] = {}  # OpenAPI's, as they are
    rules: tuple[Rule, ...] = ()


_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_NAME: Final = {"minLength": 1, "maxLength": 253, "pattern": f"^{_SUBDOMAIN}$"}
_QUALIFIED: Final = {
    "minLength": 1,
    "maxLength": 317,
    "pattern": f"^({_SUBDOMAIN}/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$",
}
_STATE: Final = {"minLength": 1, "maxLength": rules.STATE_MAX_LENGTH}
_DURATION: Final = {
    "maxLength": 64,
    "pattern": "^[-+]?(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h))+$",
}
_COUNT: Final = {"minimum": 0}
_ATOMIC_LIST: Final = {"x-kubernetes-list-type": "atomic"}
_IMMUTABLE: Final = Rule("self == oldSelf", "field is immutable")


def _quoted(values: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{value}'" for value in values) + "]"


def _transition_rules() -> tuple[Rule, ...]:
    name, start, end, driver = NODE_SHUTDOWN
    states = _quoted((start, end))
    return (
        Rule(
            f"self.metadata.name != '{name}' || (self.spec.start == '{start}' && self.spec.end == '{end}'"
            f" && self.spec.driver == '{driver}')",
            rules.RESERVED_NAME_DETAIL,
            "FieldValueForbidden",
            ".spec",
        ),
        Rule(
            f"self.metadata.name == '{name}' || !(self.spec.start in {states} || self.spec.end in {states}"
            f" || self.spec.driver == '{driver}')",
            f"the states {start} and {end} and the driver {driver} are {rules.RESERVED_STATE_DETAIL}",
            "FieldValueForbidden",
            ".spec",
        ),
        *(
            Rule(
                f"self.metadata.name != '{one.name}' || (self.spec.start == '{one.start}'"
                f" && self.spec.end == '{one.end}')",
                rules.reserved_states_detail(one),
                "FieldValueForbidden",
                ".spec",
            )
            for one in (NODE_DRAIN, NODE_UNCORDON)
        ),
        Rule(
            f"!(self.spec.end in {_quoted(STATES_TO_START_WITH)})",
            rules.START_ONLY_DETAIL,
            "FieldValueForbidden",
            ".spec.end",
        ),
        Rule(
            f"!(self.spec.start in {_quoted(STATES_TO_END_WITH)})",
            rules.END_ONLY_DETAIL,
            "FieldValueForbidden",
            ".spec.start",
        ),
    )


def _sla_rule() -> Rule:
    """A number that is too large is refused by its digits first: parsing it would fail with an evaluation error."""
    length = f"duration(self) > duration('0s') && duration(self) <= duration('{rules.SLA_MAX_HOURS}h')"
    return Rule(f"self.matches('{rules.LONG_DURATION_PATTERN}') ? false : {length}", rules.SLA_DETAIL)


_NODE_RULES: Final = (
    _IMMUTABLE,
    Rule(
        "has(self.nodeName) || has(self.nodeSelector) || (has(self.allNodes) && self.allNodes)",
        rules.ONE_NODE_CHOICE,
        "FieldValueRequired",
    ),
    Rule(
        "(has(self.nodeName) ? 1 : 0) + (has(self.nodeSelector) ? 1 : 0)"
        " + (has(self.allNodes) && self.allNodes ? 1 : 0) <= 1",
        f"{rules.ONE_NODE_CHOICE}, but multiple fields are set",
    ),
)


_REQUIREMENT_RULES: Final = (
    Rule(
        "!(self.operator in ['In', 'NotIn']) || (has(self.values) && self.values.size() > 0)",
        "must be specified when `operator` is 'In' or 'NotIn'",
        "FieldValueRequired",
        ".values",
    ),
    Rule(
        "!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || self.values.size() == 0",
        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        "FieldValueForbidden",
        ".values",
    ),
    Rule(
        "!(self.operator in ['Gt', 'Lt']) || (has(self.values) && self.values.size() == 1)",
        "must be specified single value when `operator` is 'Lt' or 'Gt'",
        "FieldValueRequired",
        ".values",
    ),
)
_FIELD_RULES: Final = (
    Rule(
        "has(self.values) && self.values.size() == 1",
        "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        "FieldValueRequired",
        ".values",
    ),
)
_LABEL_VALUE: Final = {"maxLength": 63, "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"}


def _requirements(path: str) -> dict[str, Field]:
    """The two kinds of conditions of a node selector term. Without bounds CEL rules on their items cost too much."""
    bounded = {"maxItems": limits.MAX_SELECTOR_ITEMS} | _ATOMIC_LIST
    operator = "What the values mean: " + ", ".join(_OPERATORS) + "."
    by_label, by_field = f"{path}[].matchExpressions", f"{path}[].matchFields"
    return {
        f"{path}[]": Field("All conditions of a term must hold; a term without any means no node."),
        by_label: Field("Conditions on the node's labels.", keywords=bounded),
        f"{by_label}[]": Field("A condition on one label.", rules=_REQUIREMENT_RULES),
        f"{by_label}[].key": Field("The label.", required=True, keywords=_QUALIFIED),
        f"{by_label}[].operator": Field(operator, required=True, keywords={"enum": list(_OPERATORS)}),
        f"{by_label}[].values": Field("What to compare the label with.", keywords=bounded),
        f"{by_label}[].values[]": Field("", keywords=_LABEL_VALUE),
        by_field: Field("Conditions on the node's fields.", keywords=bounded),
        f"{by_field}[]": Field("A condition on one field.", rules=_FIELD_RULES),
        f"{by_field}[].key": Field("The field.", required=True, keywords={"enum": ["metadata.name"]}),
        f"{by_field}[].operator": Field(operator, required=True, keywords={"enum": ["In", "NotIn"]}),
        f"{by_field}[].values": Field("What to compare the field with.", keywords=bounded),
        f"{by_field}[].values[]": Field("", keywords=_NAME),
    }


_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_TERMS: Final = "spec.nodeSelector.nodeSelectorTerms"

TRANSITION_FIELDS: Final[Mapping[str, Field]] = {
    "": Field(
        "A transition from a start to an end state that nodes know, carried out by a driver.", rules=_transition_rules()
    ),
    "spec": Field("The transition. It never changes.", required=True, rules=_NODE_RULES),
    "spec.start": Field("The state it starts in; the Node condition's reason.", required=True, keywords=_STATE),
    "spec.end": Field("The state it ends in; the Node condition's reason.", required=True, keywords=_STATE),
    "spec.nodeName": Field("The only node that knows the transition.", keywords=_NAME),
    "spec.nodeSelector": Field("The nodes that know the transition.", keywords={"x-kubernetes-map-type": "atomic"}),
    _TERMS: Field(
        "Any of the terms must hold.",
        required=True,
        keywords={"minItems": 1, "maxItems": limits.MAX_SELECTOR_ITEMS} | _ATOMIC_LIST,
    ),
    **_requirements(_TERMS),
    "spec.allNodes": Field(
        "All nodes know the transition. Either unset or true.",
        rules=(Rule("self", "must be either unset or set to true"),),
    ),
    "spec.sla": Field(
        "How long it may take from the claim on: a Go duration above zero, such as 30m.",
        keywords=_DURATION,
        rules=(_sla_rule(),),
    ),
    "spec.driver": Field("The driver that carries it out.", required=True, keywords=_QUALIFIED),
}


def _move_rule() -> Rule:
    """The table of legal moves as one rule at the root, where an object without status is seen too."""
    table = ", ".join(
        f"{golang.quote(source)}: [" + ", ".join(golang.quote(target) for target in targets) + "]"
        for source, targets in _moves().items()
    )
    return Rule(
        f"{_claim_status('self')} in {{{table}}}[{_claim_status('oldSelf')}]",
        "claimStatus may go from Pending to Claimed or Failed, from Claimed to Succeeded, Failed or SlaExpired, "
        "and nowhere from there",
        field_path=".status.claimStatus",
    )


def _claim_status(of: str) -> str:
    return f'(has({of}.status) && has({of}.status.claimStatus) ? {of}.status.claimStatus : "")'


def _moves() -> dict[str, list[str]]:
    """LEGAL_MOVES with staying allowed, and with the empty status as the other spelling of Pending."""
    moves: dict[str, list[str]] = {}
    for source, targets in LEGAL_MOVES.items():
        stay = ["", str(source)] if source is ClaimStatus.PENDING else [str(source)]
        moves[str(source)] = stay + sorted(targets)
    return {"": moves[ClaimStatus.PENDING], **moves}


def _frozen(name: str) -> Rule:
    old, new = f"oldSelf.status.{name}", f"self.status.{name}"
    return Rule(
        f"!has(oldSelf.status) || !has({old}) || (has(self.status) && has({new}) && {new} == {old})",
        "field is immutable once set",
        field_path=f".status.{name}",
    )


def _set_with_claim(name: str) -> Rule:
    old, new = f"oldSelf.status.{name}", f"self.status.{name}"
    had, has = f"(has(oldSelf.status) && has({old}))", f"(has(self.status) && has({new}))"
    pending = _quoted(("", ClaimStatus.PENDING))
    is_claim = f"({_claim_status('oldSelf')} in {pending} && !({_claim_status('self')} in {pending}))"
    return Rule(
        f"{is_claim} || ({had} ? {has} && {new} == {old} : !{has})",
        rules.CLAIM_FIELD_DETAIL,
        field_path=f".status.{name}",
    )


def progress_fields(path: str) -> dict[str, Field]:
    """How far a driver has come, wherever that is said."""
    return {
        path: Field("How far the driver has come."),
        f"{path}.done": Field("How much is done.", keywords=_COUNT),
        f"{path}.total": Field("How much there is.", keywords=_COUNT),
        f"{path}.unit": Field("What is counted, such as pods.", keywords={"maxLength": 63}),
    }


def pod_fields(path: str) -> dict[str, Field]:
    """The pods that a driver had to move, wherever they are listed."""
    return {
        path: Field(
            "The pods that the driver had to move.",
            keywords={"maxItems": rules.PODS_MAX} | _ATOMIC_LIST,
        ),
        f"{path}[]": Field("One pod."),
        f"{path}[].namespace": Field("Its namespace.", keywords={"maxLength": 63}),
        f"{path}[].name": Field("Its name.", required=True, keywords={"maxLength": 253}),
        f"{path}[].uid": Field("Its uid.", required=True, keywords={"maxLength": 128}),
        f"{path}[].state": Field("How it stands: Gone, Leaving, Blocked or Waiting.", keywords={"maxLength": 63}),
        f"{path}[].attempts": Field("How many evictions were requested.", keywords=_COUNT),
        f"{path}[].blockedBy": Field(
            "What blocked it last; kept when it has gone.", keywords={"maxLength": rules.BLOCKED_BY_MAX_LENGTH}
        ),
    }


EVENT_FIELDS: Final[Mapping[str, Field]] = {
    "": Field(
        "Requests a transition on one node, and holds its result.",
        rules=(
            _move_rule(),
            *map(_frozen, rules.FROZEN_STATUS_FIELDS),
            *map(_set_with_claim, rules.CLAIM_STATUS_FIELDS),
        ),
    ),
    "spec": Field("The request. It is immutable.", required=True, rules=(_IMMUTABLE,)),
    "spec.transitionName": Field("The LifecycleTransition, by name.", required=True, keywords=_NAME),
    "spec.bindingNode": Field("The node, by name; its agent claims the event.", required=True, keywords=_NAME),
    # Defaults are applied to what is read, so that an event shows as Pending from its creation on.
    "status": Field("How it is being carried out.", keywords={"default": {"claimStatus": str(ClaimStatus.PENDING)}}),
    "status.claimStatus": Field(
        "Where the event stands; empty means Pending.",
        keywords={"default": str(ClaimStatus.PENDING), "enum": ["", *map(str, ClaimStatus)]},
    ),
    "status.driver": Field("The driver, as the transition named it at the claim.", keywords={"maxLength": 317}),
    "status.sla": Field("The deadline, by which the transition must be complete."),
    "status.claimedBy": Field("Who carries it out, such as node/<name>.", keywords={"maxLength": 317}),
    "status.nodeUID": Field("The uid of the node at the claim.", keywords={"maxLength": 128}),
    "status.transition": Field("The transition as it was at the claim."),
    "status.transition.uid": Field("Its uid.", keywords={"maxLength": 128}),
    "status.transition.start": Field("Its start state.", keywords={"maxLength": rules.STATE_MAX_LENGTH}),
    "status.transition.end": Field("Its end state.", keywords={"maxLength": rules.STATE_MAX_LENGTH}),
    "status.options": Field(
        "The driver's options: the event's annotations at the claim.", keywords={"maxProperties": rules.OPTIONS_MAX}
    ),
    "status.options{}": Field("", keywords={"maxLength": rules.OPTION_MAX_LENGTH}),
    "status.firstSeenTime": Field("When a claimant first saw the event; the wait for a driver counts from here."),
    "status.sequence": Field(
        "The resourceVersion under which a claimant first saw the event. Events created in one second are claimed in "
        "this order.",
        keywords=_COUNT,
    ),
    "status.claimTime": Field("When it was claimed."),
    "status.startTime": Field("When the driver had started."),
    "status.completionTime": Field("When it reached its terminal state."),
    "status.driverUnreachableTime": Field(
        "Since when the driver of a claimed event is out of reach; absent while it answers."
    ),
    "status.message": Field("What happened, for people to read.", keywords={"maxLength": rules.MESSAGE_MAX_LENGTH}),
    **progress_fields("status.progress"),
    **pod_fields("status.pods"),
}
