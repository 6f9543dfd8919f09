"""Finds the exact errors of an invalid value: the slow and precise part of validation.

The errors, their order, their texts and the choice among failed alternatives follow kube-openapi, which Kubernetes uses
for custom resources. Each step counts what matched: of several failed alternatives of an anyOf or oneOf, the errors of
the one that matched most are reported.

Upstream: k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/validation/validate/schema.go,
    k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/validation/validate/schema_props.go,
    k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/validation/validate/object_validator.go,
    k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/validation/validate/slice_validator.go,
    k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/validation/validate/type.go,
    k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/validation/validate/validator.go,
    k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/validation/validate/values.go,
    k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/validation/errors/schema.go,
    k8s.io/apiextensions-apiserver@v0.36.4/pkg/apiserver/validation/validation.go,
    k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/validation/validate/schema_messages.go
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kube_fairlead.api import golang
from kube_fairlead.api.fielderrors import MAX_PATH_CHARACTERS, MAX_PROBLEM_CHARACTERS, FieldError, FieldPath
from kube_fairlead_apiserver.cel import regex, string_formats
from kube_fairlead_apiserver.schema import comparison_budget, numbers
from kube_fairlead_apiserver.schema.correlation import CorrelatedValue, same_json
from kube_fairlead_apiserver.schema.model import SchemaNode, compile_schema

__all__ = ["Findings", "expected_types", "explain", "in_enum", "number_holds"]

_MAX_CHARACTERS = 2 * MAX_PROBLEM_CHARACTERS  # of messages; most are a little shorter in the response
_TYPES: dict[type, tuple[str, str]] = {  # of a decoded value: its JSON type, and the format that Go infers from it
    bool: ("boolean", ""),
    dict: ("object", ""),
    float: ("number", "float64"),
    int: ("integer", "int64"),
    list: ("array", ""),
    str: ("string", ""),
}


class Findings:
    """The errors of one value by their kube-openapi message, which identifies duplicates, and the number of matches."""

    __slots__ = ("_size", "base", "errors", "matches")

    def __init__(self, base: FieldPath) -> None:
        self.base = base
        self.errors: dict[str, FieldError] = {}
        self.matches = 0
        self._size = 0

    def path(self, name: str) -> FieldPath:
        """Return the path of an error about the value of that name."""
        name = name.removeprefix(".")
        return self.base.child(name) if name else self.base

    def add(self, message: str, error: FieldError) -> None:
        """Add an error, unless one with that message exists or the response can hold no more."""
        if self._size <= _MAX_CHARACTERS and message not in self.errors:
            self._size += len(message)
            self.errors[message] = error

    def general(self, message: str) -> None:
        """Add an error that kube-openapi relates to no field."""
        self.add(message, FieldError.invalid(self.base, "", message))

    def invalid(self, name: str, value: Any, message: str) -> None:
        """Add an error about an invalid value."""
        self.add(message, FieldError.invalid(self.path(name), "" if value is None else value, message))

    def merge(self, other: Findings) -> None:
        """Add the findings of another value."""
        for message, error in other.errors.items():
            self.add(message, error)
        self.matches += other.matches


def explain(node: SchemaNode, name: str, value: Any, base: FieldPath, pair: CorrelatedValue | None = None) -> Findings:
    """Return all errors of a value, named ``name`` below ``base``.

    With a correlated old value, unchanged parts are excused.
    """
    found = Findings(base)
    if value is None:
        _explain_type(node, name, value, found)
        _explain_enum(node, name, value, found)
    else:
        _explain_present(node, name, numbers.go_number(value), found, pair)
    if pair is not None and found.errors and pair.unchanged():
        found.errors = {}
    return found


def _explain_present(node: SchemaNode, name: str, value: Any, found: Findings, pair: CorrelatedValue | None) -> None:
    types, format_name = expected_types(node)
    if types or format_name:
        _explain_type(node, name, value, found)
        found.matches += 1
    _explain_junctors(node, name, value, found)
    found.matches += 2
    if value.__class__ is str:
        _explain_string(node, name, value, found)
        found.matches += 1
        check = string_formats.matches_format(format_name) if format_name else None
        if check is not None:
            if not check(value):
                message = f"{name} in body must be of type {format_name}: {golang.quote(value)}"
                found.add(message, FieldError.type_invalid(found.path(name), value, message))
            found.matches += 1
    elif value.__class__ is int or value.__class__ is float:
        _explain_number(node, name, value, found)
        found.matches += 2
    elif value.__class__ is list:
        _explain_list(node, name, value, found, pair)
        found.matches += 2
    _explain_enum(node, name, value, found)
    found.matches += 1
    if value.__class__ is dict:
        _explain_object(node, name, value, found, pair)
        found.matches += 1
    found.matches += 1


def expected_types(node: SchemaNode) -> tuple[tuple[str, ...], str]:
    """Return the JSON types that a node allows (none = any) and its format, if Kubernetes knows it."""
    if node.int_or_string:
        return ("integer", "string"), string_formats.known_format(node.format, "")
    types = (node.type,) if node.type else ()
    return types, string_formats.known_format(node.format, node.type) if node.format else ""


def _explain_type(node: SchemaNode, name: str, value: Any, found: Findings) -> None:
    types, format_name = expected_types(node)
    wanted = ",".join(types)
    if value is None:
        if types and not node.nullable:
            _wrong_type(name, wanted, "null", found)
        else:
            found.matches += 1
        return
    actual, inferred = _TYPES[value.__class__]
    matches = (
        actual in types
        or (actual == "number" and "integer" in types and numbers.is_json_integer(value))
        or (actual == "integer" and "number" in types)
    )
    textual = actual in {"string", "array"}
    if format_name and not textual and not matches and inferred != format_name:
        _wrong_type(name, format_name, inferred, found)
    elif matches or (format_name and textual and "number" not in types and "integer" not in types):
        found.matches += 1  # kube-openapi checks a string's format elsewhere, and by accident does not check a list
    else:
        _wrong_type(name, wanted, actual, found)


def _wrong_type(name: str, wanted: str, actual: str, found: Findings) -> None:
    message = f"{name} in body must be of type {wanted}: {golang.quote(actual)}"
    found.add(message, FieldError.type_invalid(found.path(name), actual, message))


def _explain_junctors(node: SchemaNode, name: str, value: Any, found: Findings) -> None:
    quoted = golang.quote(name)
    alternatives = list(_parts(node, "anyOf", name, value, found.base))
    if alternatives:
        valid = next((part for part in alternatives if not part.errors), None)
        if valid is None:
            found.general(f"{quoted} must validate at least one schema (anyOf)")
            valid = max(alternatives, key=lambda part: part.matches)  # the first of the best
        found.merge(valid)
    alternatives = list(_parts(node, "oneOf", name, value, found.base))
    if alternatives:
        accepted = [part for part in alternatives if not part.errors]
        if len(accepted) == 1:
            found.merge(accepted[0])
        elif accepted:
            problem = f"Found {len(accepted)} valid alternatives"
            found.general(f"{quoted} must validate one and only one schema (oneOf). {problem}")
        else:
            found.general(f"{quoted} must validate one and only one schema (oneOf). Found none valid")
            found.merge(max(alternatives, key=lambda part: part.matches))
    parts = list(_parts(node, "allOf", name, value, found.base))
    for part in parts:
        found.merge(part)
    failed = sum(1 for part in parts if part.errors)
    if failed:
        problem = ". None validated" if failed == len(parts) else ""
        found.general(f"{quoted} must validate all the schemas (allOf){problem}")
    if any(not part.errors for part in _parts(node, "not", name, value, found.base)):
        found.general(f"{quoted} must not validate the schema (not)")


def _parts(node: SchemaNode, junctor: str, name: str, value: Any, base: FieldPath) -> Iterator[Findings]:
    for part in _compiled_parts(node, junctor):
        comparison_budget.spend(comparison_budget.EXPLAINED)
        yield explain(part, name, value, base)


def _compiled_parts(node: SchemaNode, junctor: str) -> tuple[SchemaNode, ...]:
    if node.parts is None:
        node.parts = {}
    parts = node.parts.get(junctor)
    if parts is None:
        source = node.source.get(junctor)
        sources = source or () if junctor != "not" else () if source is None else (source,)
        parts = node.parts[junctor] = tuple(compile_schema(one) for one in sources)
    return parts


def _explain_string(node: SchemaNode, name: str, value: str, found: Findings) -> None:
    source = node.source
    if (limit := source.get("maxLength")) is not None and len(value) > limit:
        message = f"{name} in body should be at most {limit} chars long"
        found.add(message, FieldError.too_long(found.path(name), value, limit))
    elif (limit := source.get("minLength")) is not None and len(value) < limit:
        found.invalid(name, value, f"{name} in body should be at least {limit} chars long")
    elif pattern := source.get("pattern"):
        try:
            if not regex.compile_regex(pattern).search(value):
                found.invalid(name, value, f"{name} in body should match '{pattern}'")
        except regex.PatternError as error:
            shown = f"{pattern}, but pattern is invalid: {error}"
            found.invalid(name, value, f"{name} in body should match '{shown}'")


def number_holds(node: SchemaNode, value: float) -> bool:
    """Return whether a number has the node's type and is within its bounds."""
    found = Findings(FieldPath())
    value = numbers.go_number(value)
    if any(expected_types(node)):
        _explain_type(node, "", value, found)
    _explain_number(node, "", value, found)
    return not found.errors


