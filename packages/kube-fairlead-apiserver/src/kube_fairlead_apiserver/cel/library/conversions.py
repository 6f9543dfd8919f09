"""Conversions between types: ``int('1')``, ``string(x)``, ``timestamp('...')``.

Upstream: github.com/google/cel-go@v0.26.0/common/stdlib/standard.go,
    github.com/google/cel-go@v0.26.0/common/types/string.go,
    github.com/google/cel-go@v0.26.0/common/types/int.go,
    github.com/google/cel-go@v0.26.0/common/types/uint.go,
    github.com/google/cel-go@v0.26.0/common/types/double.go,
    github.com/google/cel-go@v0.26.0/common/types/timestamp.go,
    github.com/google/cel-go@v0.26.0/common/types/duration.go,
    github.com/google/cel-go@v0.26.0/common/types/bytes.go,
    github.com/google/cel-go@v0.26.0/common/types/err.go
"""

from __future__ import annotations

import math
import re
from typing import Any

from kube_fairlead.api import golang
from kube_fairlead_apiserver.cel import errors, times, values
from kube_fairlead_apiserver.cel.declarations import Library, function
from kube_fairlead_apiserver.cel.library import costs
from kube_fairlead_apiserver.cel.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT, CelType
from kube_fairlead_apiserver.cel.values import Duration, Timestamp, Uint

__all__ = ["CONVERSIONS", "double_text", "int_to_timestamp", "text_to_double", "value_to_text"]

_INTEGER = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = re.compile(r"[0-9]+")
_DOUBLE = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE
)
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_DIGITS_MAX = 25  # enough for any 64-bit number; Python takes quadratic time for huge ones


def _failure(source: CelType, target: CelType) -> errors.EvaluationError:
    return errors.EvaluationError(f"type conversion error from '{source.name}' to '{target.name}'")


def _same(value: Any) -> Any:
    return value


def _text_to_bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _failure(STRING, BOOL)


def _text_to_int(text: str) -> int:
    if _INTEGER.fullmatch(text) and len(text.lstrip("+-").lstrip("0")) <= _DIGITS_MAX:
        value = int(text)
        if values.INT_MIN <= value <= values.INT_MAX:
            return value
    raise _failure(STRING, INT)


def _text_to_uint(text: str) -> Uint:
    if _UNSIGNED.fullmatch(text) and len(text.lstrip("0")) <= _DIGITS_MAX:
        value = int(text)
        if value <= values.UINT_MAX:
            return Uint(value)
    raise _failure(STRING, UINT)


def text_to_double(text: str) -> float:
    """Parse a double as Go does; one out of range is rejected."""
    if _DOUBLE.fullmatch(text):
        value = float(text)
        if not math.isinf(value) or "inf" in text.lower():
            return value
    raise _failure(STRING, DOUBLE)


def _double_to_int(value: float) -> int:
    if math.isnan(value) or not -(2.0**63) < value < 2.0**63:
        raise errors.EvaluationError("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> Uint:
    if math.isnan(value) or not 0 <= value < 2.0**64:
        raise errors.EvaluationError("unsigned integer overflow")
    return Uint(int(value))


def _int_to_uint(value: int) -> Uint:
    if value < 0:
        raise errors.EvaluationError("unsigned integer overflow")
    return Uint(value)


def _uint_to_int(value: Uint) -> int:
    if value > values.INT_MAX:
        raise errors.EvaluationError("integer overflow")
    return int(value)


def _bytes_to_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise errors.EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def double_text(value: float) -> str:
    """Format a double as ``string()`` does."""
    return golang.print_float(value)


def value_to_text(value: Any) -> str:
    """Evaluate ``string(value)`` for any value that has it."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return double_text(value)
        case str():
            return value
        case bytes():
            return _bytes_to_text(value)
        case Timestamp():
            return times.format_timestamp(value)
        case Duration():
            return times.format_duration(value)
        case CelType():
            return value.name
        case _:
            raise _failure(values.type_of(value), STRING)


def _int_to_duration(_value: int) -> Duration:
    # Declared, but without a meaning: an int has no unit.
    raise _failure(INT, DURATION)


def _text_to_duration(text: str) -> Duration:
    try:
        return times.parse_duration(text)
    except ValueError:
        raise _failure(STRING, DURATION) from None


def _text_to_timestamp(text: str) -> Timestamp:
    try:
        return times.parse_timestamp(text)
    except ValueError:
        raise _failure(STRING, TIMESTAMP) from None


def int_to_timestamp(seconds: int) -> Timestamp:
    """Convert seconds since the epoch."""
    if not values.TIMESTAMP_SECONDS_MIN <= seconds <= values.TIMESTAMP_SECONDS_MAX:
        raise errors.EvaluationError("timestamp overflow")
    return Timestamp(seconds * 1_000_000_000)


CONVERSIONS = Library(
    "conversions",
    overloads=(
        function("bool", (BOOL,), BOOL, _same),
        function("bool", (STRING,), BOOL, _text_to_bool),
        function("bytes", (BYTES,), BYTES, _same),
        function("bytes", (STRING,), BYTES, str.encode, costs.traversal),
        function("double", (DOUBLE,), DOUBLE, _same),
        function("double", (INT,), DOUBLE, float),
        function("double", (STRING,), DOUBLE, text_to_double),
        function("double", (UINT,), DOUBLE, float),
        function("duration", (DURATION,), DURATION, _same),
        function("duration", (INT,), DURATION, _int_to_duration),
        function("duration", (STRING,), DURATION, _text_to_duration),
        function("int", (INT,), INT, _same),
        function("int", (DOUBLE,), INT, _double_to_int),
        function("int", (DURATION,), INT, lambda value: value.nanoseconds),
        function("int", (STRING,), INT, _text_to_int),
        function("int", (TIMESTAMP,), INT, lambda value: value.nanoseconds // 1_000_000_000),
        function("int", (UINT,), INT, _uint_to_int),
        function("string", (STRING,), STRING, _same),
        function("string", (BOOL,), STRING, value_to_text),
        function("string", (BYTES,), STRING, _bytes_to_text, costs.traversal),
        function("string", (DOUBLE,), STRING, double_text),
        function("string", (DURATION,), STRING, times.format_duration),
        function("string", (INT,), STRING, str),
        function("string", (TIMESTAMP,), STRING, times.format_timestamp),
        function("string", (UINT,), STRING, lambda value: str(int(value))),
        function("timestamp", (TIMESTAMP,), TIMESTAMP, _same),
        function("timestamp", (INT,), TIMESTAMP, int_to_timestamp),
        function("timestamp", (STRING,), TIMESTAMP, _text_to_timestamp),
        function("uint", (UINT,), UINT, _same),
        function("uint", (DOUBLE,), UINT, _double_to_uint),
        function("uint", (INT,), UINT, _int_to_uint),
        function("uint", (STRING,), UINT, _text_to_uint),
    ),
)
