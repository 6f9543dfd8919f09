"""Equality and order of values.

Numbers of different types compare by value. Objects compare by their schema: lists that are sets or maps ignore order
at any depth. Other values of different types are unequal, without an error.

Upstream: k8s.io/apiserver@v0.36.4/pkg/cel/common/valuesunstructured.go,
    k8s.io/apiserver@v0.36.4/pkg/cel/common/equality.go,
    github.com/google/cel-go@v0.26.0/common/types/compare.go,
    github.com/google/cel-go@v0.26.0/common/types/util.go,
    github.com/google/cel-go@v0.26.0/common/types/double.go,
    github.com/google/cel-go@v0.26.0/common/types/int.go,
    github.com/google/cel-go@v0.26.0/common/types/uint.go
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from kube_fairlead_apiserver.cel import errors, types, values
from kube_fairlead_apiserver.cel.types import CelType, Kind

__all__ = ["Equality", "compare", "equality_for", "equals", "is_plain", "to_dynamic"]

Equality = Callable[[Any, Any], bool]

_NUMBERS = frozenset({int, values.Uint, float})
_DIRECT = frozenset({str, int, values.Uint, float, bool, bytes, type(None), values.Timestamp, values.Duration})
_ORDERED = frozenset({str, bytes, bool, values.Timestamp, values.Duration})


def equals(left: Any, right: Any) -> bool:
    """Compare values of unknown types: ``left == right``."""
    left_class, right_class = type(left), type(right)
    if left_class is right_class and left_class in _DIRECT:
        return bool(left == right)
    if left_class in _NUMBERS and right_class in _NUMBERS:
        return _compare_numbers(left, right) == 0
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and _lists_equal(left, right, equals)
    if isinstance(left, dict):
        return isinstance(right, dict) and len(left) == len(right) and _maps_equal(left, right, equals)
    if isinstance(left, values.Optional):
        return isinstance(right, values.Optional) and _optionals_equal(left, right, equals)
    if isinstance(left, values.Opaque | CelType):
        return bool(left == right)
    return False


def _lists_equal(left: list[Any], right: list[Any], same: Equality) -> bool:
    """Compare lists of the same length; the kind of the left one decides how."""
    if isinstance(left, values.SetList):
        return _covers(left, right)
    if isinstance(left, values.MapList):
        known = {left.key_of(element): element for element in left}
        same = equality_for(left.element_type) or equals
        for element in right:
            key = left.key_of(element)
            if key not in known or not same(known[key], element):
                return False
        return True
    return all(map(same, left, right))


def _covers(known: list[Any], wanted: list[Any]) -> bool:
    try:
        members = set(known)
        return all(element in members for element in wanted)
    except TypeError:  # a set of atomic objects, which cannot be hashed
        return all(any(equals(each, element) for each in known) for element in wanted)


def _maps_equal(left: Mapping[Any, Any], right: Mapping[Any, Any], same: Equality) -> bool:
    return all(key in right and same(value, right[key]) for key, value in left.items())


def _optionals_equal(left: values.Optional, right: values.Optional, same: Equality) -> bool:
    if left is values.NONE or right is values.NONE:
        return left is right
    return same(left.value, right.value)


def equality_for(cel_type: CelType) -> Equality | None:
    """Return the comparison for a static type, or None when ``equals`` is sufficient."""
    if isinstance(cel_type, types.ObjectType):
        return _object_equality(cel_type)
    same = equality_for(cel_type.parameters[-1]) if cel_type.parameters else None
    if same is None:
        return None
    inner: Equality = same
    if cel_type.kind is Kind.LIST:
        return lambda left, right: len(left) == len(right) and _lists_equal(left, right, inner)
    if cel_type.kind is Kind.MAP:
        return lambda left, right: len(left) == len(right) and _maps_equal(left, right, inner)
    if cel_type.name == "optional_type":
        return lambda left, right: _optionals_equal(left, right, inner)
    return None


def _object_equality(object_type: types.ObjectType) -> Equality:
    if is_plain(object_type):
        return lambda left, right: bool(left == right)

    def same(left: Any, right: Any) -> bool:
        if not isinstance(left, dict) or not isinstance(right, dict):
            return left is right
        if len(left) != len(right):
            return False
        by_name = {field.json_name: field.type for field in object_type.fields.values()}
        for name, value in left.items():
            if name not in right:
                return False
            field_type = by_name.get(name)
            other = right[name]
            if field_type is None:
                if value != other:
                    return False
            elif not _field_equal(field_type, value, other):
                return False
        return True

    return same


def _field_equal(field_type: CelType, left: Any, right: Any) -> bool:
    adapt = field_type.adapter
    if adapt is not None:
        left, right = adapt(left), adapt(right)
    return (equality_for(field_type) or equals)(left, right)


def is_plain(cel_type: CelType) -> bool:
    """Return whether JSON of this type is its value at every level, so that Python's ``==`` is correct."""
    pending = [cel_type]
    seen: set[int] = set()
    while pending:
        current = pending.pop()
        if current.adapter is not None and current != types.DOUBLE:
            return False
        if isinstance(current, types.ObjectType):
            if id(current.origin) in seen:
                continue
            seen.add(id(current.origin))
            pending.extend(field.type for field in current.fields.values())
        pending.extend(current.parameters)
    return True


def to_dynamic(value: Any, cel_type: CelType) -> Any:
    """Convert a typed value for a place without types: objects become maps of adapted fields."""
    if isinstance(cel_type, types.ObjectType):
        if not isinstance(value, dict):
            return value
        adapted: dict[str, Any] = {}
        for name, field in cel_type.fields.items():
            raw = value.get(field.json_name)
            if raw is not None:
                item = raw if field.type.adapter is None else field.type.adapter(raw)
                adapted[name] = to_dynamic(item, field.type)
        return adapted
    if isinstance(value, values.SetList | values.MapList):
        return value
    if cel_type.kind is Kind.LIST and isinstance(value, list):
        return [to_dynamic(element, cel_type.parameters[0]) for element in value]
    if cel_type.kind is Kind.MAP and isinstance(value, dict):
        return {key: to_dynamic(item, cel_type.parameters[1]) for key, item in value.items()}
    return value


def compare(left: Any, right: Any) -> int:
    """Return -1, 0 or 1; raise when the two have no order."""
    left_class, right_class = type(left), type(right)
    if left_class in _NUMBERS and right_class in _NUMBERS:
        return _compare_numbers(left, right, ordered=True)
    if left_class is right_class and left_class in _ORDERED:
        return int(left > right) - int(left < right)
    raise errors.EvaluationError("no such overload")


def _compare_numbers(left: Any, right: Any, *, ordered: bool = False) -> int:
    """Compare numbers of different types as cel-go does: an int and a double compare as doubles."""
    if isinstance(left, float) or isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            if ordered:
                raise errors.EvaluationError("NaN values cannot be ordered")
            return 1
        left, right = float(left), float(right)
    return int(left > right) - int(left < right)
