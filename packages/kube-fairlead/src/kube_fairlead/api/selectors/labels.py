"""Label selectors: which objects are meant, by their labels.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/labels/selector.go,
    k8s.io/apimachinery@v0.36.4/pkg/apis/meta/v1/helpers.go
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kube_fairlead.api import golang, names
from kube_fairlead.api.fielderrors import FieldError, FieldPath, aggregate

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "LabelMatcher",
    "LabelRequirement",
    "Operator",
    "SelectorError",
    "label_selector_from",
    "parse_integer",
    "parse_label_selector",
]


class SelectorError(ValueError):
    """Raised when a selector cannot be understood."""


class Operator(enum.StrEnum):
    """How a requirement compares; the value is what Kubernetes calls it in messages."""

    DOES_NOT_EXIST = "!"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    IN = "in"
    NOT_EQUALS = "!="
    NOT_IN = "notin"
    EXISTS = "exists"
    GREATER_THAN = "gt"
    LESS_THAN = "lt"


_MATCHING = frozenset({Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS})
_EXCLUDING = frozenset({Operator.NOT_IN, Operator.NOT_EQUALS})
_BINARY = ("in", "notin", "=", "==", "!=", "gt", "lt")
_INT64 = 2**63


def parse_integer(text: str) -> int | None:
    """An int64 as Go's ParseInt reads it, or None."""
    if not re.fullmatch(r"[+-]?[0-9]{1,40}", text, re.ASCII):
        return None
    value = int(text)
    return value if -_INT64 <= value < _INT64 else None


class LabelRequirement(msgspec.Struct, frozen=True):
    """One condition on one label. Values are sorted and without doubles when they come from a string."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def check(self) -> list[FieldError]:
        """What Kubernetes has against this requirement."""
        path = FieldPath("values")
        count = len(self.values)
        shown = list(self.values)
        errors = [
            FieldError.invalid("key", self.key, "; ".join(messages))
            for messages in [names.qualified_name(self.key)]
            if messages
        ]
        match self.operator:
            case Operator.IN | Operator.NOT_IN if not count:
                detail = "for 'in', 'notin' operators, values set can't be empty"
                errors.append(FieldError.invalid(path, shown, detail))
            case Operator.EQUALS | Operator.DOUBLE_EQUALS | Operator.NOT_EQUALS if count != 1:
                detail = "exact-match compatibility requires one single value"
                errors.append(FieldError.invalid(path, shown, detail))
            case Operator.EXISTS | Operator.DOES_NOT_EXIST if count:
                detail = "values set must be empty for exists and does not exist"
                errors.append(FieldError.invalid(path, shown, detail))
            case Operator.GREATER_THAN | Operator.LESS_THAN:
                if count != 1:
                    detail = "for 'Gt', 'Lt' operators, exactly one value is required"
                    errors.append(FieldError.invalid(path, shown, detail))
                detail = "for 'Gt', 'Lt' operators, the value must be an integer"
                errors.extend(
                    FieldError.invalid(path.index(i), value, detail)
                    for i, value in enumerate(self.values)
                    if parse_integer(value) is None
                )
            case _:
                pass
        for i, value in enumerate(self.values):
            if messages := names.label_value(value):
                errors.append(FieldError.invalid(path.index(i).key(self.key), value, "; ".join(messages)))
        return errors

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet the condition. A missing label meets `!=` and `notin`."""
        value = labels.get(self.key)
        if self.operator in _MATCHING:
            return value is not None and value in self.values
        if self.operator in _EXCLUDING:
            return value is None or value not in self.values
        if self.operator is Operator.EXISTS:
            return value is not None
        if self.operator is Operator.DOES_NOT_EXIST:
            return value is None
        actual = None if value is None else parse_integer(value)
        bound = parse_integer(self.values[0])
        if actual is None or bound is None:
            return False
        return actual > bound if self.operator is Operator.GREATER_THAN else actual < bound

    def __str__(self) -> str:
        values = ",".join(sorted(self.values))
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator} ({values})"
            case Operator.GREATER_THAN:
                return f"{self.key}>{values}"
            case Operator.LESS_THAN:
                return f"{self.key}<{values}"
            case _:
                return f"{self.key}{self.operator}{values}"


