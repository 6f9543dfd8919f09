"""Kubernetes' JSONPath, for printer columns and ``kubectl -o jsonpath``.

It is its own dialect: fields, slices, unions, wildcards, recursive descent and filters over plain JSON. Templates (text
around braces, ``range``) are part of kubectl and not here.

Upstream: k8s.io/client-go@v0.36.4/util/jsonpath/parser.go,
    k8s.io/client-go@v0.36.4/util/jsonpath/jsonpath.go,
    k8s.io/client-go@v0.36.4/util/jsonpath/node.go,
    k8s.io/client-go@v0.36.4/third_party/forked/golang/template/funcs.go
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kube_fairlead.api import golang

__all__ = ["Budget", "JsonPath", "JsonPathError", "compile_jsonpath", "print_value"]

# Ordinary paths find a few values for each value of the object; repeated `..` and unions multiply them.
_FREE_VALUES = 64 * 1024
_VALUES_EACH = 64

_FIELD = re.compile(r"(?:\\.|[^\\ \t\r\n.,\[\]$@{}])*", re.DOTALL)
_NUMBER = re.compile(r"[+-]?[\d.]*")
_SLICE = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_QUOTED_KEY = re.compile(r"'([^']*)'")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class JsonPathError(ValueError):
    """The path is malformed, or does not fit the data."""


class Budget:
    """The limit of values that the paths of one row may find in an object, in all their steps together."""

    __slots__ = ("_data", "_left")

    def __init__(self, data: Any) -> None:
        self._data = data
        self._left = _FREE_VALUES

    def spend(self, found: int) -> None:
        """Raise JsonPathError when more values were found than the size of the object allows."""
        self._left -= found
        if self._left >= 0:
            return
        if self._data is not None:
            self._left += _VALUES_EACH * _count(self._data)
            self._data = None
        if self._left < 0:
            raise JsonPathError("the path finds too many values")


Step = Callable[[list[Any], Budget], list[Any]]


class JsonPath:
    """One compiled path; a missing field yields nothing rather than an error."""

    __slots__ = ("_steps", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps = _Parser(text).steps()

    def __repr__(self) -> str:
        return f"JsonPath({self.text!r})"

    @property
    def is_costly(self) -> bool:
        """Whether the path may find values several times: it descends or unites more than once."""
        return self.text.count("..") + self.text.count(",") > 1

    def find(self, data: Any, budget: Budget | None = None) -> list[Any]:
        """Return every value of the path."""
        return _run(self._steps, [data], budget or Budget(data))


@functools.lru_cache(maxsize=1024)
def compile_jsonpath(text: str) -> JsonPath:
    """Compile the text between the braces of a template: ``.status.conditions[?(@.type=="Ready")].status``."""
    return JsonPath(text)


def print_value(value: Any) -> str:
    """Format a value as text: objects and lists as JSON, everything else plain."""
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return golang.print_float(value)
    if isinstance(value, (dict, list)):
        return golang.json_text(value)
    return str(value)


def _run(steps: Iterable[Step], values: list[Any], budget: Budget) -> list[Any]:
    for step in steps:
        values = step(values, budget)
        budget.spend(len(values))
    return values


def _count(value: Any) -> int:
    """Return the number of values in a value, including itself."""
    waiting, count = [value], 0
    while waiting:
        count += 1
        waiting += _below(waiting.pop())
    return count


class _Parser:
    """Parses a path in one pass; each method reads one construct and returns its step."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def steps(self) -> list[Step]:
        steps: list[Step] = []
        while self.position < len(self.text):
            char = self.text[self.position]
            if self.text.startswith("[?(", self.position):
                steps.append(self._filter())
            elif self.text.startswith("..", self.position):
                if steps and steps[-1] is _recursive:
                    raise JsonPathError("invalid multiple recursive descent")
                steps.append(_recursive)
                steps.extend(self._after_recursive())
            elif char in " @$":
                self.position += 1
            elif char == "[":
                steps.extend(self._array())
            elif char in "\"'":
                steps.append(_constant_text(self._quoted(char)))
            elif char == ".":
                self.position += 1
                steps.append(self._field())
            elif char in "+-" or char.isdigit():
                steps.append(self._number())
            elif char == "_" or char.isalpha():
                steps.append(self._identifier())
            elif char in "\r\n}":
                raise JsonPathError("unclosed action")
            else:
                raise JsonPathError(f"unrecognized character in action: U+{ord(char):04X} '{char}'")
        return steps

    def _after_recursive(self) -> Iterator[Step]:
        self.position += 2
        following = self.text[self.position : self.position + 1]
        if following == "_" or following.isalnum():
            yield self._field()

    def _field(self) -> Step:
        match = _FIELD.match(self.text, self.position)
        name = match[0] if match else ""
        self.position += len(name)
        return _wildcard if name == "*" else _field(name.replace("\\", ""))

    def _identifier(self) -> Step:
        match = _FIELD.match(self.text, self.position)
        name = match[0] if match else ""
        self.position += len(name)
        if name in {"true", "false"}:
            return _constant(name == "true")
        raise JsonPathError(f"unrecognized identifier {name}")

    def _number(self) -> Step:
        match = _NUMBER.match(self.text, self.position)
        text = match[0] if match else ""
        self.position += len(text)
        for read in (int, float):
            try:
                return _constant(read(text))
            except ValueError:
                continue
        raise JsonPathError(f"cannot parse number {text}")

    def _quoted(self, quote: str) -> str:
        end = self.position + 1
        while end < len(self.text) and not (self.text[end] == quote and self.text[end - 1] != "\\"):
            end += 1
        if end >= len(self.text) or "\n" in self.text[self.position : end]:
            raise JsonPathError("unterminated quoted string")
        text = self.text[self.position + 1 : end]
        self.position = end + 1
        return re.sub(r"\\(.)", r"\1", text)

    def _array(self) -> list[Step]:
        end = self.text.find("]", self.position)
        if end < 0 or "\n" in self.text[self.position : end]:
            raise JsonPathError("unterminated array")
        inside = self.text[self.position + 1 : end]
        self.position = end + 1
        if "," in inside:
            parts = [_Parser(f"[{part.strip(' ')}]").steps() for part in inside.split(",")]
            return [_union(parts)]
        if key := _QUOTED_KEY.fullmatch(inside):
            return _Parser(f".{key[1]}").steps()
        return [_slice(":" if inside == "*" else inside)]

    def _filter(self) -> Step:
        start = self.position + 3
        end = start
        quote = ""
        closed = False
        while True:
            char = self.text[end : end + 1]
            if char in {"", "\n"}:
                raise JsonPathError("unterminated filter")
            if char in {'"', "'"}:
                if not quote:
                    quote = char
                elif char == quote and self.text[end - 1] != "\\":
                    closed = True
            elif char == ")" and bool(quote) == closed:
                break
            end += 1
        if self.text[end + 1 : end + 2] != "]":
            raise JsonPathError("unclosed array expect ]")
        self.position = end + 2
        inside = self.text[start:end]
        comparison = _COMPARISON.fullmatch(inside)
        if comparison is None:
            return _existing(_Parser(inside).steps())
        return _comparing(_Parser(comparison[1]).steps(), comparison[2], _Parser(comparison[3]).steps())


