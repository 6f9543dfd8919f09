"""ValidatingAdmissionPolicy and ValidatingAdmissionPolicyBinding.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/admissionregistration/validation/validation.go
"""

from __future__ import annotations

import re

from kube_fairlead.api import names
from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.gvk import GroupVersion
from kube_fairlead.api.json_object import Json
from kube_fairlead.api.validation.selectors import validate_label_selector
from kube_fairlead_apiserver.admission.expressions.compilation import Composer
from kube_fairlead_apiserver.admission.expressions.environments import environment
from kube_fairlead_apiserver.admission.validation.match_constraints import (
    one_of,
    validate_match_conditions,
    validate_match_resources,
)
from kube_fairlead_apiserver.cel import escaping, types

__all__ = ["validate_binding", "validate_policy"]


_FAILURE_POLICIES = ("Fail", "Ignore")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_MAX_ANNOTATIONS = 20
_MAX_ANNOTATION_BYTES = 5 * 1024
_NEEDS_CONTENT = "validations or auditAnnotations must contain at least one item"
_EXCLUSIVE = "name and selector are mutually exclusive"
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")


def validate_policy(obj: Json, old: Json | None = None) -> list[FieldError]:
    """Validate a policy and compile every expression. Unchanged match conditions are not validated again."""
    spec, path = obj.get("spec") or {}, FieldPath("spec")
    problems: list[FieldError] = []
    if spec.get("failurePolicy") is None:
        problems.append(FieldError.required(path.child("failurePolicy")))
    problems += one_of(spec.get("failurePolicy"), _FAILURE_POLICIES, path.child("failurePolicy"))
    param_kind = spec.get("paramKind")
    if param_kind is not None:
        problems += _validate_param_kind(param_kind, path.child("paramKind"))
    constraints = spec.get("matchConstraints")
    if constraints is None:
        problems.append(FieldError.required(path.child("matchConstraints")))
    else:
        problems += validate_match_resources(constraints, path.child("matchConstraints"))
        if not constraints.get("resourceRules"):
            problems.append(FieldError.required(path.child("matchConstraints", "resourceRules")))
    if not _same_conditions(spec, old):
        conditions = spec.get("matchConditions") or ()
        problems += validate_match_conditions(conditions, path.child("matchConditions"), params=param_kind is not None)
    return problems + _validate_expressions(obj, spec, path)


def _same_conditions(spec: Json, old: Json | None) -> bool:
    if old is None:
        return False
    before = old.get("spec") or {}
    return all((spec.get(field) or None) == (before.get(field) or None) for field in ("paramKind", "matchConditions"))


def _validate_param_kind(param_kind: Json, path: FieldPath) -> list[FieldError]:
    problems: list[FieldError] = []
    api_version, kind = param_kind.get("apiVersion") or "", param_kind.get("kind") or ""
    at = path.child("apiVersion")
    if not api_version:
        problems.append(FieldError.required(at))
    else:
        try:
            parsed = GroupVersion.parse(api_version)
        except ValueError as error:
            problems.append(FieldError.invalid(at, api_version, str(error)))
        else:
            wrong = names.dns1123_subdomain(parsed.group) if parsed.group else []
            problems += [FieldError.invalid(at, parsed.group, ",".join(wrong))] if wrong else []
            if not parsed.version:
                problems.append(FieldError.invalid(at, api_version, "version must be specified"))
            elif wrong := names.dns1035_label(parsed.version):
                problems.append(FieldError.invalid(at, parsed.version, ",".join(wrong)))
    if not kind:
        problems.append(FieldError.required(path.child("kind")))
    elif wrong := names.dns1035_label(kind.lower()):
        detail = "may have mixed case, but should otherwise match: " + ",".join(wrong)
        problems.append(FieldError.invalid(path.child("kind"), kind, detail))
    return problems


def _validate_expressions(obj: Json, spec: Json, path: FieldPath) -> list[FieldError]:
    params = spec.get("paramKind") is not None
    composer = Composer(environment(params=params, authorizer=True), environment(params=params, authorizer=False))
    problems: list[FieldError] = []
    for i, variable in enumerate(spec.get("variables") or ()):
        problems += _validate_variable(composer, variable, path.child("variables").index(i))
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        fields = ("validations", "auditAnnotations")
        return problems + [FieldError.required(path.child(field), _NEEDS_CONTENT) for field in fields]
    for i, validation in enumerate(validations):
        problems += _validate_validation(composer, validation, path.child("validations").index(i))
    if len(annotations) > _MAX_ANNOTATIONS:
        detail = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        problems.append(FieldError.invalid(path.child("auditAnnotations"), annotations, detail))
    seen: set[str] = set()
    for i, annotation in enumerate(annotations):
        at = path.child("auditAnnotations").index(i)
        problems += _validate_annotation(composer, annotation, obj["metadata"].get("name") or "", at)
        if annotation.get("key") in seen:
            problems.append(FieldError.duplicate(at.child("key"), annotation["key"]))
        seen.add(annotation.get("key") or "")
    return problems


