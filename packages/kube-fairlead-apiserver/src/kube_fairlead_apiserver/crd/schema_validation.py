"""Validates the OpenAPI v3 schema of a CRD: which parts it may use, and how its extensions may be combined.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apis/apiextensions/validation/validation.go
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator

from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.crd.rule_validation import RuleContext
from kube_fairlead_apiserver.crd.structural import conversion_problem, is_set
from kube_fairlead_apiserver.schema.field_paths import resolve_field_path
from kube_fairlead_apiserver.schema.model import compile_schema

__all__ = [
    "TYPES",
    "SchemaRequirements",
    "any_schema",
    "set_of_granular_items",
    "validate_keyed_lists",
    "validate_openapi",
]


TYPES = ("array", "boolean", "integer", "number", "object", "string")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
_LINE_BREAK = re.compile(r"[\n\r]")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")


@dataclasses.dataclass(frozen=True, slots=True)
class SchemaRequirements:
    """The requirements for a schema. An update has only those that the stored CRD already satisfies."""

    valid_types: bool = True
    atomic_sets: bool = True
    complete_map_keys: bool = True
    defaults: bool = True
    no_defaults_because: str = ""
    inside_metadata: bool = False
    uncorrelatable: FieldPath | None = None  # the outermost place below which old and new items cannot be correlated


def validate_openapi(
    schema: Json, path: FieldPath, limits: SchemaRequirements, context: RuleContext | None
) -> list[FieldError]:
    """Return all errors of a schema, those about CEL rules last. Without a context the rules are not compiled."""
    schema_errors, rule_errors = _validate(schema, path, limits, context, root=True)
    return schema_errors + rule_errors


def any_schema(schema: Json, holds: Callable[[Json], bool]) -> bool:
    """Return whether the schema, or any schema inside it, has a property."""
    return holds(schema) or any(any_schema(child, holds) for child in _children(schema))


def _children(schema: Json) -> Iterator[Json]:
    items = schema.get("items")
    if isinstance(items, dict):
        yield items
    elif isinstance(items, list):
        yield from items
    for junctor in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(junctor) or ()
    for key in ("not", "additionalProperties", "additionalItems"):
        if isinstance(schema.get(key), dict):
            yield schema[key]
    for key in ("properties", "patternProperties", "definitions", "dependencies"):
        yield from (child for child in (schema.get(key) or {}).values() if isinstance(child, dict))


def _validate(
    schema: Json, path: FieldPath, limits: SchemaRequirements, context: RuleContext | None, *, root: bool = False
) -> tuple[list[FieldError], list[FieldError]]:
    errors = [*_validate_standard(schema, path, limits)]
    rule_errors: list[FieldError] = []

    def below(child: Json, where: FieldPath, asked: SchemaRequirements, inner: RuleContext | None = None) -> None:
        more, more_rules = _validate(child, where, asked, inner)
        errors.extend(more)
        rule_errors.extend(more_rules)

    def inner_context(child: Json) -> RuleContext | None:
        return None if context is None else context.child(schema, child)

    if schema.get("uniqueItems"):
        problem = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(FieldError.forbidden(path.child("uniqueItems"), problem))
    additional = schema.get("additionalProperties")
    if additional is not None:
        where = path.child("additionalProperties")
        if schema.get("properties") and additional is not True:
            problem = "additionalProperties and properties are mutual exclusive"
            errors.append(FieldError.forbidden(where, problem))
        if isinstance(additional, dict):
            asked = limits
            if limits.inside_metadata:
                asked = _without_defaults(limits, "inside additionalProperties applying to object metadata")
            below(additional, where, asked, inner_context(additional))
    for name, child in (schema.get("properties") or {}).items():
        asked = _limits_of_property(schema, path, limits, name, root=root)
        below(child, path.child("properties").key(name), asked, inner_context(child))
    if isinstance(schema.get("not"), dict):
        below(schema["not"], path.child("not"), limits)
    for junctor in ("allOf", "oneOf", "anyOf"):
        for index, part in enumerate(schema.get(junctor) or ()):
            below(part, path.child(junctor).index(index), limits)
    for name, child in (schema.get("definitions") or {}).items():
        below(child, path.child("definitions").key(name), limits)
    items = schema.get("items")
    if items is not None:
        # Items correlate across an update only in lists of type map; an unset list type means atomic.
        asked = limits if schema.get("x-kubernetes-list-type") == "map" else _uncorrelatable(limits, path)
        if isinstance(items, dict):
            below(items, path.child("items"), asked, inner_context(items))
        else:
            for index, child in enumerate(items):
                below(child, path.child("items").index(index), asked, inner_context(child))
    for name, child in (schema.get("dependencies") or {}).items():
        if isinstance(child, dict):
            below(child, path.child("dependencies").key(name), limits)
    errors += _validate_extensions(schema, path, limits)
    rules = schema.get("x-kubernetes-validations") or ()
    for index, rule in enumerate(rules):
        errors += _validate_rule(schema, rule, path.child("x-kubernetes-validations").index(index))
    # A rule has no types over a schema that is invalid here or below.
    if rules and not errors and context is not None:
        rule_errors += context.check(schema, path, limits.uncorrelatable)
    return errors, rule_errors


def _without_defaults(limits: SchemaRequirements, reason: str) -> SchemaRequirements:
    return dataclasses.replace(limits, defaults=False, no_defaults_because=reason)


def _uncorrelatable(limits: SchemaRequirements, path: FieldPath) -> SchemaRequirements:
    return limits if limits.uncorrelatable else dataclasses.replace(limits, uncorrelatable=path)


def _limits_of_property(
    schema: Json, path: FieldPath, limits: SchemaRequirements, name: str, *, root: bool
) -> SchemaRequirements:
    if schema.get("x-kubernetes-map-type") not in {None, "granular", "atomic"}:
        limits = _uncorrelatable(limits, path)
    if name in _META_FIELDS and (root or schema.get("x-kubernetes-embedded-resource")):
        limits = dataclasses.replace(limits, inside_metadata=True)
        if root:
            limits = _without_defaults(limits, f"in top-level {name}")
    return limits


def _validate_standard(schema: Json, path: FieldPath, limits: SchemaRequirements) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    if limits.valid_types and kind and kind not in TYPES:
        yield FieldError.not_supported(path.child("type"), kind, TYPES)
    if schema.get("default") is not None and not limits.defaults:
        yield FieldError.forbidden(path.child("default"), f"must not be set {limits.no_defaults_because}".rstrip())
    for key in _UNSUPPORTED:
        present = (
            schema.get(key) is not None if key in {"additionalItems", "dependencies", "$ref"} else is_set(schema, key)
        )
        if present:
            yield FieldError.forbidden(path.child(key), f"{key} is not supported")
    if kind == "null":
        problem = "type cannot be set to null, use nullable as an alternative"
        yield FieldError.forbidden(path.child("type"), problem)
    if isinstance(schema.get("items"), list) and schema["items"]:
        yield FieldError.forbidden(path.child("items"), "items must be a schema object and not an array")
    if limits.inside_metadata and schema.get("x-kubernetes-embedded-resource"):
        where = path.child("x-kubernetes-embedded-resource")
        yield FieldError.forbidden(where, "must not be used inside of resource meta")


def _validate_extensions(schema: Json, path: FieldPath, limits: SchemaRequirements) -> Iterator[FieldError]:
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        where = path.child("x-kubernetes-preserve-unknown-fields")
        yield FieldError.invalid(where, False, "must be true or undefined")
    kind = schema.get("type", "")
    for extension, wanted, values in (
        ("x-kubernetes-map-type", "object", ("atomic", "granular")),
        ("x-kubernetes-list-type", "array", ("atomic", "set", "map")),
    ):
        said = schema.get(extension)
        if said is not None and kind != wanted:
            problem = f"must be {wanted} if {extension} is specified"
            where = path.child("type")
            yield FieldError.invalid(where, kind, problem) if kind else FieldError.required(where, problem)
        elif said == "set" and limits.atomic_sets and isinstance(schema.get("items"), dict):
            yield from set_of_granular_items(schema, path)
        if said is not None and said not in values:
            yield FieldError.not_supported(path.child(extension), said, values)
    keys = schema.get("x-kubernetes-list-map-keys")
    list_type = schema.get("x-kubernetes-list-type")
    if keys and list_type != "map":
        problem = "must be map if x-kubernetes-list-map-keys is non-empty"
        where = path.child("x-kubernetes-list-type")
        yield (
            FieldError.required(where, problem) if list_type is None else FieldError.invalid(where, list_type, problem)
        )
    if list_type == "map":
        yield from _validate_map_list(schema, keys or [], path)
    if limits.complete_map_keys:
        yield from validate_keyed_lists(schema, path)


def set_of_granular_items(schema: Json, path: FieldPath) -> Iterator[FieldError]:
    """Return an error for granular items of a set: they are compared as a whole, so nothing may merge into them."""
    items = schema["items"]
    problem = "must be atomic as item of a list with x-kubernetes-list-type=set"
    list_type = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and list_type not in {None, "atomic"}:
        yield FieldError.invalid(path.child("items").child("x-kubernetes-list-type"), list_type, problem)
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        # Kubernetes shows the list type here.
        yield FieldError.invalid(path.child("items").child("x-kubernetes-map-type"), list_type, problem)


def _validate_map_list(schema: Json, keys: list[str], path: FieldPath) -> Iterator[FieldError]:
    where = path.child("x-kubernetes-list-map-keys")
    items = schema.get("items")
    if not keys:
        yield FieldError.required(where, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield FieldError.required(path.child("items"), "must have a schema if x-kubernetes-list-type is map")
        return
    if not isinstance(items, dict):
        problem = "must only have a single schema if x-kubernetes-list-type is map"
        yield FieldError.invalid(path.child("items"), items, problem)
        return
    kind = items.get("type", "")
    if kind != "object":
        problem = "must be object if parent array's x-kubernetes-list-type is map"
        yield FieldError.invalid(path.child("items").child("type"), kind, problem)
        return
    properties = items.get("properties") or {}
    seen: set[str] = set()
    for key in keys:
        if key not in properties:
            yield FieldError.invalid(where, keys, "entries must all be names of item properties")
        elif properties[key].get("type") in {"array", "object"}:
            problem = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield FieldError.invalid(path.child("items").child("properties").key(key).child("type"), kind, problem)
        if key in seen:
            yield FieldError.invalid(where, keys, "must not contain duplicate entries")
        seen.add(key)


def validate_keyed_lists(schema: Json, path: FieldPath) -> Iterator[FieldError]:
    """Return the errors of sets and maps whose items have no identity: null items, missing or null keys."""
    items = schema.get("items")
    list_type = schema.get("x-kubernetes-list-type")
    if not isinstance(items, dict) or list_type not in {"set", "map"}:
        return
    if items.get("nullable"):
        problem = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield FieldError.forbidden(path.child("items").child("nullable"), problem)
    if list_type == "set":
        return
    for key in schema.get("x-kubernetes-list-map-keys") or ():
        child = (items.get("properties") or {}).get(key)
        if child is None:
            continue
        where = path.child("items").child("properties").key(key)
        about = "this property is in x-kubernetes-list-map-keys, so it"
        if key not in (items.get("required") or ()) and child.get("default") is None:
            yield FieldError.required(where.child("default"), f"{about} must have a default or be a required property")
        if child.get("nullable"):
            yield FieldError.forbidden(where.child("nullable"), f"{about} cannot be nullable")


def _validate_rule(schema: Json, rule: Json, path: FieldPath) -> Iterator[FieldError]:
    text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
    if not text:
        yield FieldError.required(path.child("rule"), "rule is not specified")
    elif message and not message.strip():
        yield FieldError.invalid(path.child("message"), message, "must be non-empty if specified")
    elif _LINE_BREAK.search(message.strip()):
        yield FieldError.invalid(path.child("message"), message, "must not contain line breaks")
    elif _LINE_BREAK.search(text) and not message.strip():
        yield FieldError.required(path.child("message"), "message must be specified if rule contains line breaks")
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        problem = "messageExpression must be non-empty if specified"
        yield FieldError.required(path.child("messageExpression"), problem)
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        yield FieldError.not_supported(path.child("reason"), reason, _REASONS)
    field_path = rule.get("fieldPath") or ""
    where = path.child("fieldPath")
    if field_path and not field_path.strip():
        yield FieldError.invalid(where, field_path, "must be non-empty if specified")
    if _LINE_BREAK.search(field_path):
        yield FieldError.invalid(where, field_path, "must not contain line breaks")
    if field_path and not conversion_problem(schema):
        try:
            resolve_field_path(field_path, compile_schema(schema))
        except ValueError:
            yield FieldError.invalid(where, field_path, "must be a valid path")
