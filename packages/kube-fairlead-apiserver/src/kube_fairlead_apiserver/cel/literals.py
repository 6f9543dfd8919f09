"""Evaluates literal tokens.

Upstream: github.com/google/cel-go@v0.26.0/parser/unescape.go,
    github.com/google/cel-go@v0.26.0/parser/parser.go
"""

from __future__ import annotations

import math
import re

from kube_fairlead_apiserver.cel import values

__all__ = ["LiteralError", "bytes_value", "double_value", "int_value", "string_value", "uint_value"]

_SIMPLE_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SIMPLE_ESCAPES |= {character: character for character in "\\'\"`?"}
_ESCAPE = re.compile(r"\\(?:([0-3][0-7]{2})|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)


_DIGITS_MAX = 100


class LiteralError(ValueError):
    """Raised when a token has the form of a literal but no value; the text is cel-go's."""


def int_value(text: str, *, negative: bool = False) -> int:
    """Return a decimal or hexadecimal int64."""
    magnitude = _whole(text)
    value = -magnitude if negative else magnitude
    if not values.INT_MIN <= value <= values.INT_MAX:
        raise LiteralError("invalid int literal")
    return value


def _whole(text: str) -> int:
    """Parse the digits of a number of reasonable length; a longer one is out of range."""
    if len(text) > _DIGITS_MAX:
        return values.UINT_MAX + 1
    return int(text, 16) if text.startswith("0x") else int(text)


def uint_value(text: str) -> values.Uint:
    """Return the value of a decimal or hexadecimal uint64, which is written with a ``u`` at its end."""
    value = _whole(text[:-1])
    if value > values.UINT_MAX:
        raise LiteralError("invalid uint literal")
    return values.Uint(value)


def double_value(text: str, *, negative: bool = False) -> float:
    """Return a double; one that is too large is rejected."""
    value = float(text)
    if math.isinf(value):
        raise LiteralError("invalid double literal")
    return -value if negative else value


def string_value(token: str) -> str:
    """Return the text between the quotes, with escapes resolved unless raw."""
    body, raw = _body(token)
    if raw or "\\" not in body:
        return body
    return _ESCAPE.sub(_character, body)


def bytes_value(token: str) -> bytes:
    r"""Return the bytes of a ``b''`` literal: text is UTF-8, ``\xff`` and ``\377`` are single bytes."""
    body, raw = _body(token[1:])
    if raw or "\\" not in body:
        return body.encode()
    parts: list[bytes] = []
    position = 0
    for match in _ESCAPE.finditer(body):
        parts.append(body[position : match.start()].encode())
        octal, hexadecimal, short, long, simple = match.groups()
        if short or long:
            raise LiteralError("unable to unescape string")
        if octal or hexadecimal:
            parts.append(bytes([int(octal, 8) if octal else int(hexadecimal, 16)]))
        else:
            parts.append(_SIMPLE_ESCAPES[simple].encode())
        position = match.end()
    parts.append(body[position:].encode())
    return b"".join(parts)


def _body(token: str) -> tuple[str, bool]:
    token = token.replace("\r\n", "\n").replace("\r", "\n")
    raw = token[0] in "rR"
    if raw:
        token = token[1:]
    width = 3 if len(token) >= 6 and token[:3] in {"'''", '"""'} else 1
    return token[width:-width], raw


def _character(match: re.Match[str]) -> str:
    octal, hexadecimal, short, long, simple = match.groups()
    if simple:
        return _SIMPLE_ESCAPES[simple]
    code = int(octal, 8) if octal else int(hexadecimal or short or long, 16)
    if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
        raise LiteralError("invalid unicode code point")
    return chr(code)
