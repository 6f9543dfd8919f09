"""Field selectors: which objects are meant, by a few of their fields.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/fields/selector.go
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from kube_fairlead.api.selectors.labels import Operator, SelectorError

__all__ = ["EVERY_FIELD", "FieldMatcher", "FieldRequirement", "parse_field_selector"]


class FieldRequirement(msgspec.Struct, frozen=True):
    """One condition on one field; the operator is `EQUALS` or `NOT_EQUALS`."""

    field: str
    operator: Operator
    value: str

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether an object with these field values is selected; a missing field counts as empty."""
        return (fields.get(self.field, "") == self.value) == (self.operator is Operator.EQUALS)

    def __str__(self) -> str:
        escaped = self.value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
        return f"{self.field}{self.operator}{escaped}"


class FieldMatcher(msgspec.Struct, frozen=True):
    """All of the requirements must be met."""

    requirements: tuple[FieldRequirement, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether everything matches."""
        return not self.requirements

    @property
    def keys(self) -> int:
        """How many fields of an object it reads, at most."""
        return len(self.requirements)

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether an object with these field values is selected."""
        return all(requirement.matches(fields) for requirement in self.requirements)

    def exact(self, field: str) -> str | None:
        """The one value a field must have, if the selector demands one."""
        for requirement in self.requirements:
            if requirement.field == field and requirement.operator is Operator.EQUALS:
                return requirement.value
        return None

    def exact_values(self) -> dict[str, str]:
        """What `exact` says of each field, for all that have one value."""
        values: dict[str, str] = {}
        for requirement in self.requirements:
            if requirement.operator is Operator.EQUALS:
                values.setdefault(requirement.field, requirement.value)
        return values

    def requires(self, field: str, value: str) -> bool:
        """Whether nothing is selected whose field has another value."""
        return any(
            requirement.field == field and requirement.operator is Operator.EQUALS and requirement.value == value
            for requirement in self.requirements
        )

    def transform(self, change: Callable[[str, str], tuple[str, str]]) -> FieldMatcher:
        """The matcher with every field and value passed through `change`; a pair of empty strings drops it."""
        changed = (
            FieldRequirement(pair[0], requirement.operator, pair[1])
            for requirement in self.requirements
            for pair in [change(requirement.field, requirement.value)]
            if pair != ("", "")
        )
        return FieldMatcher(tuple(changed))

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERY_FIELD = FieldMatcher()


def parse_field_selector(text: str) -> FieldMatcher:
    """Read a field selector string, such as `spec.nodeName=a,status.phase!=Running`."""
    if not text:
        return EVERY_FIELD
    requirements: dict[FieldRequirement, None] = {}  # each once, in order
    for term in sorted(_split_terms(text)):
        if not term:
            continue
        match = re.search(r"!=|==|=", term)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        operator = Operator.NOT_EQUALS if match.group() == "!=" else Operator.EQUALS
        value = _unescape(term[match.end() :])
        if match.start() or value:  # a bare `=` selects nothing
            requirements[FieldRequirement(term[: match.start()], operator, value)] = None
    return FieldMatcher(tuple(requirements))


def _split_terms(text: str) -> list[str]:
    terms, start, escaped = [], 0, False
    for i, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            terms.append(text[start:i])
            start = i + 1
    return [*terms, text[start:]]


def _unescape(text: str) -> str:
    out: list[str] = []
    chars = iter(text)
    for char in chars:
        if char in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        if char == "\\":
            meant = next(chars, "")
            if meant not in {"\\", ",", "="}:
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{meant}")
            out.append(meant)
        else:
            out.append(char)
    return "".join(out)
