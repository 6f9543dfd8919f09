"""Policy rules: which requests they allow. Pure; a rule is the JSON of a PolicyRule.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/apis/rbac/v1/evaluation_helpers.go,
    k8s.io/component-helpers@v0.36.4/auth/rbac/validation/policy_comparator.go
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kube_fairlead.api import golang
from kube_fairlead_apiserver.attributes import Attributes

__all__ = ["Rule", "RuleSet", "describe"]

Rule = Mapping[str, Any]
_ALL = "*"
_WIDE = 256


class RuleSet:
    """Rules indexed so that a decision needs a few lookups, however many rules there are."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        # Verbs and names by API group and resource (`pods`, `pods/log`, `*/scale` or `*`). None means all.
        self._resources: dict[tuple[str, str], list[tuple[frozenset[str] | None, frozenset[str] | None]]] = {}
        # The same for rules with many groups and many resources, by group: their product is not stored.
        self._wide: dict[str, list[tuple[frozenset[str], frozenset[str] | None, frozenset[str] | None]]] = {}
        self._paths: dict[str, list[frozenset[str] | None]] = {}
        self._prefixes: list[tuple[str, frozenset[str] | None]] = []
        for rule in rules:
            self._add(rule)

    def _add(self, rule: Rule) -> None:
        verbs = _all_or_some(rule.get("verbs"))
        names = frozenset(rule.get("resourceNames") or ()) or None
        groups, resources = (frozenset(rule.get(name) or ()) for name in ("apiGroups", "resources"))
        wide = len(groups) * len(resources) > _WIDE
        for group in groups:
            if wide:
                self._wide.setdefault(group, []).append((resources, verbs, names))
                continue
            for resource in resources:
                self._resources.setdefault((group, resource), []).append((verbs, names))
        for path in rule.get("nonResourceURLs") or ():
            if path.endswith(_ALL):
                self._prefixes.append((path.rstrip(_ALL), verbs))
            else:
                self._paths.setdefault(path, []).append(verbs)

    def allows(self, attributes: Attributes) -> bool:
        """Return whether a rule allows the request."""
        verb = attributes.verb
        if not attributes.is_resource:
            return any(_includes(verbs, verb) for verbs in self._paths.get(attributes.path, ())) or any(
                _includes(verbs, verb) and attributes.path.startswith(prefix) for prefix, verbs in self._prefixes
            )
        resources = [attributes.resource, _ALL]
        if attributes.subresource:
            resources = [f"{attributes.resource}/{attributes.subresource}", f"*/{attributes.subresource}", _ALL]
        for group in (attributes.group, _ALL):
            wide = (
                (verbs, names) for some, verbs, names in self._wide.get(group, ()) if not some.isdisjoint(resources)
            )
            narrow = (found for resource in resources for found in self._resources.get((group, resource), ()))
            for verbs, names in itertools.chain(narrow, wide):
                if _includes(verbs, verb) and (names is None or attributes.name in names):
                    return True
        return False


def _all_or_some(values: Sequence[str] | None) -> frozenset[str] | None:
    found = frozenset(values or ())
    return None if _ALL in found else found


def _includes(values: frozenset[str] | None, value: str) -> bool:
    return values is None or value in values


def describe(rule: Rule) -> str:
    """Format a rule as the messages about escalation do."""
    titles = (
        ("apiGroups", "APIGroups"),
        ("resources", "Resources"),
        ("nonResourceURLs", "NonResourceURLs"),
        ("resourceNames", "ResourceNames"),
        ("verbs", "Verbs"),
    )
    parts = (
        f"{title}:[{' '.join(golang.quote(item) for item in rule[name])}]" for name, title in titles if rule.get(name)
    )
    return "{" + ", ".join(parts) + "}"
