"""Validates that a schema is structural, so that pruning and defaulting know every field.

The rules are those of Kubernetes' ValidateStructural over the plain JSON of an OpenAPI schema: types, fields and items
are declared outside of allOf, anyOf, oneOf and not, which only restrict them.

Upstream: k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/validation.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/complete.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/schema/convert.go
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator

from kube_fairlead.api.fielderrors import FieldError, FieldPath
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.cel import regex

__all__ = ["conversion_problem", "count_compiled", "is_set", "validate_structural"]


_UNSUPPORTED = ("id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_FORBIDDEN_BELOW_JUNCTORS = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
# Each takes a tenth of a second to reject.
_MOST_LARGE_PATTERNS = 3
_RULES_OF_DEFAULT = 8  # the rules for a default may cost as much as they may for an object


class _Level(enum.Enum):
    ROOT = "must not be empty at the root"
    ITEM = "must not be empty for specified array items"
    FIELD = "must not be empty for specified object fields"


def is_set(schema: Json, key: str) -> bool:
    """Return whether a field is set: Go does not distinguish an empty one from an absent one."""
    value = schema.get(key)
    if key == "default":
        return value is not None
    if key == "additionalProperties":
        return value is not None and value is not False
    return value is not None and value is not False and value not in ("", [], {})


def conversion_problem(schema: Json) -> str:
    """Return why a schema has no structural form at all; empty if it has one."""
    return next(_conversion_problems(schema), "")


def _conversion_problems(schema: Json) -> Iterator[str]:
    for key in _UNSUPPORTED:
        if is_set(schema, key) or (key == "additionalItems" and schema.get(key) is not None):
            yield f"OpenAPIV3Schema '{key.removeprefix('$') if key == '$schema' else key}' is not supported"
    for part in _nested(schema):
        yield from _conversion_problems(part)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    items = schema.get("items")
    if isinstance(items, list):
        yield "OpenAPIV3Schema 'items' must be a schema, but is an array"
    elif isinstance(items, dict):
        yield from _conversion_problems(items)
    for child in schema.get("properties", {}).values():
        yield from _conversion_problems(child)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _conversion_problems(schema["additionalProperties"])


def _nested(schema: Json) -> Iterator[Json]:
    if isinstance(schema.get("not"), dict):
        yield schema["not"]
    for junctor in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(junctor) or ()


def validate_structural(schema: Json, path: FieldPath) -> list[FieldError]:
    """Return all violations, sorted by their text. After a few patterns that are too large, validation stops."""
    too_large = list(itertools.islice(_large_patterns(schema, path), _MOST_LARGE_PATTERNS))
    if len(too_large) == _MOST_LARGE_PATTERNS:
        return too_large
    errors = [*_invariants(schema, _Level.ROOT, path), *_completeness(schema, schema, path, path)]
    return sorted(errors, key=str)


def count_compiled(schema: Json) -> int:
    """Return how many patterns and rules a schema has to compile, at any depth, and how many defaults to validate."""
    parts = [part for part, _ in _every_part(schema, FieldPath())]
    rules = sum(len(part.get("x-kubernetes-validations") or ()) for part in parts)
    patterns = sum(1 for part in parts if part.get("pattern"))
    return patterns + rules + (sum("default" in part for part in parts) * _RULES_OF_DEFAULT if rules else 0)


def _large_patterns(schema: Json, path: FieldPath) -> Iterator[FieldError]:
    for part, where in _every_part(schema, path):
        if pattern := part.get("pattern"):
            try:
                regex.compile_regex(pattern)
            except regex.PatternError as error:
                if error.too_large:
                    yield _bad_pattern(where, pattern, error)


def _every_part(schema: Json, path: FieldPath) -> Iterator[tuple[Json, FieldPath]]:
    """Yield a schema and every schema in it."""
    yield schema, path
    for key in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(key), dict):
            yield from _every_part(schema[key], path.child(key))
    for junctor in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(schema.get(junctor) or ()):
            yield from _every_part(part, path.child(junctor).index(index))
    for key, child in (schema.get("properties") or {}).items():
        yield from _every_part(child, path.child("properties").key(key))


def _bad_pattern(path: FieldPath, pattern: str, error: regex.PatternError) -> FieldError:
    problem = f"must be a valid regular expression, but isn't: {error}"
    return FieldError.invalid(path.child("pattern"), pattern, problem)


def _invariants(schema: Json, level: _Level, path: FieldPath) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    if kind == "array" and schema.get("items") is None:
        yield FieldError.required(path.child("items"), "must be specified")
    if isinstance(schema.get("items"), dict):
        yield from _invariants(schema["items"], _Level.ITEM, path.child("items"))
    properties = schema.get("properties") or {}
    for key, child in properties.items():
        yield from _invariants(child, _Level.FIELD, path.child("properties").key(key))
    additional = schema.get("additionalProperties")
    if additional is not None:
        if level is _Level.ROOT:
            yield FieldError.forbidden(path.child("additionalProperties"), "must not be used at the root")
        if isinstance(additional, dict):
            yield from _invariants(additional, _Level.FIELD, path.child("additionalProperties"))
    yield from _extensions(schema, path)
    first_all_of: Json = next(iter(schema.get("allOf") or ()), {})
    yield from _values(
        schema,
        path,
        skip_any_of=schema.get("anyOf") == _INT_OR_STRING,
        skip_first=first_all_of.get("anyOf") == _INT_OR_STRING,
    )
    yield from _types(schema, level, path)
    yield from _metadata(schema, level, path)
    if (
        schema.get("x-kubernetes-embedded-resource")
        and not schema.get("x-kubernetes-preserve-unknown-fields")
        and not properties
    ):
        yield FieldError.required(
            path.child("properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        )


def _extensions(schema: Json, path: FieldPath) -> Iterator[FieldError]:
    if schema.get("x-kubernetes-int-or-string"):
        for key in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(key):
                problem = "must be false if x-kubernetes-int-or-string is true"
                yield FieldError.invalid(path.child(key), True, problem)


def _types(schema: Json, level: _Level, path: FieldPath) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    embedded = schema.get("x-kubernetes-embedded-resource")
    untyped = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if embedded and kind != "object":
        problem = "must be object if x-kubernetes-embedded-resource is true"
        where = path.child("type")
        yield FieldError.invalid(where, kind, problem) if kind else FieldError.required(where, problem)
    elif not kind and not untyped:
        yield FieldError.required(path.child("type"), level.value)
    if embedded and schema.get("additionalProperties") is not None:
        problem = "must not be used if x-kubernetes-embedded-resource is set"
        yield FieldError.forbidden(path.child("additionalProperties"), problem)
    if level is _Level.ROOT and kind and kind != "object":
        yield FieldError.invalid(path.child("type"), kind, "must be object at the root")


def _metadata(schema: Json, level: _Level, path: FieldPath) -> Iterator[FieldError]:
    properties = schema.get("properties") or {}
    is_resource = level is _Level.ROOT or bool(schema.get("x-kubernetes-embedded-resource"))
    for key in ("kind", "apiVersion"):
        if is_resource and key in properties and properties[key].get("type", "") != "string":
            where = path.child("properties").key(key).child("type")
            yield FieldError.invalid(where, properties[key].get("type", ""), "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    where = path.child("properties").key("metadata")
    if is_resource and metadata.get("type", "") != "object":
        yield FieldError.invalid(where.child("type"), metadata.get("type", ""), "must be object")
    if level is _Level.ROOT:
        said = {key for key in metadata if is_set(metadata, key) or _is_bound(metadata, key)}
        if set(metadata.get("properties") or ()) <= {"name", "generateName"}:
            said.discard("properties")
        if said - {"type", "default"}:
            yield FieldError.forbidden(
                where,
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            )


def _is_bound(schema: Json, key: str) -> bool:
    # A limit of 0 has a meaning, and so does an empty schema where Go has a pointer.
    if key in {"items", "not", "additionalProperties"}:
        return schema[key] is not None
    return schema[key].__class__ in {int, float}


def _values(schema: Json, path: FieldPath, *, skip_any_of: bool, skip_first: bool) -> Iterator[FieldError]:
    """Validate below the junctors of a schema, and its own pattern."""
    if not skip_any_of:
        for index, part in enumerate(schema.get("anyOf") or ()):
            yield from _nested_values(part, path.child("anyOf").index(index))
    for index, part in enumerate(schema.get("allOf") or ()):
        where = path.child("allOf").index(index)
        yield from _nested_values(part, where, skip_any_of=skip_first and index == 0)
    for index, part in enumerate(schema.get("oneOf") or ()):
        yield from _nested_values(part, path.child("oneOf").index(index))
    if isinstance(schema.get("not"), dict):
        yield from _nested_values(schema["not"], path.child("not"))
    if pattern := schema.get("pattern"):
        try:
            regex.compile_regex(pattern)
        except regex.PatternError as error:
            yield _bad_pattern(path, pattern, error)


def _nested_values(schema: Json, path: FieldPath, *, skip_any_of: bool = False) -> Iterator[FieldError]:
    yield from _values(schema, path, skip_any_of=skip_any_of, skip_first=False)
    if isinstance(schema.get("items"), dict):
        yield from _nested_values(schema["items"], path.child("items"))
    properties = schema.get("properties") or {}
    for key, child in properties.items():
        yield from _nested_values(child, path.child("properties").key(key))
    for key, problem in _FORBIDDEN_BELOW_JUNCTORS:
        if is_set(schema, key) or (key == "additionalProperties" and schema.get(key) == {}):
            yield FieldError.forbidden(path.child(key), problem)
    if "metadata" in properties:
        where = path.child("properties").key("metadata")
        yield FieldError.forbidden(where, "must not be specified in a nested context")


def _completeness(nested: Json, structure: Json, at: FieldPath, said: FieldPath) -> Iterator[FieldError]:
    """Check that every field below a junctor is declared in the structure."""
    if isinstance(nested.get("not"), dict):
        yield from _complete_part(nested["not"], structure, at, said.child("not"))
    for junctor in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(nested.get(junctor) or ()):
            yield from _complete_part(part, structure, at, said.child(junctor).index(index))


def _complete_part(part: Json, structure: Json | None, at: FieldPath, said: FieldPath) -> Iterator[FieldError]:
    if structure is None:
        yield FieldError.required(at, f"because it is defined in {said}")
        return
    yield from _completeness(part, structure, at, said)
    if isinstance(part.get("items"), dict):
        items = structure.get("items")
        yield from _complete_part(part["items"], items, at.child("items"), said.child("items"))
    for key, child in (part.get("properties") or {}).items():
        counterpart = (structure.get("properties") or {}).get(key)
        below, from_here = at.child("properties").key(key), said.child("properties").key(key)
        yield from _complete_part(child, counterpart, below, from_here)
