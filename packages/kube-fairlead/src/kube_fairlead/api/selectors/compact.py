"""Selectors merged by key, for a server that keeps them and applies them to many objects.

A selector of one URL can hold ten thousand requirements. The merged form has one condition for each key. To match an
object takes as long as the object has labels, or as the selector has keys, whichever are fewer. Requirements that
repeat each other cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kube_fairlead.api.selectors.fields import FieldMatcher
from kube_fairlead.api.selectors.labels import LabelMatcher, LabelRequirement, Operator, parse_integer

__all__ = ["CompactFields", "CompactLabels"]

_EXCLUDING = frozenset({Operator.NOT_IN, Operator.NOT_EQUALS})


class _Present(msgspec.Struct):
    """What the value of a label must be that an object must have. None: any."""

    among: frozenset[str] | None = None
    above: int | None = None
    below: int | None = None

    def add(self, requirement: LabelRequirement) -> None:
        """Both this and the requirement must be met."""
        if requirement.operator is Operator.GREATER_THAN:
            bound = parse_integer(requirement.values[0]) or 0
            self.above = bound if self.above is None else max(self.above, bound)
        elif requirement.operator is Operator.LESS_THAN:
            bound = parse_integer(requirement.values[0]) or 0
            self.below = bound if self.below is None else min(self.below, bound)
        elif requirement.operator is not Operator.EXISTS:
            values = frozenset(requirement.values)
            self.among = values if self.among is None else self.among & values

    def admits(self, value: str) -> bool:
        """Whether the value is one of those."""
        if self.among is not None and value not in self.among:
            return False
        if self.above is None and self.below is None:
            return True
        number = parse_integer(value)
        if number is None or (self.above is not None and number <= self.above):
            return False
        return self.below is None or number < self.below


class CompactLabels:
    """Selects what the `LabelMatcher` selects that it is made of."""

    __slots__ = ("_excluded", "_nothing", "_required", "_text", "keys")

    def __init__(self, matcher: LabelMatcher) -> None:
        self._text = str(matcher)  # two of one text select the same, unless one selects nothing
        self._nothing = matcher.selects_nothing
        required: dict[str, _Present] = {}
        excluded: dict[str, set[str] | None] = {}  # None: the object must not have the label
        for requirement in matcher.requirements:
            key = requirement.key
            if requirement.operator is Operator.DOES_NOT_EXIST:
                excluded[key] = None
            elif requirement.operator in _EXCLUDING:
                values = excluded.setdefault(key, set())
                if values is not None:
                    values.update(requirement.values)
            else:
                required.setdefault(key, _Present()).add(requirement)
        self._required = required
        pool: dict[str, str] = {}
        self._excluded = {key: _smallest(values, pool) for key, values in excluded.items()}
        self.keys = len(required) + len(excluded)  # how many labels it reads

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        if self._nothing or len(self._required) > len(labels):
            return False
        for key, condition in self._required.items():
            value = labels.get(key)
            if value is None or not condition.admits(value):
                return False
        excluded = self._excluded
        # An intersection looks each key of the smaller side up in the larger one.
        return not (excluded and any(_is_excluded(labels[k], excluded[k]) for k in excluded.keys() & labels.keys()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompactLabels) and (self._nothing, self._text) == (other._nothing, other._text)

    def __hash__(self) -> int:
        return hash(self._text)


class CompactFields:
    """Selects what the `FieldMatcher` selects that it is made of. A missing field counts as empty."""

    __slots__ = ("_excluded", "_required", "_text", "keys")

    def __init__(self, matcher: FieldMatcher) -> None:
        self._text = str(matcher)
        required: dict[str, frozenset[str]] = {}
        excluded: dict[str, set[str]] = {}
        for requirement in matcher.requirements:
            if requirement.operator is Operator.EQUALS:
                value = frozenset({requirement.value})
                required[requirement.field] = required.get(requirement.field, value) & value
            else:
                excluded.setdefault(requirement.field, set()).add(requirement.value)
        self._required, self._excluded = required, excluded
        self.keys = len(required) + len(excluded)

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether an object with these field values is selected."""
        return all(fields.get(name, "") in values for name, values in self._required.items()) and not any(
            fields.get(name, "") in values for name, values in self._excluded.items()
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompactFields) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


def _smallest(values: set[str] | None, pool: dict[str, str]) -> str | frozenset[str] | None:
    """A text stands for itself: a set of one takes four times as much."""
    if values is not None and len(values) == 1:
        value = values.pop()
        return pool.setdefault(value, value)
    return None if values is None else frozenset(values)


def _is_excluded(value: str, excluded: str | frozenset[str] | None) -> bool:
    if isinstance(excluded, str):
        return value == excluded
    return excluded is None or value in excluded
