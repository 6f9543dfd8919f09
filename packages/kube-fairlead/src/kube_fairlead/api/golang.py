"""How Go prints values, for the messages that Kubernetes clients read.

Kubernetes builds its messages with Go's `%q`, `%v` and `json.Marshal`; a message is only the same if these are.
"""

from __future__ import annotations

import decimal
import math
from typing import Any, Literal

import msgspec

__all__ = ["json_text", "print_float", "quote"]

_SHORT_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
# encoding/json escapes these so that its output may stand inside HTML and JavaScript.
_JSON_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def quote(text: str) -> str:
    """`strconv.Quote`: a Go string literal, printable characters as they are."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_escape(char) for char in text) + '"'


def _escape(char: str) -> str:
    if (short := _SHORT_ESCAPES.get(char)) is not None:
        return short
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def print_float(value: float) -> str:
    """A float64 under `%v`: the shortest digits, an exponent below 1e-4 and from 1e6 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = decimal.Decimal(repr(value)).normalize().as_tuple()
    if not isinstance(exponent, int) or value == 0:
        return "-0" if sign else "0"
    point = len(digits) + exponent - 1
    if -4 <= point < 6:
        return format(decimal.Decimal((sign, digits, exponent)), "f")
    mantissa = "".join(map(str, digits))
    head = mantissa[0] + ("." + mantissa[1:] if len(mantissa) > 1 else "")
    return f"{'-' if sign else ''}{head}e{'-' if point < 0 else '+'}{abs(point):02d}"


def json_text(value: Any, *, struct: bool = False) -> str:
    """`json.Marshal` of a value: compact, HTML characters escaped, keys sorted as a map's or in order as a struct's."""
    order: Literal["sorted"] | None = None if struct else "sorted"
    return msgspec.json.encode(_with_floats(value), order=order).decode().translate(_JSON_ESCAPES)


def _with_floats(value: Any) -> Any:
    """The same with floats spelled as encoding/json does: no trailing .0, an exponent below 1e-6 and from 1e21 on."""
    if isinstance(value, float):
        return msgspec.Raw(_json_float(value).encode())
    if isinstance(value, dict):
        return {key: _with_floats(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_floats(item) for item in value]
    return value


def _json_float(value: float) -> str:
    if not math.isfinite(value):
        return "null"  # json.Marshal refuses these; a message must not fail over them
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    if 1e-6 <= abs(value) < 1e21:
        return format(decimal.Decimal(repr(value)).normalize(), "f")
    mantissa, _, exponent = repr(value).partition("e")
    digits = exponent.lstrip("+-").lstrip("0")
    return f"{mantissa.removesuffix('.0')}e{'-' if exponent.startswith('-') else '+'}{digits}"
