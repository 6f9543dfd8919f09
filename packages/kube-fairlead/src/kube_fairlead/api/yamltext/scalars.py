"""What a scalar of YAML stands for, by the rules of the Go library that Kubernetes reads it with.

They are those of YAML 1.1 with the booleans `y`, `yes` and `on`, octal numbers such as `0777`, and underscores in
numbers, but without numbers of base 60 and without dates: `1:1` and `2026-01-01` are text. Every rule takes time in
proportion to the length of the text.

Upstream: go.yaml.in/yaml/v2@v2.4.3/resolve.go,
    go.yaml.in/yaml/v2@v2.4.3/decode.go,
    sigs.k8s.io/yaml@v1.6.0/yaml.go
"""

from __future__ import annotations

import base64
import binascii
import calendar
import re
import struct
from typing import Any, Final

from kube_fairlead.api import golang

__all__ = ["BadScalar", "is_text", "key_text", "print_key", "resolve"]

_PREFIX: Final = "tag:yaml.org,2002:"
_STR, _BOOL, _INT, _FLOAT, _NULL = (_PREFIX + name for name in ("str", "bool", "int", "float", "null"))
_TIMESTAMP, _BINARY, _MERGE = (_PREFIX + name for name in ("timestamp", "binary", "merge"))
_RESOLVED: Final = frozenset({_STR, _BOOL, _INT, _FLOAT, _NULL, _TIMESTAMP})

_WORDS: Final[dict[str, tuple[str, Any]]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), (_BOOL, True)),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), (_BOOL, False)),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), (_NULL, None)),
    **{word: (_FLOAT, float("nan")) for word in (".nan", ".NaN", ".NAN")},
    **{word: (_FLOAT, float("inf")) for word in (".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF")},
    **{word: (_FLOAT, float("-inf")) for word in ("-.inf", "-.Inf", "-.INF")},
}
_NUMBER_START: Final = frozenset("+-0123456789.")
_DECIMAL: Final = re.compile(r"([-+]?)([1-9][0-9]*)")
_BASED: Final = re.compile(r"([-+]?)0(?:[xX]([0-9a-fA-F]+)|[oO]([0-7]+)|[bB]([01]+)|([0-7]*))")
_SIGNED_BINARY: Final = re.compile(r"0b([-+][01]+)")
_REAL: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_UNDERSCORED: Final = re.compile(r"\.[0-9]++(?:_[0-9]++)*+(?:[eE][-+]?[0-9]++(?:_[0-9]++)*+)?")
_TIME: Final = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?)(?:[Tt](\d\d?):(\d\d?):(\d\d?)(?:[.,]\d+)?(?:Z|[-+]\d\d:\d\d)"
    r"| +(\d\d?):(\d\d?):(\d\d?)(?:[.,]\d+)?)?",
    re.ASCII,
)
_NO_TEXT: Final = re.compile("[\udc80-\udcff]")
_DECIMAL_DIGITS_MAX: Final = 20  # those of 2**64


class BadScalar(ValueError):
    """A scalar that is not what its tag says."""


def resolve(tag: str | None, text: str, *, plain: bool) -> Any:
    """The value of a scalar. ``plain``: it has neither quotes nor a tag.

    Raises:
        BadScalar: the tag names another type than the text is of.
    """
    if tag is None:
        return _implicit(text)[1] if plain else text
    if tag == _BINARY:
        return _binary(text)
    if tag not in _RESOLVED or tag == _STR:
        return text  # unknown tags say nothing
    found: str
    value: Any
    found, value = (_TIMESTAMP, text) if tag == _TIMESTAMP and _is_time(text) else _implicit(text)
    if found == tag:
        return value
    if tag == _FLOAT and found == _INT and value < 1 << 63:
        return float(value)
    shown = text if len(text) <= 64 else text[:64] + "..."
    raise BadScalar(f"cannot decode {_short(found)} `{shown}` as a {_short(tag)}")


