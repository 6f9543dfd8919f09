"""``'%s is %d'.format([...])``.

Kubernetes uses the first version of cel-go's formatting, which prints %f and %e in American style: digits in groups of
three, and a power of ten instead of an exponent.

Upstream: github.com/google/cel-go@v0.26.0/ext/formatting.go
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from kube_fairlead.api import golang
from kube_fairlead_apiserver.cel import errors, times, types, values
from kube_fairlead_apiserver.cel.library import conversions
from kube_fairlead_apiserver.cel.types import CelType, Kind

__all__ = ["Clause", "accepts", "complaint", "format_text", "pieces"]

_CLAUSE = re.compile(r"(?:\.([0-9]*))?(.)?", re.DOTALL)
_PRECISION_DEFAULT = 6
_PRECISION_MAX = 1000  # Go has no limit; this one limits the size of the result
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_NOT_NUMBERS = frozenset({"NaN", "Infinity", "-Infinity"})
_STRING_TYPES = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
_COMPLAINTS = {
    "s": f"string clause can only be used on {_STRING_TYPES}, was given",
    "d": "decimal clause can only be used on integers, was given",
    "f": "fixed-point clause can only be used on doubles, was given",
    "e": "scientific clause can only be used on doubles, was given",
    "b": "only integers and bools can be formatted as binary, was given",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given",
    "o": "octal clause can only be used on integers, was given",
}
_INTEGERS = frozenset({types.INT, types.UINT})
_ACCEPTED = {
    "d": _INTEGERS,
    "f": frozenset({types.DOUBLE, types.STRING}),
    "e": frozenset({types.DOUBLE, types.STRING}),
    "b": _INTEGERS | {types.BOOL},
    "x": _INTEGERS | {types.STRING, types.BYTES},
    "o": _INTEGERS,
}
_PRINTABLE_KINDS = frozenset({Kind.PRIMITIVE, Kind.TIME, Kind.NULL, Kind.LIST, Kind.MAP, Kind.TYPE})


@dataclasses.dataclass(frozen=True, slots=True)
class Clause:
    """One ``%`` clause of a template."""

    verb: str  # lower case
    precision: int
    upper: bool = False


def pieces(template: str) -> Iterator[str | Clause]:
    """Split a template into literal text and clauses."""
    position = 0
    while position < len(template):
        percent = template.find("%", position)
        if percent < 0:
            yield template[position:]
            return
        if percent > position:
            yield template[position:percent]
        if template.startswith("%%", percent):
            yield "%"
            position = percent + 2
            continue
        if percent + 1 == len(template):
            raise errors.EvaluationError("unexpected end of string")
        clause, position = _clause(template, percent + 1)
        yield clause


def _clause(template: str, position: int) -> tuple[Clause, int]:
    match = _CLAUSE.match(template, position)
    digits, verb = (match[1], match[2]) if match else (None, None)
    if digits is not None:
        trouble = "could not parse formatting clause: error while parsing precision: "
        if verb is None:
            raise errors.EvaluationError(f"{trouble}could not find end of precision specifier")
        if not digits:
            reason = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
            raise errors.EvaluationError(trouble + reason)
    lower = "x" if verb == "X" else verb
    if match is None or lower is None or lower not in _COMPLAINTS:
        raise errors.EvaluationError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    precision = _PRECISION_DEFAULT if digits is None else min(int(digits[-9:]), _PRECISION_MAX)
    return Clause(lower, precision, upper=verb == "X"), match.end()


def accepts(clause: Clause, cel_type: CelType) -> bool:
    """Return whether a clause can print values of a static type."""
    if clause.verb == "s":
        return cel_type.kind in _PRINTABLE_KINDS
    return cel_type in _ACCEPTED[clause.verb]


def complaint(clause: Clause, type_name: str) -> str:
    """Return why a clause cannot print a type."""
    return f"{_COMPLAINTS[clause.verb]} {type_name}"


def format_text(template: str, arguments: list[Any]) -> str:
    """Format a template."""
    parts: list[str] = []
    used = 0
    for piece in pieces(template):
        if isinstance(piece, str):
            parts.append(piece)
            continue
        if used >= len(arguments):
            raise errors.EvaluationError(f"index {used} out of range")
        value = arguments[used]
        used += 1
        try:
            parts.append(_PRINTERS[piece.verb](piece, value))
        except errors.EvaluationError as error:
            raise errors.EvaluationError(f"error during formatting: {error}") from None
    return "".join(parts)


def _refusal(clause: Clause, value: Any) -> errors.EvaluationError:
    return errors.EvaluationError(complaint(clause, values.type_of(value).name))


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _print_string(clause: Clause, value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{', '.join(_literal(clause, element) for element in value)}]"
    if isinstance(value, dict):
        entries = [(_literal(clause, key), _literal(clause, value[_stored(key)])) for key in values.map_keys(value)]
        return "{" + ", ".join(f"{key}:{item}" for key, item in sorted(entries)) + "}"
    if isinstance(value, values.Opaque | values.Optional):
        raise _refusal(clause, value)
    try:
        return conversions.value_to_text(value)
    except errors.EvaluationError as error:
        raise errors.EvaluationError(f"could not convert argument {golang.quote(str(error))} to string") from None


def _stored(key: Any) -> Any:
    return values.BoolKey(key) if isinstance(key, bool) else key


def _literal(clause: Clause, value: Any) -> str:
    """Format a value inside a list or map as CEL writes it."""
    match value:
        case str():
            return golang.quote(value)
        case bytes():
            return f"b{golang.quote(_print_string(clause, value))}"
        case float():
            text = f"{value:.6f}" if math.isfinite(value) else golang.quote(conversions.double_text(value))
            return text.replace("nan", "NaN")
        case values.Timestamp():
            return f'timestamp("{times.format_timestamp(value)}")'
        case values.Duration():
            return f'duration("{times.format_duration(value)}")'
        case values.Opaque() | values.Optional():
            raise errors.EvaluationError(f"no formatting function for {values.type_of(value).name}")
        case _:
            return _print_string(clause, value)


def _print_decimal(clause: Clause, value: Any) -> str:
    if not _is_integer(value):
        raise _refusal(clause, value)
    return str(int(value))


def _as_double(clause: Clause, value: Any) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, str) and value in _NOT_NUMBERS:
        return conversions.text_to_double(value)
    raise _refusal(clause, value)


def _print_fixed(clause: Clause, value: Any) -> str:
    number = _as_double(clause, value)
    return _unprintable_number(number) or f"{number:,.{clause.precision}f}"


def _unprintable_number(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    return ""


def _print_scientific(clause: Clause, value: Any) -> str:
    # Kubernetes' version treats the precision as a width, which a full number always exceeds.
    number = _as_double(clause, value)
    special = _unprintable_number(number)
    if special:
        return special.rjust(clause.precision)
    mantissa, _, exponent = f"{number:.{_PRECISION_DEFAULT}e}".partition("e")
    power = exponent.removeprefix("+").translate(_SUPERSCRIPTS)
    return f"{mantissa}×10{power}"  # noqa: RUF001 -- the sign this notation has


def _print_binary(clause: Clause, value: Any) -> str:
    if not isinstance(value, int):
        raise _refusal(clause, value)
    return format(int(value), "b")


def _print_hexadecimal(clause: Clause, value: Any) -> str:
    if isinstance(value, str):
        text = value.encode().hex()
    elif isinstance(value, bytes):
        text = value.hex()
    elif _is_integer(value):
        text = format(int(value), "x")
    else:
        raise _refusal(clause, value)
    return text.upper() if clause.upper else text


def _print_octal(clause: Clause, value: Any) -> str:
    if not _is_integer(value):
        raise _refusal(clause, value)
    return format(int(value), "o")


_PRINTERS: dict[str, Callable[[Clause, Any], str]] = {
    "s": _print_string,
    "d": _print_decimal,
    "f": _print_fixed,
    "e": _print_scientific,
    "b": _print_binary,
    "x": _print_hexadecimal,
    "o": _print_octal,
}
