"""Validates the CEL rules of a CRD: whether they compile, fit the schema and stay within the cost limits.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apis/apiextensions/validation/cel_validation.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apis/apiextensions/validation/validation.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/cel/compilation.go
"""

from __future__ import annotations

import dataclasses

import msgspec

from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.cel import environment
from kube_fairlead_apiserver.crd import call_costs, sizes
from kube_fairlead_apiserver.crd.estimates import COST_MAX, add, multiply
from kube_fairlead_apiserver.schema import expression_types
from kube_fairlead_apiserver.schema.model import compile_schema
from kube_fairlead_apiserver.schema.validation_rules import Rule, compile_rule_list, rule_environments

__all__ = ["RuleContext", "TotalCost"]


_RULE_COST_MAX = 10_000_000
_SCHEMA_COST_MAX = 100_000_000
_EXPENSIVE_RULES_NAMED_MAX = 4
_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength "
    "where arrays, maps, and strings are declared)"
)
# Go prints a rule's internal form in an error.
_GO_FIELDS = (
    ("Rule", "rule", ""),
    ("Message", "message", ""),
    ("MessageExpression", "messageExpression", ""),
    ("Reason", "reason", None),
    ("FieldPath", "fieldPath", ""),
    ("OptionalOldSelf", "optionalOldSelf", None),
)


class TotalCost:
    """The cost of all rules of one schema, and the most expensive of them."""

    def __init__(self) -> None:
        self.total = 0
        self._expensive: list[tuple[int, FieldPath]] = []

    def observe(self, cost: int, path: FieldPath) -> None:
        """Add one rule."""
        self.total = add(self.total, cost)
        if cost >= _SCHEMA_COST_MAX // 100:
            self._expensive.append((cost, path))

    def errors(self, path: FieldPath) -> list[FieldError]:
        """Return no errors, or those of the most expensive rules and of the schema at ``path``."""
        if self.total <= _SCHEMA_COST_MAX:
            return []
        worst = sorted(self._expensive, key=lambda item: -item[0])[:_EXPENSIVE_RULES_NAMED_MAX]
        blame = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        return [
            *(FieldError.forbidden(where, blame) for _, where in worst),
            FieldError.forbidden(path, _too_expensive(what, self.total, _SCHEMA_COST_MAX)),
        ]


@dataclasses.dataclass(frozen=True, slots=True)
class RuleContext:
    """The place in a schema whose rules are validated."""

    total: TotalCost = dataclasses.field(default_factory=TotalCost)
    resource: bool = True  # the values here are whole resources, with apiVersion, kind and metadata
    occurrences: int | None = 1  # how often a value can occur here; None: unbounded
    limited: bool = True  # whether the cost limit of one rule applies; not to an unchanged, stored one

    def child(self, schema: Json, child: Json) -> RuleContext:
        """Return the context of a schema one level below."""
        here, inside = self.occurrences, sizes.occurrences(schema)
        return dataclasses.replace(
            self,
            resource=bool(child.get("x-kubernetes-embedded-resource")),
            occurrences=None if here is None or inside is None else multiply(here, inside),
        )

    def check(self, schema: Json, path: FieldPath, uncorrelatable: FieldPath | None) -> list[FieldError]:
        """Return the errors of the rules of one schema."""
        node = compile_schema(schema)
        self_type = expression_types.from_schema(node, resource_root=self.resource)
        declared = sizes.declare(node, resource=self.resource)
        if declared is None:
            problem = "internal error: failed to construct type information for x-kubernetes-validations rules: "
            problem += "unable to convert structural schema to CEL declarations"
            return [FieldError.internal(path.child("x-kubernetes-validations"), problem)]
        plain, optional = rule_environments(self_type)
        errors: list[FieldError] = []
        for index, rule in enumerate(compile_rule_list(node, self_type)):
            where = path.child("x-kubernetes-validations").index(index)
            errors += self._check_costs(rule, optional if rule.optional_old_self else plain, declared, where)
            errors += _check_rule(rule, where, uncorrelatable)
        return errors

    def _check_costs(
        self, rule: Rule, env: environment.Environment, declared: sizes.DeclType, path: FieldPath
    ) -> list[FieldError]:
        errors: list[FieldError] = []
        times = self.occurrences
        if times is None:
            times = sizes.REQUEST_BYTES_MAX // (declared.bytes_min + 1)
        if rule.program is not None:
            cost = multiply(call_costs.estimate(env.check(rule.source["rule"]), declared), times)
            self.total.observe(cost, path.child("rule"))
            if self.limited and cost > _RULE_COST_MAX:
                problem = _too_expensive("estimated rule cost", cost, _RULE_COST_MAX)
                errors.append(FieldError.forbidden(path.child("rule"), problem))
        if rule.message is not None:
            # A message is evaluated once per failure, so the number of values does not count.
            cost = call_costs.estimate(env.check(rule.source["messageExpression"]), declared)
            self.total.observe(cost, path.child("messageExpression"))
            if self.limited and cost > _RULE_COST_MAX:
                problem = _too_expensive("estimated messageExpression cost", cost, _RULE_COST_MAX)
                errors.append(FieldError.forbidden(path.child("messageExpression"), problem))
        return errors


def _too_expensive(what: str, cost: int, limit: int) -> str:
    factor = min(cost, COST_MAX) / limit
    shown = "more than 100x" if factor > 100 else f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {shown} {_ADVICE}"


def _check_rule(rule: Rule, path: FieldPath, uncorrelatable: FieldPath | None) -> list[FieldError]:
    errors: list[FieldError] = []
    shown = msgspec.Raw(msgspec.json.encode({name: rule.source.get(key, empty) for name, key, empty in _GO_FIELDS}))
    if rule.problem:
        errors.append(FieldError.invalid(path.child("rule"), shown, rule.problem))
    if rule.message_problem:
        errors.append(FieldError.invalid(path.child("messageExpression"), shown, rule.message_problem))
    if rule.uses_old_self:
        if uncorrelatable is not None:
            problem = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
            errors.append(FieldError.invalid(path.child("rule"), rule.source["rule"], problem))
    elif rule.source.get("optionalOldSelf") is not None:
        problem = "may not be set if oldSelf is not used in rule"
        errors.append(FieldError.invalid(path.child("optionalOldSelf"), rule.source["optionalOldSelf"], problem))
    return errors
