"""Costs of calls that depend on their arguments: cel-go's and Kubernetes' formulas.

Reading a character costs a tenth; a pattern multiplies that by a quarter of its length.

Upstream: k8s.io/apiserver@v0.36.4/pkg/cel/library/cost.go,
    github.com/google/cel-go@v0.26.0/interpreter/runtimecost.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead_apiserver.cel import values

__all__ = ["both", "elements", "format_check", "joined", "pattern", "product", "selector", "traversal", "twice", "unit"]

_CREATE_LIST, _CREATE_STRUCT = 10, 40


def unit(_arguments: tuple[Any, ...]) -> int:
    """Return a fixed nominal cost."""
    return 1


def _tenth(size: int) -> int:
    return -(-size // 10)


def traversal(arguments: tuple[Any, ...]) -> int:
    """Cost of reading the first argument once."""
    return _tenth(values.size(arguments[0]))


def twice(arguments: tuple[Any, ...]) -> int:
    """Cost of reading the first argument and writing as much."""
    return _tenth(2 * values.size(arguments[0]))


def joined(arguments: tuple[Any, ...]) -> int:
    """Cost of writing all elements of a list and the separators, twice."""
    parts, separator = arguments[0], arguments[1] if len(arguments) > 1 else ""
    size = sum(map(values.size, parts)) + len(separator) * max(0, len(parts) - 1)
    return _tenth(2 * size)


def both(arguments: tuple[Any, ...]) -> int:
    """Cost of reading both arguments."""
    return _tenth(values.size(arguments[0]) + values.size(arguments[1]))


def product(arguments: tuple[Any, ...]) -> int:
    """Cost of searching one text in another."""
    return _tenth(values.size(arguments[0])) * _tenth(values.size(arguments[1]))


def pattern(arguments: tuple[Any, ...]) -> int:
    """Cost of matching a pattern."""
    return _tenth(1 + len(arguments[0])) * -(-len(arguments[1]) // 4)


def format_check(text: str, pattern_size: int) -> int:
    """Cost of validating a string against a named format, whose pattern has this size."""
    return _tenth(1 + len(text)) * -(-pattern_size // 4)


def selector(arguments: tuple[Any, ...]) -> int:
    """Cost of parsing a selector: its characters, and a requirement for every two of them."""
    size = values.size(arguments[1])
    return _CREATE_LIST + _tenth(size) + -(-size // 2) * (_CREATE_LIST + _CREATE_STRUCT)


def elements(arguments: tuple[Any, ...]) -> int:
    """Cost of reading every part of the first argument."""
    return _whole(arguments[0])


def _whole(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value) // 10
    if isinstance(value, list):
        return sum(map(_whole, value))
    if isinstance(value, dict):
        return sum(_whole(key) + _whole(item) for key, item in value.items())
    return 1