def _explain_number(node: SchemaNode, name: str, value: float, found: Findings) -> None:
    types, format_name = expected_types(node)
    type_name = types[0] if len(types) == 1 and types[0] in {"integer", "number"} else ""
    format_name = format_name if type_name else ""

    def out_of_range(number: float, what: str) -> bool:
        problem = numbers.range_problem(number, type_name, format_name, what, name)
        if problem:
            found.general(problem)
        return bool(problem)

    def shown(number: float) -> str:
        return str(number) if isinstance(number, int) else golang.print_float(number)

    def like_value(bound: float, *, exact: bool) -> tuple[float, float]:
        # An int64 is compared with the bound cut to int64, anything else as float64.
        return (value, int(bound)) if exact and isinstance(value, int) else (float(value), bound)

    out_of_range(value, "Checked")
    source = node.source
    if (raw := source.get("multipleOf")) is not None:
        number, factor = like_value(float(raw), exact=not out_of_range(float(raw), "MultipleOf"))
        if factor <= 0:
            message = f"factor MultipleOf declared for {name} must be positive: {shown(factor)}"
            found.invalid(name, factor, message)
        elif not numbers.is_multiple(number, factor):
            found.invalid(name, number, f"{name} in body should be a multiple of {shown(factor)}")
    if (raw := source.get("minimum")) is not None:
        number, bound = like_value(float(raw), exact=not out_of_range(float(raw), "Minimum boundary"))
        exclusive = bool(source.get("exclusiveMinimum"))
        if number < bound or (exclusive and number == bound):
            words = "greater than" if exclusive else "greater than or equal to"
            found.invalid(name, number, f"{name} in body should be {words} {shown(bound)}")
    if (raw := source.get("maximum")) is not None:
        number, bound = like_value(float(raw), exact=not out_of_range(float(raw), "Maximum boundary"))
        exclusive = bool(source.get("exclusiveMaximum"))
        if number > bound or (exclusive and number == bound):
            words = "less than" if exclusive else "less than or equal to"
            found.invalid(name, number, f"{name} in body should be {words} {shown(bound)}")


