"""cel-go's math extension. Kubernetes does not enable it; other users of this package may.

Upstream: github.com/google/cel-go@v0.26.0/ext/math.go
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from kube_fairlead_apiserver.cel import equality, errors, macros, nodes, types, values
from kube_fairlead_apiserver.cel.declarations import Library, Overload, function
from kube_fairlead_apiserver.cel.types import BOOL, DOUBLE, DYN, INT, UINT, list_of

__all__ = ["MATH"]


def _extreme(sign: int) -> Callable[[list[Any]], Any]:
    def pick(numbers: list[Any]) -> Any:
        if not numbers:
            raise errors.EvaluationError("math.@max(list) argument must not be empty")
        best = numbers[0]
        for number in numbers[1:]:
            if equality.compare(number, best) == sign:
                best = number
        return best

    return pick


def _variadic(name: str, internal: str) -> macros.Expander:
    def expand(offset: int, target: nodes.Expr | None, args: list[nodes.Expr]) -> nodes.Expr | None:
        if not isinstance(target, nodes.Ident) or target.name != "math":
            return None
        if not args:
            raise macros.MacroError(target, f"{name}() requires at least one argument")
        numbers = args[0]
        if len(args) > 1 or isinstance(numbers, nodes.Literal):
            # The list may have numbers of different types, so it is dynamic.
            parts: list[nodes.Expr] = [nodes.Call(part.offset, "dyn", None, [part]) for part in args]
            numbers = nodes.ListLiteral(offset, parts)
        return nodes.Call(offset, internal, None, [numbers])

    return expand


def _rounded(round_: Callable[[float], float]) -> Callable[[float], float]:
    def apply(value: float) -> float:
        return math.copysign(round_(value), value) if math.isfinite(value) else value

    return apply


def _half_away_from_zero(value: float) -> float:
    return math.copysign(math.floor(abs(value) + 0.5), value)


def _absolute(value: int) -> int:
    if value == values.INT_MIN:
        raise errors.EvaluationError("integer overflow")
    return abs(value)


def _sign(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isnan(value) else float((value > 0) - (value < 0))
    return type(value)((value > 0) - (value < 0))


def _doubles(name: str, compute: Callable[[float], Any], result: types.CelType = DOUBLE) -> Overload:
    return function(f"math.{name}", (DOUBLE,), result, compute)


def _bits(name: str, compute: Callable[[int, int], int]) -> tuple[Overload, Overload]:
    return (
        function(f"math.{name}", (INT, INT), INT, compute),
        function(f"math.{name}", (UINT, UINT), UINT, lambda left, right: values.Uint(compute(left, right))),
    )


MATH = Library(
    "math",
    overloads=(
        function("math.@max", (list_of(DYN),), DYN, _extreme(1)),
        function("math.@min", (list_of(DYN),), DYN, _extreme(-1)),
        _doubles("ceil", _rounded(math.ceil)),
        _doubles("floor", _rounded(math.floor)),
        _doubles("trunc", _rounded(math.trunc)),
        _doubles("round", _rounded(_half_away_from_zero)),
        _doubles("isNaN", math.isnan, BOOL),
        _doubles("isInf", math.isinf, BOOL),
        _doubles("isFinite", math.isfinite, BOOL),
        function("math.abs", (DOUBLE,), DOUBLE, abs),
        function("math.abs", (INT,), INT, _absolute),
        function("math.abs", (UINT,), UINT, lambda value: value),
        *(function("math.sign", (each,), each, _sign) for each in (DOUBLE, INT, UINT)),
        *_bits("bitAnd", lambda left, right: left & right),
        *_bits("bitOr", lambda left, right: left | right),
        *_bits("bitXor", lambda left, right: left ^ right),
    ),
    macros={
        ("greatest", macros.ANY_COUNT, True): _variadic("math.greatest", "math.@max"),
        ("least", macros.ANY_COUNT, True): _variadic("math.least", "math.@min"),
    },
)
