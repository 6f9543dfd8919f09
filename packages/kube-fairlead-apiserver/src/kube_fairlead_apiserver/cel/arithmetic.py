"""Arithmetic with the ranges and rounding of 64-bit numbers, and addition of all types that have it.

Upstream: github.com/google/cel-go@v0.26.0/common/types/overflow.go,
    github.com/google/cel-go@v0.26.0/common/types/int.go,
    github.com/google/cel-go@v0.26.0/common/types/uint.go,
    github.com/google/cel-go@v0.26.0/common/types/double.go,
    github.com/google/cel-go@v0.26.0/common/types/duration.go,
    github.com/google/cel-go@v0.26.0/common/types/timestamp.go,
    github.com/google/cel-go@v0.26.0/common/types/err.go
"""

from __future__ import annotations

import math
from typing import Any

from kube_fairlead_apiserver.cel import equality, errors, values
from kube_fairlead_apiserver.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, Uint

__all__ = [
    "add_bytes",
    "add_double",
    "add_duration",
    "add_duration_timestamp",
    "add_int",
    "add_list",
    "add_string",
    "add_timestamp_duration",
    "add_uint",
    "divide_double",
    "divide_int",
    "divide_uint",
    "modulo_int",
    "modulo_uint",
    "multiply_double",
    "multiply_int",
    "multiply_uint",
    "negate_double",
    "negate_int",
    "subtract_double",
    "subtract_duration",
    "subtract_int",
    "subtract_timestamp",
    "subtract_timestamp_duration",
    "subtract_uint",
]

# The maximum number of values of a body.
_MOST_ELEMENTS = 200_000


def _int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise errors.EvaluationError("integer overflow")


def _uint(value: int) -> Uint:
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise errors.EvaluationError("unsigned integer overflow")


def add_int(left: int, right: int) -> int:
    """Add with overflow check."""
    return _int(left + right)


def subtract_int(left: int, right: int) -> int:
    """Subtract with overflow check."""
    return _int(left - right)


def multiply_int(left: int, right: int) -> int:
    """Multiply with overflow check."""
    return _int(left * right)


def divide_int(left: int, right: int) -> int:
    """Divide and truncate toward zero."""
    if right == 0:
        raise errors.EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return _int(quotient if (left < 0) == (right < 0) else -quotient)


def modulo_int(left: int, right: int) -> int:
    """Return the remainder with the sign of the dividend."""
    if right == 0:
        raise errors.EvaluationError("modulus by zero")
    if left == INT_MIN and right == -1:
        raise errors.EvaluationError("integer overflow")
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def negate_int(value: int) -> int:
    """Negate with overflow check."""
    return _int(-value)


def add_uint(left: Uint, right: Uint) -> Uint:
    """Add unsigned with overflow check."""
    return _uint(int(left) + int(right))


def subtract_uint(left: Uint, right: Uint) -> Uint:
    """Subtract unsigned with overflow check."""
    return _uint(int(left) - int(right))


def multiply_uint(left: Uint, right: Uint) -> Uint:
    """Multiply unsigned with overflow check."""
    return _uint(int(left) * int(right))


def divide_uint(left: Uint, right: Uint) -> Uint:
    """Divide unsigned."""
    if right == 0:
        raise errors.EvaluationError("division by zero")
    return Uint(int(left) // int(right))


def modulo_uint(left: Uint, right: Uint) -> Uint:
    """Return the unsigned remainder."""
    if right == 0:
        raise errors.EvaluationError("modulus by zero")
    return Uint(int(left) % int(right))


def add_double(left: float, right: float) -> float:
    """Add as IEEE 754 does."""
    return left + right


def subtract_double(left: float, right: float) -> float:
    """Subtract as IEEE 754 does."""
    return left - right


def multiply_double(left: float, right: float) -> float:
    """Multiply as IEEE 754 does."""
    return left * right


def divide_double(left: float, right: float) -> float:
    """Divide as IEEE 754 does: division by zero is infinity or NaN, where Python raises."""
    if right:
        return left / right
    if math.isnan(left) or left == 0 or math.isnan(right):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def negate_double(value: float) -> float:
    """Negate as IEEE 754 does."""
    return -value


def add_string(left: str, right: str) -> str:
    """Concatenate."""
    return left + right


def add_bytes(left: bytes, right: bytes) -> bytes:
    """Concatenate."""
    return left + right


def add_list(left: list[Any], right: list[Any]) -> list[Any]:
    """Concatenate; a set gets the union, a map list a merge in which the right side replaces items in place."""
    if len(left) + len(right) > _MOST_ELEMENTS:
        # cel-go does not copy them, so the cost of an addition does not depend on its size.
        raise errors.EvaluationError(f"a list of more than {_MOST_ELEMENTS} elements")
    if isinstance(left, values.SetList):
        joined = values.SetList(left)
        for element in right:
            if not any(equality.equals(each, element) for each in joined):
                joined.append(element)
        return joined
    if isinstance(left, values.MapList):
        merged = values.MapList(left, left.keys, left.element_type)
        positions = {left.key_of(element): position for position, element in enumerate(left)}
        for element in right:
            position = positions.get(left.key_of(element))
            if position is None:
                merged.append(element)
            else:
                merged[position] = element
        return merged
    return [*left, *right]


def _duration(nanoseconds: int) -> Duration:
    if values.DURATION_MIN <= nanoseconds <= values.DURATION_MAX:
        return Duration(nanoseconds)
    raise errors.EvaluationError("integer overflow")  # cel-go counts nanoseconds in an int


def _timestamp(nanoseconds: int, offset_seconds: int) -> Timestamp:
    if values.TIMESTAMP_SECONDS_MIN <= nanoseconds // 1_000_000_000 <= values.TIMESTAMP_SECONDS_MAX:
        return Timestamp(nanoseconds, offset_seconds)
    raise errors.EvaluationError("timestamp overflow")


def add_duration(left: Duration, right: Duration) -> Duration:
    """Add with overflow check."""
    return _duration(left.nanoseconds + right.nanoseconds)


def subtract_duration(left: Duration, right: Duration) -> Duration:
    """Subtract with overflow check."""
    return _duration(left.nanoseconds - right.nanoseconds)


def add_timestamp_duration(left: Timestamp, right: Duration) -> Timestamp:
    """Return a later time."""
    return _timestamp(left.nanoseconds + right.nanoseconds, left.offset_seconds)


def add_duration_timestamp(left: Duration, right: Timestamp) -> Timestamp:
    """Return a later time."""
    return add_timestamp_duration(right, left)


def subtract_timestamp_duration(left: Timestamp, right: Duration) -> Timestamp:
    """Return an earlier time."""
    return _timestamp(left.nanoseconds - right.nanoseconds, left.offset_seconds)


def subtract_timestamp(left: Timestamp, right: Timestamp) -> Duration:
    """Return the duration between two times."""
    return _duration(left.nanoseconds - right.nanoseconds)