def _constant(value: Any) -> Step:
    return lambda values, _: [value] * len(values)


def _constant_text(text: str) -> Step:
    return lambda _values, _: [text]


def _field(name: str) -> Step:
    return lambda values, _: [value[name] for value in values if isinstance(value, dict) and name in value]


def _below(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _wildcard(values: list[Any], budget: Budget) -> list[Any]:
    found: list[Any] = []
    for value in values:
        below = _below(value)
        budget.spend(len(below))
        found.extend(below)
    return found


def _recursive(values: list[Any], budget: Budget) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if below := _below(value):
            budget.spend(len(below))
            found.append(value)
            found.extend(_recursive(below, budget))
    return found


def _union(parts: list[list[Step]]) -> Step:
    return lambda values, budget: [item for part in parts for item in _run(part, values, budget)]


def _slice(text: str) -> Step:
    match = _SLICE.fullmatch(text)
    if match is None:
        raise JsonPathError(f"invalid array index {text}")
    first = _index(match[1]) or 0
    alone = match[2] is None
    last = first + 1 if alone else _index(match[2][1:])
    step = _index((match[3] or ":")[1:])

    def apply(values: list[Any], budget: Budget) -> list[Any]:
        found: list[Any] = []
        for value in values:
            budget.spend(1)
            if value is None:
                continue
            if not isinstance(value, list):
                raise JsonPathError("is not array or slice")
            cut = _cut(value, first, last, 1 if step is None else step, alone=alone)
            budget.spend(len(cut))
            found.extend(cut)
        return found

    return apply


def _index(text: str) -> int | None:
    if text == "-":
        raise JsonPathError("array index - is not a number")
    return int(text) if text else None


def _cut(value: list[Any], first: int, last: int | None, step: int, *, alone: bool) -> list[Any]:
    size = len(value)
    start = first + size if first < 0 else first
    end = size if last is None else last
    if end < 0 or (end == 0 and alone):
        end += size
    if start == end:
        return []
    if not 0 <= start < size:
        raise JsonPathError(f"array index out of bounds: index {start}, length {size}")
    if not 0 <= end <= size:
        raise JsonPathError(f"array index out of bounds: index {end - 1}, length {size}")
    if start > end:
        raise JsonPathError(f"starting index {start} is greater than ending index {end}")
    if step <= 0:
        raise JsonPathError("step must be > 0")
    return value[start:end:step]


def _items_of(values: list[Any], budget: Budget) -> Iterator[Any]:
    for value in values:
        budget.spend(len(value) if isinstance(value, list) else 1)
        if not isinstance(value, list):
            raise JsonPathError("is not array or slice and cannot be filtered")
        yield from value


def _existing(steps: list[Step]) -> Step:
    def holds(item: Any, budget: Budget) -> bool:
        try:
            return bool(_run(steps, [item], budget))
        except JsonPathError:
            return False

    return lambda values, budget: [item for item in _items_of(values, budget) if holds(item, budget)]


def _comparing(left: list[Step], name: str, right: list[Step]) -> Step:
    compare = _OPERATORS.get(name)
    if compare is None:
        raise JsonPathError(f"unrecognized filter operator {name}")

    def holds(item: Any, budget: Budget) -> bool:
        lefts, rights = _run(left, [item], budget), _run(right, [item], budget)
        if not lefts or not rights:
            return False
        if len(lefts) > 1 or len(rights) > 1:
            raise JsonPathError("can only compare one element at a time")
        if type(lefts[0]) is not type(rights[0]) or not isinstance(lefts[0], (bool, int, float, str)):
            raise JsonPathError("incompatible types for comparison")
        return bool(compare(lefts[0], rights[0]))

    return lambda values, budget: [item for item in _items_of(values, budget) if holds(item, budget)]
