"""Policies and bindings, read and compiled once per change.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/policy/validating/plugin.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/plugin/policy/validating/accessor.go
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission.expressions.compilation import Composer, Expression
from kube_fairlead_apiserver.admission.expressions.environments import environment
from kube_fairlead_apiserver.admission.match_criteria import Criteria
from kube_fairlead_apiserver.cel import types

__all__ = ["AuditAnnotation", "Policy", "PolicyBinding", "Validation", "compile_policy", "read_binding"]


@dataclasses.dataclass(frozen=True, slots=True)
class Validation:
    """One validation: an expression, and the message of a violation."""

    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class AuditAnnotation:
    """One audit annotation: a key and an expression for its value."""

    key: str
    expression: Expression


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """One policy. Without match criteria it cannot be evaluated, which is an error."""

    name: str
    criteria: Criteria | None
    fail_open: bool
    param_kind: tuple[str, str] | None  # apiVersion and kind
    variables: Mapping[str, Expression]
    conditions: tuple[Expression, ...]
    validations: tuple[Validation, ...]
    audit_annotations: tuple[AuditAnnotation, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyBinding:
    """The scope of a policy, its parameters, and the actions of a violation."""

    name: str
    policy: str
    criteria: Criteria | None
    param_ref: Json | None
    actions: tuple[str, ...]


def compile_policy(obj: Json) -> Policy:
    """Compile a stored policy. Expressions that do not compile are kept; they fail at evaluation."""
    spec = obj.get("spec") or {}
    param_kind = spec.get("paramKind")
    has_params = param_kind is not None
    # Message expressions have no authorizer.
    composer = Composer(
        environment(params=has_params, authorizer=True), environment(params=has_params, authorizer=False)
    )
    for variable in spec.get("variables") or ():
        composer.add(variable.get("name", ""), variable.get("expression", ""))
    conditions = (one.get("expression", "") for one in spec.get("matchConditions") or ())
    return Policy(
        name=obj["metadata"]["name"],
        criteria=_criteria(spec.get("matchConstraints")),
        fail_open=spec.get("failurePolicy") == "Ignore",
        param_kind=(param_kind.get("apiVersion", ""), param_kind.get("kind", "")) if param_kind else None,
        variables=composer.variables,
        conditions=composer.compile_all(conditions, types.BOOL),
        validations=tuple(_validation(composer, one) for one in spec.get("validations") or ()),
        audit_annotations=tuple(
            AuditAnnotation(
                one.get("key", ""), composer.compile(one.get("valueExpression", ""), types.STRING, types.NULL)
            )
            for one in spec.get("auditAnnotations") or ()
        ),
    )


def _validation(composer: Composer, validation: Json) -> Validation:
    message = validation.get("messageExpression")
    return Validation(
        expression=composer.compile(validation.get("expression", ""), types.BOOL),
        message=(validation.get("message") or "").strip(),
        message_expression=composer.compile(message, types.STRING, environment=1) if message else None,
        reason=validation.get("reason") or "Invalid",
    )


def read_binding(obj: Json) -> PolicyBinding:
    """Read a stored binding."""
    spec = obj.get("spec") or {}
    return PolicyBinding(
        name=obj["metadata"]["name"],
        policy=spec.get("policyName", ""),
        criteria=_criteria(spec.get("matchResources")),
        param_ref=spec.get("paramRef"),
        actions=tuple(spec.get("validationActions") or ()),
    )


def _criteria(resources: Json | None) -> Criteria | None:
    return None if resources is None else Criteria.of_match_resources(resources)