class LabelMatcher(msgspec.Struct, frozen=True):
    """All of the requirements must be met; `selects_nothing` is the selector of a missing LabelSelector."""

    requirements: tuple[LabelRequirement, ...] = ()
    selects_nothing: bool = False

    @property
    def empty(self) -> bool:
        """Whether everything matches."""
        return not self.requirements and not self.selects_nothing

    @property
    def keys(self) -> int:
        """How many labels of an object it reads, at most."""
        return len(self.requirements)

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels is selected."""
        if self.selects_nothing:
            return False
        labels = labels or {}
        return all(requirement.matches(labels) for requirement in self.requirements)

    def exact(self, key: str) -> str | None:
        """The one value a label must have, if the selector demands one."""
        for requirement in self.requirements:
            if requirement.key == key:
                sole = requirement.operator in _MATCHING and len(requirement.values) == 1
                return requirement.values[0] if sole else None
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING = LabelMatcher()
NOTHING = LabelMatcher(selects_nothing=True)


def _matcher(requirements: Iterable[LabelRequirement]) -> LabelMatcher:
    return LabelMatcher(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


def _checked(requirement: LabelRequirement) -> LabelRequirement:
    if errors := requirement.check():
        raise SelectorError(aggregate(errors))
    return requirement


_SELECTOR_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


def label_selector_from(selector: Mapping[str, Any] | None) -> LabelMatcher:
    """The matcher of a LabelSelector object. None selects nothing, an empty one everything."""
    if selector is None:
        return NOTHING
    requirements = [
        _checked(LabelRequirement(key, Operator.EQUALS, (value,)))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for expression in selector.get("matchExpressions") or ():
        operator = _SELECTOR_OPERATORS.get(expression.get("operator", ""))
        if operator is None:
            word = golang.quote(str(expression.get("operator", "")))
            raise SelectorError(f"{word} is not a valid label selector operator")
        values = tuple(expression.get("values") or ())
        requirements.append(_checked(LabelRequirement(expression.get("key", ""), operator, values)))
    return _matcher(requirements)


_TOKEN = re.compile(r"[ \t\r\n]*(?:([=!(),><]+)|([^=!(),>< \t\r\n\0]+))")
_SYMBOLS = frozenset({")", ",", "!", "==", "=", ">", "<", "!=", "("})
_END = ""
_OPERATORS = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}


def _tokens(text: str) -> list[str]:
    """Split into symbols and words, a symbol as long as possible; ends with the empty token."""
    found: list[str] = []
    position = 0
    while match := _TOKEN.match(text, position):
        position = match.end()
        symbols, word = match.groups()
        if word is not None:
            found.append(word)
            continue
        while symbols:
            size = 2 if symbols[:2] in _SYMBOLS else 1
            found.append(symbols[:size])
            symbols = symbols[size:]
    return [*found, _END]


class _LabelParser:
    """Recursive descent over the tokens, with Kubernetes' messages where it gives up."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._position = 0

    def parse(self) -> LabelMatcher:
        requirements: dict[LabelRequirement, None] = {}  # each once, in order
        while self._peek() != _END:
            token = self._peek()
            if token in _SYMBOLS and token != "!":  # noqa: S105 - a symbol, no password
                raise SelectorError(f"found '{token}', expected: !, identifier, or 'end of string'")
            try:
                requirements[self._requirement()] = None
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            token = self._next()
            if token == _END:
                break
            if token != ",":  # noqa: S105 - a symbol, no password
                raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
            if (after := self._peek()) == _END or (after in _SYMBOLS and after != "!"):
                raise SelectorError(f"found '{after}', expected: identifier after ','")
        return _matcher(requirements)

    def _peek(self) -> str:
        return self._tokens[self._position]

    def _next(self) -> str:
        token = self._tokens[self._position]
        # The end may be read again and again; Go's parser would run off its own list here.
        self._position = min(self._position + 1, len(self._tokens) - 1)
        return token

    def _requirement(self) -> LabelRequirement:
        key = self._next()
        absent = key == "!"
        if absent:
            key = self._next()
        if key in _SYMBOLS or key == _END:
            raise SelectorError(f"found '{key}', expected: identifier")
        if messages := names.qualified_name(key):
            raise SelectorError(str(FieldError.invalid(FieldPath(), key, "; ".join(messages))))
        if absent or self._peek() in {_END, ","}:
            operator = Operator.DOES_NOT_EXIST if absent else Operator.EXISTS
            return _checked(LabelRequirement(key, operator))
        word = self._next()
        if word not in _OPERATORS:
            raise SelectorError(f"found '{word}', expected: {', '.join(_BINARY)}")
        operator = _OPERATORS[word]
        values = self._values() if operator in {Operator.IN, Operator.NOT_IN} else {self._value()}
        return _checked(LabelRequirement(key, operator, tuple(sorted(values))))

    def _value(self) -> str:
        if self._peek() in {_END, ","}:
            return ""
        token = self._next()
        if token in _SYMBOLS:
            raise SelectorError(f"found '{token}', expected: identifier")
        return token

    def _values(self) -> set[str]:
        if (token := self._next()) != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        first = self._peek()
        if first == ")":
            self._next()
            return {""}
        if first == _END or (first in _SYMBOLS and first != ","):
            raise SelectorError(f"found '{first}', expected: ',', ')' or identifier")
        values = self._list()
        self._next()
        return values

    def _list(self) -> set[str]:
        """The values up to, not including, the closing parenthesis; nothing between commas is the empty value."""
        values: set[str] = set()
        while True:
            token = self._next()
            after = self._peek()
            if token == ",":  # noqa: S105 - a symbol, no password
                if not values or after in {")", ","}:
                    values.add("")
                if after == ")":
                    return values
            elif token in _SYMBOLS or token == _END:
                raise SelectorError(f"found '{token}', expected: ',', or identifier")
            else:
                values.add(token)
                if after == ")":
                    return values
                if after != ",":
                    raise SelectorError(f"found '{after}', expected: ',' or ')'")


def parse_label_selector(text: str) -> LabelMatcher:
    """Read a label selector string, such as `app=web,tier in (a,b),!legacy`."""
    return _LabelParser(text).parse() if text else EVERYTHING
