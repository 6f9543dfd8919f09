"""Numbers as Go's JSON decoder and validators treat them.

Go decodes an integer literal that fits 64 bits as int64 and everything else as float64; msgspec decodes integers of any
size. Rules about types and bounds depend on which of the two a number is.

Upstream: k8s.io/kube-openapi@v0.0.0-20260317180543-43fb72c5454a/pkg/validation/validate/values.go,
    sigs.k8s.io/json@v0.0.0-20250730193827-2d320260d730/internal/golang/encoding/json/kubernetes_patch.go
"""

from __future__ import annotations

import math
from typing import Any

__all__ = ["fits_integer", "go_number", "is_json_integer", "is_multiple", "range_problem"]

_MAX_JSON_FLOAT = 2.0**53 - 1
_MAX_FLOAT32 = 3.4028235677973366e38  # the largest number that rounds to the largest float32
_EPSILON = 1e-9


def go_number(value: Any) -> Any:
    """Convert an int that does not fit 64 bits to the float that Go decodes."""
    if value.__class__ is int and not -(2**63) <= value < 2**63:
        try:
            return float(value)
        except OverflowError:
            return math.inf
    return value


def is_json_integer(value: float) -> bool:
    """Return whether a float is near enough to an integer to count as one."""
    if math.isnan(value) or not -_MAX_JSON_FLOAT <= value <= _MAX_JSON_FLOAT:
        return False
    whole = math.trunc(value)
    if value == whole:
        return True
    if value < 0 or whole == 0:
        return False
    return abs(value - whole) / (value + whole) < _EPSILON


def fits_integer(value: float, bits: int) -> bool:
    """Return whether a number is an integer within the range of a signed integer of that many bits."""
    if not float(value).is_integer():
        return False
    return bool(-(2 ** (bits - 1)) <= value < 2 ** (bits - 1))


def range_problem(value: float, type_name: str, format_name: str, what: str, path: str) -> str:
    """Return why a number cannot be of a numeric type and format; empty if it can."""
    if type_name == "integer":
        fits = fits_integer(value, 32 if format_name == "int32" else 64)
    else:
        fits = format_name != "float" or abs(value) < _MAX_FLOAT32
    if fits:
        return ""
    suffix = f"with format {format_name}" if format_name else "(default format)"
    return f"{what} value must be of type {type_name} {suffix} in {path}"


def is_multiple(value: Any, factor: float) -> bool:
    """Return whether value is a multiple of a positive factor: an int exactly, a float within an epsilon."""
    if value.__class__ is int:
        return bool(value % int(factor) == 0)
    quotient = 1 / factor * value if factor < 1 else value / factor
    return is_json_integer(quotient)
