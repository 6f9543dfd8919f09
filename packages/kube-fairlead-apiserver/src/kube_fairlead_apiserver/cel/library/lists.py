"""Lists: Kubernetes' own functions and cel-go's lists extension.

Upstream: k8s.io/apiserver@v0.36.4/pkg/cel/library/lists.go,
    github.com/google/cel-go@v0.26.0/ext/lists.go
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from kube_fairlead_apiserver.cel import arithmetic, equality, errors, macros, types, values
from kube_fairlead_apiserver.cel.declarations import Library, function, member
from kube_fairlead_apiserver.cel.library import costs
from kube_fairlead_apiserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    list_of,
    parameter,
)

__all__ = ["KUBERNETES_LISTS", "LISTS"]

_T = parameter("T")
_LIST = list_of(_T)
_ANY_LIST = list_of(types.DYN)
_COMPARABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
_SUMS: tuple[tuple[types.CelType, Any, Callable[[Any, Any], Any]], ...] = (
    (INT, 0, arithmetic.add_int),
    (UINT, values.Uint(0), arithmetic.add_uint),
    (DOUBLE, 0.0, arithmetic.add_double),
    (DURATION, values.Duration(0), arithmetic.add_duration),
)
_CALL_COST = 11  # a call that makes a list


# Kubernetes.


def _is_sorted(elements: list[Any]) -> bool:
    return all(equality.compare(left, right) <= 0 for left, right in itertools.pairwise(elements))


def _sum(zero: Any, add: Callable[[Any, Any], Any]) -> Callable[[list[Any]], Any]:
    return lambda elements: functools.reduce(add, elements, zero)


def _extreme(name: str, sign: int) -> Callable[[list[Any]], Any]:
    def pick(elements: list[Any]) -> Any:
        if not elements:
            raise errors.EvaluationError(f"{name} called on empty list")
        best = elements[0]
        for element in elements[1:]:
            if equality.compare(element, best) == sign:
                best = element
        return best

    return pick


def _index_of(elements: list[Any], wanted: Any) -> int:
    for index, element in enumerate(elements):
        if equality.equals(element, wanted):
            return index
    return -1


def _last_index_of(elements: list[Any], wanted: Any) -> int:
    for index in range(len(elements) - 1, -1, -1):
        if equality.equals(elements[index], wanted):
            return index
    return -1


KUBERNETES_LISTS = Library(
    "kubernetes.lists",
    overloads=(
        *(member("isSorted", (list_of(each),), BOOL, _is_sorted, costs.elements) for each in _COMPARABLE),
        *(member("sum", (list_of(each),), each, _sum(zero, add), costs.elements) for each, zero, add in _SUMS),
        *(member("min", (list_of(each),), each, _extreme("min", -1), costs.elements) for each in _COMPARABLE),
        *(member("max", (list_of(each),), each, _extreme("max", 1), costs.elements) for each in _COMPARABLE),
        member("indexOf", (_LIST, _T), INT, _index_of, costs.elements),
        member("lastIndexOf", (_LIST, _T), INT, _last_index_of, costs.elements),
    ),
)


# cel-go.


def _slice(elements: list[Any], start: int, end: int) -> list[Any]:
    asked = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise errors.EvaluationError(f"{asked}, negative indexes not supported")
    if start > end:
        raise errors.EvaluationError(f"{asked}, start index must be less than or equal to end index")
    if end > len(elements):
        raise errors.EvaluationError(f"{asked}, list is length {len(elements)}")
    return elements[start:end]


def _flatten(elements: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise errors.EvaluationError("level must be non-negative")
    flat = list(elements)
    while depth > 0 and any(isinstance(element, list) for element in flat):
        flat = [part for element in flat for part in (element if isinstance(element, list) else [element])]
        depth -= 1
    return flat


def _sort(elements: list[Any]) -> list[Any]:
    return _sort_by(elements, elements)


def _sort_by(elements: list[Any], keys: list[Any]) -> list[Any]:
    if len({type(key) for key in keys}) > 1:
        raise errors.EvaluationError("list elements must have the same type")
    if len(elements) != len(keys):
        raise errors.EvaluationError("@sortByAssociatedKeys() expected a list of the same size as its keys")
    pairs = list(zip(keys, elements, strict=True))
    pairs.sort(key=functools.cmp_to_key(_compare_first))
    return [element for _, element in pairs]


def _compare_first(left: tuple[Any, Any], right: tuple[Any, Any]) -> int:
    return equality.compare(left[0], right[0])


def _distinct(elements: list[Any]) -> list[Any]:
    unique: list[Any] = []
    for element in elements:
        if not any(equality.equals(element, known) for known in unique):
            unique.append(element)
    return unique


def _range(count: int) -> list[int]:
    return list(range(count))


def _slice_cost(arguments: tuple[Any, ...]) -> int:
    elements, start, end = arguments
    return _CALL_COST + int(max(0, min(end, len(elements)) - max(0, start)))


def _range_cost(arguments: tuple[Any, ...]) -> int:
    return _CALL_COST + max(0, int(arguments[0]))


def _copy_cost(arguments: tuple[Any, ...]) -> int:
    return _CALL_COST + len(arguments[0])


def _flatten_cost(arguments: tuple[Any, ...]) -> int:
    depth = arguments[1] if len(arguments) == 2 else 1
    return _CALL_COST + max(0, int(depth)) * len(arguments[0])


def _self_comparison_cost(arguments: tuple[Any, ...]) -> int:
    elements = arguments[-1]
    factor = 2.1 if elements and isinstance(elements[0], str | bytes) else 2.0
    return _CALL_COST + int(factor * len(elements) ** 2)


LISTS = Library(
    "lists",
    overloads=(
        member("slice", (_LIST, INT, INT), _LIST, _slice, _slice_cost),
        member("flatten", (list_of(_LIST),), _LIST, _flatten, _flatten_cost),
        member("flatten", (_ANY_LIST, INT), _ANY_LIST, _flatten, _flatten_cost),
        *(member("sort", (list_of(each),), list_of(each), _sort, _self_comparison_cost) for each in _COMPARABLE),
        *(
            member("@sortByAssociatedKeys", (_LIST, list_of(each)), _LIST, _sort_by, _self_comparison_cost)
            for each in _COMPARABLE
        ),
        function("lists.range", (INT,), list_of(INT), _range, _range_cost),
        member("reverse", (_LIST,), _LIST, lambda elements: elements[::-1], _copy_cost),
        member("distinct", (_LIST,), _LIST, _distinct, _self_comparison_cost),
    ),
    macros=macros.SORTING,
)
