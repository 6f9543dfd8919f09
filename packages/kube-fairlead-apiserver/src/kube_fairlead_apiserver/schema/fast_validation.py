"""Checks whether a value satisfies a schema: the fast part of validation.

Each node is compiled once into a closure that returns whether a value is valid, and stops at the first failure.
`detailed_validation` finds the errors, and it decides: both must agree, which a property test verifies.

Upstream: k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/validation/validate/schema.go
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from kube_fairlead_apiserver.cel import regex, string_formats
from kube_fairlead_apiserver.schema import comparison_budget
from kube_fairlead_apiserver.schema.correlation import same_json
from kube_fairlead_apiserver.schema.detailed_validation import expected_types, in_enum, number_holds
from kube_fairlead_apiserver.schema.model import SchemaNode, compile_schema

__all__ = ["checker"]

Check = Callable[[Any], bool]

_CLASSES: dict[str, type] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "number": float,
    "object": dict,
    "string": str,
}


def checker(node: SchemaNode) -> Check:
    """Return the node's check, compiled at the first call."""
    if node.checker is None:

        def again(value: Any) -> bool:
            # For a recursive schema, until its own check is compiled.
            return checker(node)(value)

        node.checker = again
        node.checker = _compile(node)
    return node.checker


def _compile(node: SchemaNode) -> Check:
    """Compile one test per allowed JSON type, then the tests for every type."""
    types, format_name = expected_types(node)
    by_class: dict[type, Check | None] = {}
    for cls in (str, bool, int, float, list, dict):
        if _allows(cls, types, format_name):
            by_class[cls] = _compile_class(node, cls, format_name)
    rest = _compile_rest(node)
    accepts_null = (node.nullable or not types) and not node.source.get("enum")
    if len(types) == 1 and len(by_class) == 1 and rest is None:
        if types[0] == "string" and not node.source.get("pattern") and not format_name:
            return _compile_text(node, accepts_null=accepts_null)
        return _compile_single(by_class, accepts_null=accepts_null)

    def check(value: Any) -> bool:
        if value is None:
            return accepts_null
        if value.__class__ not in by_class:
            return False
        test = by_class[value.__class__]
        return (test is None or test(value)) and (rest is None or rest(value))

    return check


def _compile_single(by_class: dict[type, Check | None], *, accepts_null: bool) -> Check:
    """Compile the common case of one type and no junctors, without a lookup."""
    ((cls, test),) = by_class.items()
    if test is None:
        return lambda value: value.__class__ is cls or (value is None and accepts_null)

    def check(value: Any) -> bool:
        return test(value) if value.__class__ is cls else value is None and accepts_null

    return check


def _compile_text(node: SchemaNode, *, accepts_null: bool) -> Check:
    """Compile the most common leaf: a string of bounded length."""
    longest, shortest = node.source.get("maxLength"), node.source.get("minLength")
    if longest is None and shortest is None:
        return lambda value: value.__class__ is str or (value is None and accepts_null)
    low, high = shortest or 0, sys.maxsize if longest is None else longest

    def check(value: Any) -> bool:
        return low <= len(value) <= high if value.__class__ is str else value is None and accepts_null

    return check


def _allows(cls: type, types: tuple[str, ...], format_name: str) -> bool:
    if not types:
        # A format without a type still rejects a value that is neither text nor of that format.
        return not format_name or cls in {str, list}
    if any(_CLASSES.get(name) is cls for name in types):
        return True
    if cls is float:
        return "integer" in types
    if cls is int:
        return "number" in types
    return cls in {str, list} and bool(format_name) and "number" not in types and "integer" not in types


def _compile_class(node: SchemaNode, cls: type, format_name: str) -> Check | None:
    if cls is str:
        return _compile_string(node, format_name)
    if cls is list:
        return _compile_list(node)
    if cls is dict:
        return _compile_object(node)
    if cls is bool:
        return None
    return _compile_number(node)