def is_text(text: str) -> bool:
    """Whether it is read as text when it has neither quotes nor a tag."""
    return _implicit(text)[0] == _STR


def _implicit(text: str) -> tuple[str, Any]:
    known = _WORDS.get(text)
    if known is not None:
        return known
    if text[0] not in _NUMBER_START:
        return _STR, text
    if text[0] == ".":
        return (_UNDERSCORED.fullmatch(text) and _real(text.replace("_", ""))) or (_STR, text)
    plain = text.replace("_", "")
    integer = _integer(plain)
    if integer is not None:
        return _INT, integer
    return _real(plain) or (_STR, text)


def _integer(plain: str) -> int | None:
    """A number that 64 bits hold, as Go reads its literals; None for everything else."""
    if match := _DECIMAL.fullmatch(plain):
        sign, digits = match.groups()
        # Longer ones are not worth a conversion, whose time grows with the square of their length.
        value = int(digits) if len(digits) <= _DECIMAL_DIGITS_MAX else 1 << 64
    elif match := _BASED.fullmatch(plain):
        sign, hexadecimal, octal, binary, old_octal = match.groups()
        base = 16 if hexadecimal else 2 if binary else 8
        value = int(hexadecimal or octal or binary or old_octal or "0", base)
    elif match := _SIGNED_BINARY.fullmatch(plain):
        sign, value = match.group(1)[0], int(match.group(1)[1:], 2)
    else:
        return None
    if sign == "-":
        return -value if value <= 1 << 63 else None
    return value if value < 1 << (63 if sign else 64) else None


def _real(text: str) -> tuple[str, float] | None:
    if not _REAL.fullmatch(text):
        return None
    value = float(text)
    # What a float64 cannot hold is text.
    return (_FLOAT, value) if value not in {float("inf"), float("-inf")} else None


def _is_time(text: str) -> bool:
    match = _TIME.fullmatch(text)
    if match is None:
        return False
    year, month, day, *rest = (int(group or 0) for group in match.groups())
    hour, minute, second = (one or other for one, other in zip(rest[:3], rest[3:], strict=True))
    if not 1 <= month <= 12 or not 1 <= day <= calendar.monthrange(year or 4, month)[1]:
        return False
    return hour < 24 and minute < 60 and second < 60


def _binary(text: str) -> str:
    try:
        data = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        raise BadScalar("!!binary value contains invalid base64 data") from None
    # As in Go, each byte that is no text becomes a character of its own.
    return _NO_TEXT.sub("\ufffd", data.decode("utf-8", "surrogateescape"))


def _short(tag: str) -> str:
    return "!!" + tag.removeprefix(_PREFIX)


def key_text(key: Any) -> str:
    """A key as JSON has it: numbers and booleans become text.

    Raises:
        BadScalar: null, and numbers above 2**63, are no keys.
    """
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, float):
        return _float_key(key)
    if isinstance(key, int) and key < 1 << 63:
        return str(key)
    raise BadScalar(f"unsupported map key of type: {'uint64' if isinstance(key, int) else 'null'}")


def _float_key(key: float) -> str:
    """The shortest digits that name the nearest float32: Kubernetes looks at no more."""
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", key))
    except OverflowError:
        single = float("inf") if key > 0 else float("-inf")
    text = golang.print_float(single)
    if text in {"NaN", "+Inf", "-Inf"}:
        return {"NaN": ".nan", "+Inf": ".inf", "-Inf": "-.inf"}[text]
    for digits in range(9):
        shorter = float(f"{single:.{digits}e}")
        if struct.pack("<f", shorter) == struct.pack("<f", single):
            return golang.print_float(shorter)
    return text


def print_key(key: Any) -> str:
    """A key as messages of Kubernetes show it: text in quotes, everything else as it is."""
    if isinstance(key, str):
        return golang.quote(key)
    return "<nil>" if key is None else golang.print_float(key) if isinstance(key, float) else str(key).lower()
