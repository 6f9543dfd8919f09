"""CEL rules of a CRD before any object exists: do they compile, and do they fit the schema around them."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from fairlead.api.fielderrors import FieldError, FieldPath
from fairlead.apiserver.cel import schema_types
from fairlead.apiserver.schema.model import compile_schema
from fairlead.apiserver.schema.rules import Rule, compile_rule_list

__all__ = ["RuleContext"]

Json = dict[str, Any]

# A rule as Go prints its internal form inside an error.
_GO_FIELDS = (
    ("Rule", "rule", ""),
    ("Message", "message", ""),
    ("MessageExpression", "messageExpression", ""),
    ("Reason", "reason", None),
    ("FieldPath", "fieldPath", ""),
    ("OptionalOldSelf", "optionalOldSelf", None),
)


@dataclasses.dataclass(frozen=True, slots=True)
class RuleContext:
    """Where in a schema rules are being checked."""

    resource: bool = True  # the values here are whole resources, with apiVersion, kind and metadata

    def child(self, schema: Json, child: Json) -> RuleContext:
        """The context of a schema one step further in."""
        del schema
        return RuleContext(resource=bool(child.get("x-kubernetes-embedded-resource")))

    def check(self, schema: Json, path: FieldPath, uncorrelatable: FieldPath | None) -> list[FieldError]:
        """Errors of the rules of one schema."""
        node = compile_schema(schema)
        self_type = schema_types.from_schema(node, resource_root=self.resource)
        errors: list[FieldError] = []
        for index, rule in enumerate(compile_rule_list(node, self_type)):
            errors += _check_rule(rule, path.child("x-kubernetes-validations").index(index), uncorrelatable)
        return errors


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
