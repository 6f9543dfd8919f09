"""Strings: the standard tests and cel-go's strings extension, counting code points.

Upstream: github.com/google/cel-go@v0.26.0/ext/strings.go,
    github.com/google/cel-go@v0.26.0/common/stdlib/standard.go
"""

from __future__ import annotations

import functools
from typing import Any

from kube_fairlead_apiserver.cel import errors, types
from kube_fairlead_apiserver.cel.declarations import Library, function, member
from kube_fairlead_apiserver.cel.library import costs, formatting
from kube_fairlead_apiserver.cel.types import BOOL, INT, STRING, list_of

__all__ = ["REVERSE", "STRINGS", "TEXT_TESTS"]

# White space in Go; Python's strip() would also remove the information separators \x1c to \x1f.
_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
_WHITE_SPACE += "\u2028\u2029\u202f\u205f\u3000"
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_QUOTED = {ord(character): f"\\{letter}" for character, letter in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)}


def _out_of_range(index: int) -> errors.EvaluationError:
    return errors.EvaluationError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return text.find(part, offset)


def _last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if not part:
        return len(text) if offset is None else offset
    if offset is None:
        return text.rfind(part)
    if offset < 0:
        raise _out_of_range(offset)
    if offset >= len(text):
        return -1
    return text.rfind(part, 0, offset + len(part))


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    return text.replace(old, new, limit if limit >= 0 else -1)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        characters = list(text)
        if 0 < limit < len(characters):
            return [*characters[: limit - 1], "".join(characters[limit - 1 :])]
        return characters
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise errors.EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if index is not None and not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


def _join(elements: list[Any], separator: str = "") -> str:
    for element in elements:
        if not isinstance(element, str):
            raise errors.EvaluationError(f"join: invalid input: {element}")
    return separator.join(elements)


def _quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


_one = functools.partial(member, cost=costs.traversal)
_two = functools.partial(member, cost=costs.twice)

TEXT_TESTS = Library(
    "text tests",
    overloads=(
        member("contains", (STRING, STRING), BOOL, str.__contains__, costs.product),
        member("endsWith", (STRING, STRING), BOOL, str.endswith, costs.traversal),
        member("startsWith", (STRING, STRING), BOOL, str.startswith, costs.traversal),
    ),
)
STRINGS = Library(
    "strings",
    overloads=(
        member("charAt", (STRING, INT), STRING, _char_at),
        member("indexOf", (STRING, STRING), INT, _index_of, costs.elements),
        member("indexOf", (STRING, STRING, INT), INT, _index_of, costs.elements),
        member("lastIndexOf", (STRING, STRING), INT, _last_index_of, costs.elements),
        member("lastIndexOf", (STRING, STRING, INT), INT, _last_index_of, costs.elements),
        _one("lowerAscii", (STRING,), STRING, lambda text: text.translate(_LOWER)),
        _one("upperAscii", (STRING,), STRING, lambda text: text.translate(_UPPER)),
        _one("trim", (STRING,), STRING, lambda text: text.strip(_WHITE_SPACE)),
        _one("substring", (STRING, INT), STRING, _substring),
        _one("substring", (STRING, INT, INT), STRING, _substring),
        _two("replace", (STRING, STRING, STRING), STRING, _replace),
        _two("replace", (STRING, STRING, STRING, INT), STRING, _replace),
        _two("split", (STRING, STRING), list_of(STRING), _split),
        _two("split", (STRING, STRING, INT), list_of(STRING), _split),
        member("join", (list_of(STRING),), STRING, _join, costs.joined),
        member("join", (list_of(STRING), STRING), STRING, _join, costs.joined),
        _one("format", (STRING, list_of(types.DYN)), STRING, formatting.format_text),
        function("strings.quote", (STRING,), STRING, _quote, costs.traversal),
    ),
)
# In cel-go's library, but in a later version than Kubernetes uses.
REVERSE = Library("strings.reverse", overloads=(member("reverse", (STRING,), STRING, lambda text: text[::-1]),))
