"""Signatures of the operators. The planner compiles most of them itself; these functions serve dynamic values.

Upstream: github.com/google/cel-go@v0.26.0/common/stdlib/standard.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead_apiserver.cel import arithmetic, equality, field_access, types, values
from kube_fairlead_apiserver.cel.declarations import Library, Overload, function, member
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
    CelType,
    list_of,
    map_of,
    parameter,
)

__all__ = ["OPERATORS"]

_A, _B = parameter("A"), parameter("B")
_NUMERIC = (INT, UINT, DOUBLE)
_ORDERED = (BOOL, *_NUMERIC, STRING, BYTES, TIMESTAMP, DURATION)


def _planned(*_arguments: Any) -> Any:
    raise TypeError("this operator is planned, never called")


def _orderings(symbol: str) -> list[Overload]:
    pairs = [(each, each) for each in _ORDERED]
    pairs += [(left, right) for left in _NUMERIC for right in _NUMERIC if left != right]
    return [function(f"_{symbol}_", pair, BOOL, _planned) for pair in pairs]


def _size(value: Any) -> int:
    return len(value)


_SIZED: tuple[CelType, ...] = (BYTES, list_of(_A), map_of(_A, _B), STRING)

OPERATORS = Library(
    "operators",
    overloads=(
        function("_?_:_", (BOOL, _A, _A), _A, _planned),
        function("!_", (BOOL,), BOOL, _planned),
        function("_==_", (_A, _A), BOOL, equality.equals),
        function("_!=_", (_A, _A), BOOL, _planned),
        function("_+_", (BYTES, BYTES), BYTES, arithmetic.add_bytes, costs.both),
        function("_+_", (DOUBLE, DOUBLE), DOUBLE, arithmetic.add_double),
        function("_+_", (DURATION, DURATION), DURATION, arithmetic.add_duration),
        function("_+_", (DURATION, TIMESTAMP), TIMESTAMP, arithmetic.add_duration_timestamp),
        function("_+_", (TIMESTAMP, DURATION), TIMESTAMP, arithmetic.add_timestamp_duration),
        function("_+_", (INT, INT), INT, arithmetic.add_int),
        function("_+_", (list_of(_A), list_of(_A)), list_of(_A), arithmetic.add_list),
        function("_+_", (STRING, STRING), STRING, arithmetic.add_string, costs.both),
        function("_+_", (UINT, UINT), UINT, arithmetic.add_uint),
        function("_/_", (DOUBLE, DOUBLE), DOUBLE, arithmetic.divide_double),
        function("_/_", (INT, INT), INT, arithmetic.divide_int),
        function("_/_", (UINT, UINT), UINT, arithmetic.divide_uint),
        function("_%_", (INT, INT), INT, arithmetic.modulo_int),
        function("_%_", (UINT, UINT), UINT, arithmetic.modulo_uint),
        function("_*_", (DOUBLE, DOUBLE), DOUBLE, arithmetic.multiply_double),
        function("_*_", (INT, INT), INT, arithmetic.multiply_int),
        function("_*_", (UINT, UINT), UINT, arithmetic.multiply_uint),
        function("-_", (DOUBLE,), DOUBLE, arithmetic.negate_double),
        function("-_", (INT,), INT, arithmetic.negate_int),
        function("_-_", (DOUBLE, DOUBLE), DOUBLE, arithmetic.subtract_double),
        function("_-_", (DURATION, DURATION), DURATION, arithmetic.subtract_duration),
        function("_-_", (INT, INT), INT, arithmetic.subtract_int),
        function("_-_", (TIMESTAMP, DURATION), TIMESTAMP, arithmetic.subtract_timestamp_duration),
        function("_-_", (TIMESTAMP, TIMESTAMP), DURATION, arithmetic.subtract_timestamp),
        function("_-_", (UINT, UINT), UINT, arithmetic.subtract_uint),
        *(overload for symbol in ("<", "<=", ">", ">=") for overload in _orderings(symbol)),
        function("_[_]", (list_of(_A), INT), _A, field_access.index_value),
        function("_[_]", (map_of(_A, _B), _A), _B, field_access.index_value),
        function("@in", (_A, list_of(_A)), BOOL, _planned),
        function("@in", (_A, map_of(_A, _B)), BOOL, _planned),
        *(function("size", (each,), INT, _size) for each in _SIZED),
        *(member("size", (each,), INT, _size) for each in _SIZED),
        function("dyn", (types.DYN,), types.DYN, lambda value: value),
        function("type", (_A,), types.type_of_type(_A), values.type_of),
    ),
    types={
        **{each.name: each for each in (BOOL, BYTES, DOUBLE, INT, STRING, UINT, TIMESTAMP, DURATION)},
        **{each.name: each for each in (types.LIST, types.MAP, types.NULL, types.TYPE)},
    },
)
