"""Type-check warnings of a policy's expressions, for its status, by the schemas of the kinds that its rules match.

An expression compiles when it is valid for some object. The check against the schemas of the matched kinds finds
misspelt fields.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/policy/validating/typechecking.go
"""

from __future__ import annotations

from kube_fairlead.api.fielderrors import FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission.expressions.compilation import Composer
from kube_fairlead_apiserver.admission.expressions.environments import typed_environment
from kube_fairlead_apiserver.cel import types
from kube_fairlead_apiserver.registry.catalog import Catalog
from kube_fairlead_apiserver.registry.resource import Resource
from kube_fairlead_apiserver.schema import expression_types

__all__ = ["type_warnings"]

_MAX_KINDS = 10


def type_warnings(policy: Json, catalog: Catalog) -> list[Json]:
    """Return the expressionWarnings of a policy's status.typeChecking; empty when there are none."""
    spec = policy.get("spec") or {}
    params = _param_type(spec, catalog)
    composers = [(resource, _composer(resource, params, spec)) for resource in _kinds(spec, catalog)]
    warnings: list[Json] = []
    for i, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            source = validation.get(field)
            if not source:
                continue
            problems = [_problem(resource, composer, source) for resource, composer in composers]
            text = "\n".join(problem for problem in problems if problem)
            if text:
                path = FieldPath("spec", "validations").index(i).child(field)
                warnings.append({"fieldRef": str(path), "warning": text})
    return warnings


def _problem(resource: Resource, composer: Composer, source: str) -> str:
    error = composer.compile(source).error
    if not error:
        return ""
    # The warning names the expression's field beside its text, not in it.
    text = str(error).removeprefix("compilation failed: ")
    return f"{resource.group}/{resource.version}, Kind={resource.kind}: {text}\n"


def _composer(resource: Resource, params: types.CelType | None, spec: Json) -> Composer:
    kind = expression_types.from_schema(resource.schema(), name=resource.kind, resource_root=resource.is_custom)
    composer = Composer(typed_environment(kind, params, authorizer=True))
    for variable in spec.get("variables") or ():
        composer.add(variable.get("name", ""), variable.get("expression", ""))
    return composer


def _param_type(spec: Json, catalog: Catalog) -> types.CelType | None:
    param_kind = spec.get("paramKind")
    if param_kind is None:
        return None
    resource = catalog.of_kind(param_kind.get("apiVersion", ""), param_kind.get("kind", ""))
    if resource is None:
        return types.DYN
    return expression_types.from_schema(resource.schema(), name=resource.kind, resource_root=resource.is_custom)


def _kinds(spec: Json, catalog: Catalog) -> list[Resource]:
    """Return the resources that the rules name without wildcards, at most ten of a rule."""
    found: dict[tuple[str, str, str], Resource] = {}
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = (frozenset(rule.get(name) or ()) for name in ("apiGroups", "apiVersions"))
        if any("*" in one for one in [*groups, *versions]):
            continue
        plurals = {one for one in rule.get("resources") or () if not set(one) & {"*", "/"}}
        # The rule's own combinations can be millions; the resources that are served are few.
        named = [
            resource
            for resource in catalog
            if resource.plural in plurals and resource.group in groups and resource.version in versions
        ]
        named.sort(key=lambda resource: (resource.group, resource.version, resource.plural))
        for resource in named[:_MAX_KINDS]:
            found[resource.group, resource.version, resource.kind] = resource
    return [found[key] for key in sorted(found)]