def _compile_rest(node: SchemaNode) -> Check | None:
    """Compile enum and junctors, which apply to values of any type."""
    tests: list[Check] = []
    source = node.source
    if allowed := source.get("enum"):
        if all(item.__class__ is str for item in allowed):
            texts = frozenset(allowed)
            tests.append(lambda value: value.__class__ is str and value in texts)
        else:
            tests.append(lambda value: in_enum(value, allowed))
    every = [checker(compile_schema(part)) for part in source.get("allOf", ())]
    some = [checker(compile_schema(part)) for part in source.get("anyOf", ())]
    one = [checker(compile_schema(part)) for part in source.get("oneOf", ())]
    forbidden = source.get("not")
    parts = len(every) + len(some) + len(one) + (forbidden is not None)
    if parts:
        tests.append(lambda _: _spend(parts))
    tests.extend(every)
    if some:
        tests.append(lambda value: any(part(value) for part in some))
    if one:
        tests.append(lambda value: sum(1 for part in one if part(value)) == 1)
    if forbidden is not None:
        refused = checker(compile_schema(forbidden))
        tests.append(lambda value: not refused(value))
    return _all_of(tests)


def _spend(parts: int) -> bool:
    comparison_budget.spend(parts)
    return True


def _all_of(tests: list[Check]) -> Check | None:
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda value: all(test(value) for test in tests)


def _compile_string(node: SchemaNode, format_name: str) -> Check | None:
    source = node.source
    tests: list[Check] = []
    longest, shortest = source.get("maxLength"), source.get("minLength")
    if longest is not None:
        tests.append(lambda value: len(value) <= longest)
    if shortest is not None:
        tests.append(lambda value: len(value) >= shortest)
    if pattern := source.get("pattern"):
        try:
            tests.append(regex.compile_regex(pattern).search)
        except regex.PatternError:
            tests.append(lambda _: False)
    if format_name and (check := string_formats.matches_format(format_name)) is not None:
        tests.append(check)
    return _all_of(tests)


def _compile_number(node: SchemaNode) -> Check:
    """Check integers within plain bounds here; `detailed_validation` checks floats, huge integers and failures."""
    source = node.source
    low, high = -(2**63), 2**63 - 1
    if node.type == "integer" and node.format == "int32":
        low, high = -(2**31), 2**31 - 1
    if (bound := source.get("minimum")) is not None:
        low = max(low, int(bound) + bool(source.get("exclusiveMinimum")))
    if (bound := source.get("maximum")) is not None:
        high = min(high, int(bound) - bool(source.get("exclusiveMaximum")))
    factor = source.get("multipleOf")
    if factor is not None or not all(
        float(bound).is_integer() and abs(bound) < 2**53
        for bound in (source.get("minimum"), source.get("maximum"))
        if bound is not None
    ):
        high = low - 1  # nothing is plain

    def check(value: Any) -> bool:
        if value.__class__ is int and low <= value <= high:
            return True
        return number_holds(node, value)

    return check


def _compile_list(node: SchemaNode) -> Check | None:
    source = node.source
    most, least, unique = source.get("maxItems"), source.get("minItems"), bool(source.get("uniqueItems"))
    item = None if node.items is None else checker(node.items)
    if most is None and least is None and not unique:
        if item is None:
            return None
        return lambda value: all(map(item, value))

    def check(value: list[Any]) -> bool:
        if (most is not None and len(value) > most) or (least is not None and len(value) < least):
            return False
        if unique and any(same_json(entry, other) for i, entry in enumerate(value) for other in value[:i]):
            return False
        return item is None or all(map(item, value))

    return check


def _compile_object(node: SchemaNode) -> Check | None:
    source = node.source
    fields = {name: checker(child) for name, child in node.properties.items()}
    required = frozenset(node.required)
    most, least = source.get("maxProperties"), source.get("minProperties")
    closed = source.get("additionalProperties") is False
    other = None if node.additional is None else checker(node.additional)
    if not fields and not required and other is None and not closed and most is None and least is None:
        return None
    bounded = most is not None or least is not None

    def check(value: dict[str, Any]) -> bool:
        if not required <= value.keys():
            return False
        if bounded and not (least or 0) <= len(value) <= (len(value) if most is None else most):
            return False
        for name, item in value.items():
            test = fields.get(name)
            if test is None:
                if closed:
                    return False
                if other is None:
                    continue
                test = other
            if not test(item):
                return False
        return True

    return check