def _explain_list(node: SchemaNode, name: str, value: list[Any], found: Findings, pair: CorrelatedValue | None) -> None:
    source = node.source
    if node.items is not None:
        for index, item in enumerate(value):
            below = None if pair is None else pair.item(index)
            item_name = f"{name}[{index}]"[:MAX_PATH_CHARACTERS]
            found.merge(explain(node.items, item_name, item, found.base, below))
    if (limit := source.get("minItems")) is not None and len(value) < limit:
        found.invalid(name, len(value), f"{name} in body should have at least {limit} items")
    if (limit := source.get("maxItems")) is not None and len(value) > limit:
        message = f"{name} in body should have at most {limit} items"
        found.add(message, FieldError.too_many(found.path(name), len(value), limit))
    if source.get("uniqueItems") and any(
        same_json(item, other) for index, item in enumerate(value) for other in value[:index]
    ):
        found.invalid(name, None, f"{name} in body shouldn't contain duplicates")


def _explain_enum(node: SchemaNode, name: str, value: Any, found: Findings) -> None:
    allowed = node.source.get("enum")
    if allowed and not in_enum(value, allowed):
        names = [item if isinstance(item, str) else golang.json_text(item) for item in allowed]
        message = f"{name} in body should be one of {names}"
        found.add(message, FieldError.not_supported(found.path(name), value, names))


def in_enum(value: Any, allowed: list[Any]) -> bool:
    """Return whether a value is in an enum. Null never is; a number is converted to the allowed number's type first."""
    if value is None:
        return False
    if value.__class__ is int or value.__class__ is float:
        return any(
            (item.__class__ is int and int(value) == item) or (item.__class__ is float and value == item)
            for item in allowed
        )
    return any(same_json(value, item) for item in allowed)


def _explain_object(
    node: SchemaNode, name: str, value: dict[str, Any], found: Findings, pair: CorrelatedValue | None
) -> None:
    source = node.source
    if (limit := source.get("minProperties")) is not None and len(value) < limit:
        found.invalid(name, len(value), f"{name} in body should have at least {limit} properties")
    if (limit := source.get("maxProperties")) is not None and len(value) > limit:
        message = f"{name} in body should have at most {limit} properties"
        found.add(message, FieldError.too_many(found.path(name), len(value), limit))

    def below(child: SchemaNode, key: str, child_name: str) -> None:
        # The type of the whole object is converted before validation, so it can never count as unchanged.
        fixed = not name and key in {"apiVersion", "kind"}
        child_pair = None if pair is None or fixed else pair.field(key)
        found.merge(explain(child, child_name[:MAX_PATH_CHARACTERS], value[key], found.base, child_pair))

    if source.get("additionalProperties") is False:
        for key in value:
            if key not in node.properties:
                found.invalid(name, key, f"{name}.{key} in body is a forbidden property")
    elif node.additional is not None:
        for key in value:
            if key not in node.properties:
                below(node.additional, key, f"{name}.{key}")
    for key, child in node.properties.items():
        if key in value:
            below(child, key, f"{name}.{key}" if name else key)
    for key in node.required:
        if key not in value:
            found.add(f"{name}.{key} in body is required", FieldError.required(found.path(f"{name}.{key}")))
