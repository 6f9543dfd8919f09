"""Decides whether the policy rules of a user cover other rules, and lists the missing ones. Pure.

A rule stands for every combination of its groups, resources, verbs and names, which can be millions in a few kilobytes.
The decision does not enumerate them: values of one field that occur in the same held rules are grouped.

Upstream: k8s.io/component-helpers@v0.36.4/auth/rbac/validation/policy_comparator.go
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kube_fairlead_apiserver.security.rbac_rules import Rule

__all__ = ["MAX_COMBINATIONS", "MAX_PARTS", "MAX_TEXT", "TooManyCombinations", "uncovered"]

MAX_PARTS: Final = 10_000  # up to here the missing parts are listed; beyond, whole rules are
MAX_TEXT: Final = 1024 * 1024  # and up to so many characters
MAX_COMBINATIONS: Final = 100_000  # sets of held rules compared for one decision
_ALL = "*"


class _Product(NamedTuple):
    """What a rule stands for: each combination of one value of every field.

    With each value come the held rules that have it, as a number: bit i stands for rule i. `held` are those that can
    have any combination.
    """

    held: int
    fields: Mapping[str, list[tuple[str, int]]]


class TooManyCombinations(ValueError):
    """The wanted rules overlap with the held ones in too many ways to decide."""


def uncovered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """Return the smallest parts of the wanted rules that no held rule includes, grouped by resource.

    If there are too many, the wanted rules that have such parts are returned as a whole.
    """
    held = _Held(owned)
    lacking = [rule for rule in wanted if not all(map(held.covers, held.products(rule)))]
    if sum(map(_parts, lacking)) > MAX_PARTS or sum(map(_text, lacking)) > MAX_TEXT:
        return lacking
    together: dict[Any, dict[str, Any]] = {}
    for part in (part for rule in lacking for product in held.products(rule) for part in _missing(product)):
        verb = part.pop("verbs")
        key = (*part.items(), verb if "nonResourceURLs" in part else None)
        if key not in together:
            together[key] = {**{name: [value] for name, value in part.items()}, "verbs": [verb]}
        elif "nonResourceURLs" not in part:
            together[key]["verbs"].append(verb)
    return list(together.values())


class _Held:
    """The rules that a user holds, indexed by the values of their fields."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._count = len(rules)
        self._spent = 0
        self._having: dict[str, dict[str, list[int]]] = {
            name: {} for name in ("apiGroups", "resources", "verbs", "resourceNames", "nonResourceURLs")
        }
        self._prefixes: dict[str, list[int]] = {}
        for position, rule in enumerate(rules):
            for name, having in self._having.items():
                for value in set(rule.get(name) or ()):
                    having.setdefault(value, []).append(position)
            for path in set(rule.get("nonResourceURLs") or ()):
                if path.endswith(_ALL):
                    self._prefixes.setdefault(path.rstrip(_ALL), []).append(position)
        self._lengths = sorted({len(prefix) for prefix in self._prefixes})
        self._nameless = self._mask([at for at, rule in enumerate(rules) if not rule.get("resourceNames")])
        self._all = {name: self._mask(having.get(_ALL)) for name, having in self._having.items()}

    def products(self, rule: Rule) -> Iterator[_Product]:
        """Return the rule's resources, and its paths; a field without a value leaves no combination."""
        verbs = self._masks(rule, "verbs", lambda verb: self._any("verbs", verb))
        resources = {
            "apiGroups": self._masks(rule, "apiGroups", lambda group: self._any("apiGroups", group)),
            "resources": self._masks(rule, "resources", self._resource),
            "verbs": verbs,
        }
        if rule.get("resourceNames"):
            resources["resourceNames"] = self._masks(rule, "resourceNames", self._name)
        paths = {"nonResourceURLs": self._masks(rule, "nonResourceURLs", self._path), "verbs": verbs}
        if all(resources.values()):
            yield _Product(-1 if "resourceNames" in resources else self._nameless, resources)
        if all(paths.values()):
            yield _Product(-1, paths)

    def covers(self, product: _Product) -> bool:
        """Return whether each combination is in one held rule."""
        choices = sorted(({mask for _, mask in masks} for masks in product.fields.values()), key=len)
        useful = product.held
        for masks in choices:
            useful &= functools.reduce(operator.or_, masks)
        reached = {useful}
        for masks in choices:
            distinct = {mask & useful for mask in masks}
            self._spend(len(reached) * len(distinct) * (1 + self._weight))
            reached = {some & mask for some in reached for mask in distinct}
            if 0 in reached:
                return False
        return True

    @staticmethod
    def _masks(rule: Rule, name: str, mask: Callable[[str], int]) -> list[tuple[str, int]]:
        known: dict[str, int] = {}
        for value in rule.get(name) or ():
            if value not in known:
                known[value] = mask(value)
        return [(value, known[value]) for value in rule.get(name) or ()]

    def _any(self, name: str, value: str) -> int:
        return self._all[name] | self._mask(self._having[name].get(value))

    def _resource(self, resource: str) -> int:
        subresource = resource.partition("/")[2]
        found = self._any("resources", resource)
        return found | self._any("resources", f"*/{subresource}") if subresource else found

    def _name(self, name: str) -> int:
        return self._nameless | self._mask(self._having["resourceNames"].get(name))

    def _path(self, path: str) -> int:
        found = self._mask(self._having["nonResourceURLs"].get(path))
        for length in self._lengths:
            if length > len(path):
                break
            found |= self._mask(self._prefixes.get(path[:length]))
        return found

    @property
    def _weight(self) -> int:
        return self._count // 4096  # half a kilobyte of bits: beyond that, the cost of a number depends on its length

    def _mask(self, positions: Sequence[int] | None) -> int:
        if not positions:
            return 0
        self._spend(self._weight)
        bits = bytearray(self._count // 8 + 1)
        for position in positions:
            bits[position >> 3] |= 1 << (position & 7)
        return int.from_bytes(bits, "little")

    def _spend(self, combinations: int) -> None:
        self._spent += combinations
        if self._spent > MAX_COMBINATIONS:
            raise TooManyCombinations("the rules overlap with those held in too many ways")


def _missing(product: _Product) -> Iterator[dict[str, str]]:
    """Return the combinations that no held rule has."""
    found: list[tuple[tuple[str, ...], int]] = [((), product.held)]
    for masks in product.fields.values():
        found = [((*values, value), held & mask) for values, held in found for value, mask in masks]
    return (dict(zip(product.fields, values, strict=True)) for values, held in found if not held)


def _parts(rule: Rule) -> int:
    verbs, groups, resources, names, paths = _values(rule)
    return (len(groups) * len(resources) * len(names) + len(paths)) * len(verbs)


def _text(rule: Rule) -> int:
    """Return the approximate number of characters that describe the parts."""
    verbs, *fields, paths = _values(rule)
    lines = math.prod(map(len, fields))
    text = sum(lines // len(values) * sum(map(len, values)) for values in fields if values)
    return text + (lines + len(paths)) * sum(map(len, verbs)) + len(verbs) * sum(map(len, paths))


def _values(rule: Rule) -> list[Sequence[str]]:
    names = rule.get("resourceNames") or ("",)
    verbs, groups, resources, paths = (
        rule.get(name) or () for name in ("verbs", "apiGroups", "resources", "nonResourceURLs")
    )
    return [verbs, groups, resources, names, paths]
