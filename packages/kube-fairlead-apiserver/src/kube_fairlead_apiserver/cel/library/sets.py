"""Lists used as sets: cel-go's sets extension.

Upstream: github.com/google/cel-go@v0.26.0/ext/sets.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead_apiserver.cel import equality
from kube_fairlead_apiserver.cel.declarations import Cost, Library, function
from kube_fairlead_apiserver.cel.types import BOOL, list_of, parameter

__all__ = ["SETS"]

_LIST = list_of(parameter("T"))


def _has(elements: list[Any], wanted: Any) -> bool:
    return any(equality.equals(element, wanted) for element in elements)


def _contains(whole: list[Any], part: list[Any]) -> bool:
    return all(_has(whole, element) for element in part)


def _equivalent(left: list[Any], right: list[Any]) -> bool:
    return _contains(left, right) and _contains(right, left)


def _intersects(left: list[Any], right: list[Any]) -> bool:
    return any(_has(right, element) for element in left)


def _cost(factor: int) -> Cost:
    return lambda arguments: 1 + factor * len(arguments[0]) * len(arguments[1])


SETS = Library(
    "sets",
    overloads=(
        function("sets.contains", (_LIST, _LIST), BOOL, _contains, _cost(1)),
        function("sets.equivalent", (_LIST, _LIST), BOOL, _equivalent, _cost(2)),
        function("sets.intersects", (_LIST, _LIST), BOOL, _intersects, _cost(1)),
    ),
)
