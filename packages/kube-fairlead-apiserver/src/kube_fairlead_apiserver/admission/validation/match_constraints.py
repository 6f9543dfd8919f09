"""Validates the common parts of webhooks, policies and bindings: rules, selectors, match conditions.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/admissionregistration/validation/validation.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.validation.selectors import validate_label_selector
from kube_fairlead_apiserver.admission.expressions.compilation import compile_expression
from kube_fairlead_apiserver.admission.expressions.environments import environment
from kube_fairlead_apiserver.cel import types

__all__ = ["one_of", "validate_match_conditions", "validate_match_resources", "validate_rule"]


_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_MATCH_POLICIES = ("Equivalent", "Exact")
_MAX_CONDITIONS = 64


def one_of(value: Any, allowed: Sequence[str], path: FieldPath) -> list[FieldError]:
    """Validate a field with an enumerated value; the caller checks whether it is required."""
    return [] if value is None or value in allowed else [FieldError.not_supported(path, value, allowed)]


def validate_rule(rule: Json, path: FieldPath) -> list[FieldError]:
    """Validate a rule with operations, and with resource names where they are allowed."""
    problems = _validate_names(rule.get("resourceNames") or (), path.child("resourceNames"))
    problems += _validate_operations(rule.get("operations") or [], path.child("operations"))
    problems += _validate_wildcard(rule.get("apiGroups") or [], path.child("apiGroups"), "API groups")
    versions = rule.get("apiVersions") or []
    problems += _validate_wildcard(versions, path.child("apiVersions"), "API versions")
    problems += [
        FieldError.required(path.child("apiVersions").index(i)) for i, version in enumerate(versions) if not version
    ]
    problems += _validate_resources(rule.get("resources") or [], path.child("resources"))
    return problems + one_of(rule.get("scope"), _SCOPES, path.child("scope"))


def _validate_names(resource_names: Sequence[str], path: FieldPath) -> list[FieldError]:
    problems: list[FieldError] = []
    seen: set[str] = set()
    for i, name in enumerate(resource_names):
        problems += [FieldError.invalid(path.index(i), name, message) for message in names.path_segment_name(name)]
        if name in seen:
            problems.append(FieldError.duplicate(path.index(i), name))
        seen.add(name)
    return problems


def _validate_operations(operations: list[str], path: FieldPath) -> list[FieldError]:
    problems: list[FieldError] = []
    if not operations:
        problems.append(FieldError.required(path))
    if len(operations) > 1 and "*" in operations:
        problems.append(FieldError.invalid(path, operations, "if '*' is present, must not specify other operations"))
    for i, operation in enumerate(operations):
        problems += one_of(operation, _OPERATIONS, path.index(i))
    return problems


def _validate_wildcard(values: list[str], path: FieldPath, what: str) -> list[FieldError]:
    if not values:
        return [FieldError.required(path)]
    if len(values) > 1 and "*" in values:
        return [FieldError.invalid(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _validate_resources(resources: list[str], path: FieldPath) -> list[FieldError]:
    problems: list[FieldError] = [] if resources else [FieldError.required(path)]
    with_all_subresources: set[str] = set()  # x/*
    subresources_of_all: set[str] = set()  # */x
    bare = False
    for i, resource in enumerate(resources):
        if not resource:
            problems.append(FieldError.required(path.index(i)))
            continue
        name, slash, subresource = resource.partition("/")
        if not slash:
            bare = resource != "*"
            continue
        if name in with_all_subresources:
            detail = f"if '{name}/*' is present, must not specify {resource}"
            problems.append(FieldError.invalid(path.index(i), resource, detail))
        if subresource in subresources_of_all:
            detail = f"if '*/{subresource}' is present, must not specify {resource}"
            problems.append(FieldError.invalid(path.index(i), resource, detail))
        if subresource == "*":
            with_all_subresources.add(name)
        if name == "*":
            subresources_of_all.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        problems.append(FieldError.invalid(path, resources, detail))
    if "*" in resources and bare:
        detail = "if '*' is present, must not specify other resources without subresources"
        problems.append(FieldError.invalid(path, resources, detail))
    return problems


def validate_match_resources(resources: Json, path: FieldPath) -> list[FieldError]:
    """Validate the MatchResources of a policy or binding, after defaults."""
    problems: list[FieldError] = []
    if resources.get("matchPolicy") is None:
        problems.append(FieldError.required(path.child("matchPolicy")))
    problems += one_of(resources.get("matchPolicy"), _MATCH_POLICIES, path.child("matchPolicy"))
    for field in ("namespaceSelector", "objectSelector"):
        if resources.get(field) is None:
            problems.append(FieldError.required(path.child(field)))
        else:
            problems += validate_label_selector(resources[field], path.child(field))
    for field in ("resourceRules", "excludeResourceRules"):
        for i, rule in enumerate(resources.get(field) or ()):
            problems += validate_rule(rule, path.child(field).index(i))
    return problems


def validate_match_conditions(conditions: Sequence[Json], path: FieldPath, *, params: bool) -> list[FieldError]:
    """Validate named expressions whose value is a boolean."""
    problems: list[FieldError] = []
    if len(conditions) > _MAX_CONDITIONS:
        problems.append(FieldError.too_many(path, len(conditions), _MAX_CONDITIONS))
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        at = path.index(i)
        source = (condition.get("expression") or "").strip()
        if source:
            compiled = compile_expression(environment(params=params, authorizer=True), source, types.BOOL)
            if compiled.error:
                problems.append(FieldError.invalid(at.child("expression"), source, compiled.error))
        else:
            problems.append(FieldError.required(at.child("expression")))
        name = condition.get("name") or ""
        if not name:
            problems.append(FieldError.required(at.child("name")))
        else:
            problems += [FieldError.invalid(at.child("name"), name, message) for message in names.qualified_name(name)]
            if name in seen:
                problems.append(FieldError.duplicate(at.child("name"), name))
            seen.add(name)
    return problems
