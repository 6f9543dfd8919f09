"""The evaluation of one policy for one write: violations and audit annotations.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/policy/validating/validator.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/plugin/policy/validating/message.go
"""

from __future__ import annotations

import dataclasses
from typing import Any

from kube_fairlead_apiserver.admission.expressions.conditions import ConditionsFailed, conditions_hold
from kube_fairlead_apiserver.admission.expressions.evaluation import Activation, ExpressionFailed, OutOfBudget
from kube_fairlead_apiserver.admission.policies.compilation import Policy, Validation
from kube_fairlead_apiserver.cel import budget

__all__ = ["PolicyDecision", "Violation", "evaluate"]

_MAX_MESSAGE_BYTES = 5 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Violation:
    """A validation that failed, or could not be evaluated."""

    index: int
    message: str
    reason: str = ""


@dataclasses.dataclass(slots=True)
class PolicyDecision:
    """The result of a policy. ``failures`` are audit annotations that could not be evaluated."""

    violations: list[Violation] = dataclasses.field(default_factory=list)
    annotations: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    failures: list[str] = dataclasses.field(default_factory=list)


def evaluate(policy: Policy, activation: Activation) -> PolicyDecision:
    """Evaluate the policy. An error counts as a violation, unless its failurePolicy is Ignore."""
    try:
        if not conditions_hold(policy.conditions, activation, fail_open=policy.fail_open):
            return PolicyDecision()
        allowance = budget.Budget()
        activation.spend(allowance)
        answer = PolicyDecision(violations=_violations(policy, activation))
        activation.spend(budget.Budget())
        _annotate(policy, activation, answer)
    except (ConditionsFailed, OutOfBudget) as error:
        return PolicyDecision() if policy.fail_open else PolicyDecision(violations=[Violation(0, str(error))])
    return answer


def _violations(policy: Policy, activation: Activation) -> list[Violation]:
    found: list[Violation] = []
    for index, validation in enumerate(policy.validations):
        try:
            if activation.evaluate(validation.expression) is True:
                continue
        except ExpressionFailed as error:
            if not policy.fail_open:
                found.append(Violation(index, str(error)))
            continue
        found.append(Violation(index, _message(validation, activation), validation.reason))
    return found


def _message(validation: Validation, activation: Activation) -> str:
    """Return the result of the message expression, else the message, else the expression itself."""
    if validation.message_expression is not None:
        try:
            text = activation.evaluate(validation.message_expression)
        except ExpressionFailed:
            text = ""
        if isinstance(text, str):
            text = text.strip()
            if text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE_BYTES:
                return text
    return validation.message or f"failed expression: {validation.expression.source.strip()}"


def _annotate(policy: Policy, activation: Activation, answer: PolicyDecision) -> None:
    for annotation in policy.audit_annotations:
        try:
            value: Any = activation.evaluate(annotation.expression)
        except ExpressionFailed as error:
            if not policy.fail_open:
                answer.failures.append(str(error))
            continue
        if isinstance(value, str) and value.strip():
            answer.annotations.append((annotation.key, value.strip()))