def _validate_variable(composer: Composer, variable: Json, path: FieldPath) -> list[FieldError]:
    problems: list[FieldError] = []
    name, source = variable.get("name") or "", variable.get("expression") or ""
    if not name.strip():
        problems.append(FieldError.required(path.child("name"), "name is not specified"))
    elif not _IDENTIFIER.fullmatch(name) or name in escaping.RESERVED:
        problems.append(FieldError.invalid(path.child("name"), name, "must be a valid CEL identifier"))
    if not source.strip():
        problems.append(FieldError.required(path.child("expression"), "expression is not specified"))
    elif error := composer.add(name, source).error:
        problems.append(FieldError.invalid(path.child("expression"), source, error))
    return problems


def _validate_validation(composer: Composer, validation: Json, path: FieldPath) -> list[FieldError]:
    problems: list[FieldError] = []
    source = validation.get("expression") or ""
    if not source.strip():
        problems.append(FieldError.required(path.child("expression"), "expression is not specified"))
    elif error := composer.compile(source, types.BOOL).error:
        problems.append(FieldError.invalid(path.child("expression"), source, error))
    message = validation.get("messageExpression") or ""
    if message and not message.strip():
        problems.append(FieldError.invalid(path.child("messageExpression"), message, "must be non-empty if specified"))
    elif message and (error := composer.compile(message, types.STRING, environment=1).error):
        problems.append(FieldError.invalid(path.child("messageExpression"), message, error))
    message = validation.get("message") or ""
    if message and not message.strip():
        problems.append(FieldError.invalid(path.child("message"), message, "must be non-empty if specified"))
    elif "\n" in message.strip() or "\r" in message.strip():
        problems.append(FieldError.invalid(path.child("message"), message, "must not contain line breaks"))
    return problems + one_of(validation.get("reason"), _REASONS, path.child("reason"))


def _validate_annotation(composer: Composer, annotation: Json, policy: str, path: FieldPath) -> list[FieldError]:
    problems: list[FieldError] = []
    key = annotation.get("key") or ""
    if policy:
        full = f"{policy}/{key}"
        problems += [FieldError.invalid(path.child("key"), full, message) for message in names.qualified_name(full)]
    else:
        problems.append(FieldError.invalid(path.child("key"), key, "requires metadata.name be non-empty"))
    source = annotation.get("valueExpression") or ""
    at = path.child("valueExpression")
    if not source.strip():
        problems.append(FieldError.required(at, "valueExpression is not specified"))
    elif len(source.strip().encode()) > _MAX_ANNOTATION_BYTES:
        problems.append(FieldError.required(at, f"must not exceed {_MAX_ANNOTATION_BYTES} bytes in length"))
    elif error := composer.compile(source.strip(), types.STRING, types.NULL).error:
        problems.append(FieldError.invalid(at, source, error))
    return problems


def validate_binding(obj: Json) -> list[FieldError]:
    """Validate a binding."""
    spec, path = obj.get("spec") or {}, FieldPath("spec")
    policy = spec.get("policyName") or ""
    at = path.child("policyName")
    problems = [FieldError.invalid(at, policy, message) for message in names.name_is_dns_subdomain(policy) if policy]
    if not policy:
        problems.append(FieldError.required(at))
    if spec.get("paramRef") is not None:
        problems += _validate_param_ref(spec["paramRef"], path.child("paramRef"))
    if spec.get("matchResources") is not None:
        problems += validate_match_resources(spec["matchResources"], path.child("matchResources"))
    return problems + _validate_actions(spec.get("validationActions") or [], path.child("validationActions"))


def _validate_param_ref(reference: Json, path: FieldPath) -> list[FieldError]:
    problems: list[FieldError] = []
    name, selector = reference.get("name") or "", reference.get("selector")
    if name:
        at = path.child("name")
        problems += [FieldError.invalid(at, name, message) for message in names.path_segment_name(name)]
        if selector is not None:
            problems.append(FieldError.forbidden(at, _EXCLUSIVE))
    if selector is not None:
        problems += validate_label_selector(selector, path.child("selector"))
        if name:
            problems.append(FieldError.forbidden(path.child("selector"), _EXCLUSIVE))
    if not name and selector is None:
        problems.append(FieldError.required(path, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction")
    if not action:
        problems.append(FieldError.required(path.child("parameterNotFoundAction")))
    else:
        problems += one_of(action, ("Deny", "Allow"), path.child("parameterNotFoundAction"))
    return problems


def _validate_actions(actions: list[str], path: FieldPath) -> list[FieldError]:
    problems: list[FieldError] = []
    seen: set[str] = set()
    for i, action in enumerate(actions):
        problems += one_of(action, _ACTIONS, path.index(i))
        if action in seen:
            problems.append(FieldError.duplicate(path.index(i), action))
        seen.add(action)
    if "Deny" in actions and "Warn" in actions:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information "
            "in the API response and headers serves no purpose)"
        )
        problems.append(FieldError.invalid(path, actions, detail))
    if not actions:
        problems.append(FieldError.required(path, "at least one validation action is required"))
    return problems
