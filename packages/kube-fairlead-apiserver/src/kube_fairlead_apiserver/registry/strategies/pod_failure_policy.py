"""Validation of a job's podFailurePolicy.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/batch/validation/validation.go,
    k8s.io/kubernetes@v1.36.4/pkg/apis/batch/v1/defaults.go
"""

from __future__ import annotations

from typing import Final

from kube_fairlead.api import golang, names
from kube_fairlead.api.fielderrors import OMIT_VALUE, FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.registry.strategies import field_checks

__all__ = ["validate_failure_policy"]

_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")
_MAX_RULES: Final = 20
_MAX_VALUES: Final = 255


def validate_failure_policy(policy: Json, spec: Json, path: FieldPath) -> list[FieldError]:
    """Validate: each rule has one action and one kind of requirement."""
    rules = policy.get("rules") or []
    problems: list[FieldError] = []
    if len(rules) > _MAX_RULES:
        problems.append(FieldError.too_many(path.child("rules"), len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        problems += _validate_rule(rule, spec, path.item("rules", index))
    return problems


def _validate_rule(rule: Json, spec: Json, path: FieldPath) -> list[FieldError]:
    action = rule.get("action") or ""
    problems = _known(action, path.child("action"), _ACTIONS)
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        text = "requires the backoffLimitPerIndex to be set"
        problems.append(FieldError.invalid(path.child("action"), action, text))
    codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if codes is not None:
        problems += _validate_exit_codes(codes, spec, path.child("onExitCodes"))
    if len(patterns) > _MAX_RULES:
        problems.append(FieldError.too_many(path.child("onPodConditions"), len(patterns), _MAX_RULES))
    for index, pattern in enumerate(patterns):
        at, kind = path.item("onPodConditions", index), pattern.get("type") or ""
        problems += field_checks.complaints(at.child("type"), kind, names.qualified_name(kind))
        problems += _known(pattern.get("status") or "", at.child("status"), _STATUSES)
    if codes is not None and patterns:
        text = "specifying both OnExitCodes and OnPodConditions is not supported"
        problems.append(FieldError.invalid(path, OMIT_VALUE, text))
    elif codes is None and not patterns:
        text = "specifying one of OnExitCodes and OnPodConditions is required"
        problems.append(FieldError.invalid(path, OMIT_VALUE, text))
    return problems


def _known(value: str, path: FieldPath, allowed: tuple[str, ...]) -> list[FieldError]:
    if not value:
        return [FieldError.required(path, f"valid values: [{' '.join(golang.quote(word) for word in allowed)}]")]
    return [] if value in allowed else [FieldError.not_supported(path, value, allowed)]


def _validate_exit_codes(codes: Json, spec: Json, path: FieldPath) -> list[FieldError]:
    operator, values, at = codes.get("operator") or "", codes.get("values") or [], path.child("values")
    problems = _known(operator, path.child("operator"), _OPERATORS)
    pod = (spec.get("template") or {}).get("spec") or {}
    known = {one.get("name") for field in ("containers", "initContainers") for one in pod.get(field) or ()}
    container = codes.get("containerName")
    if container is not None and container not in known:
        text = "must be one of the container or initContainer names in the pod template"
        problems.append(FieldError.invalid(path.child("containerName"), container, text))
    if not values:
        problems.append(FieldError.invalid(at, None, "at least one value is required"))
    elif len(values) > _MAX_VALUES:
        problems.append(FieldError.too_many(at, len(values), _MAX_VALUES))
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            problems.append(FieldError.invalid(at.index(index), value, "must not be 0 for the In operator"))
        if value in seen:
            problems.append(FieldError.duplicate(at.index(index), value))
        seen.add(value)
    if values != sorted(values):
        problems.append(FieldError.invalid(at, values, "must be ordered"))
    return problems
