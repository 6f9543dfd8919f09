"""Policy rules: what one allows, and whether some cover others. Pure; a rule is the JSON of a PolicyRule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fairlead.api import golang
from fairlead.apiserver.attributes import Attributes

__all__ = ["Rule", "RuleSet", "describe", "uncovered"]

Rule = Mapping[str, Any]
_ALL = "*"


class RuleSet:
    """Rules arranged so that a question is a few lookups, however many rules there are."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        # Verbs and names by API group and resource (`pods`, `pods/log`, `*/scale` or `*`). None means all.
        self._resources: dict[tuple[str, str], list[tuple[frozenset[str] | None, frozenset[str] | None]]] = {}
        self._paths: dict[str, list[frozenset[str] | None]] = {}
        self._prefixes: list[tuple[str, frozenset[str] | None]] = []
        for rule in rules:
            self._add(rule)

    def _add(self, rule: Rule) -> None:
        verbs = _all_or_some(rule.get("verbs"))
        names = frozenset(rule.get("resourceNames") or ()) or None
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                self._resources.setdefault((group, resource), []).append((verbs, names))
        for path in rule.get("nonResourceURLs") or ():
            if path.endswith(_ALL):
                self._prefixes.append((path.rstrip(_ALL), verbs))
            else:
                self._paths.setdefault(path, []).append(verbs)

    def allows(self, attributes: Attributes) -> bool:
        """Whether a rule allows the request."""
        verb = attributes.verb
        if not attributes.is_resource:
            return any(_includes(verbs, verb) for verbs in self._paths.get(attributes.path, ())) or any(
                _includes(verbs, verb) and attributes.path.startswith(prefix) for prefix, verbs in self._prefixes
            )
        resources = [attributes.resource, _ALL]
        if attributes.subresource:
            resources = [f"{attributes.resource}/{attributes.subresource}", f"*/{attributes.subresource}", _ALL]
        for group in (attributes.group, _ALL):
            for resource in resources:
                for verbs, names in self._resources.get((group, resource), ()):
                    if _includes(verbs, verb) and (names is None or attributes.name in names):
                        return True
        return False


def _all_or_some(values: Sequence[str] | None) -> frozenset[str] | None:
    found = frozenset(values or ())
    return None if _ALL in found else found


def _includes(values: frozenset[str] | None, value: str) -> bool:
    return values is None or value in values


def uncovered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The smallest parts of the wanted rules that no owned rule includes, those of one resource taken together."""
    missing = [part for rule in wanted for part in _parts(rule) if not any(_covers(one, part) for one in owned)]
    together: dict[Any, dict[str, Any]] = {}
    for part in missing:
        key = tuple(tuple(part.get(name) or ()) for name in ("apiGroups", "resources", "resourceNames"))
        if part.get("nonResourceURLs"):
            together[key, tuple(part["nonResourceURLs"]), tuple(part["verbs"])] = dict(part)
        elif key in together:
            together[key]["verbs"] = [*together[key]["verbs"], *part["verbs"]]
        else:
            together[key] = dict(part)
    return list(together.values())


def _parts(rule: Rule) -> Iterator[dict[str, Any]]:
    """The rule in parts of one verb, group, resource and name, or one verb and path."""
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in rule.get("verbs") or ():
                part = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                for name in rule.get("resourceNames") or ():
                    yield {**part, "resourceNames": [name]}
                if not rule.get("resourceNames"):
                    yield part
    for path in rule.get("nonResourceURLs") or ():
        for verb in rule.get("verbs") or ():
            yield {"nonResourceURLs": [path], "verbs": [verb]}


def _covers(owner: Rule, part: Rule) -> bool:
    if not _has(owner.get("verbs"), part["verbs"][0]):
        return False
    if part.get("nonResourceURLs"):
        path = part["nonResourceURLs"][0]
        return any(_path_covers(owned, path) for owned in owner.get("nonResourceURLs") or ())
    resource, names = part["resources"][0], owner.get("resourceNames") or ()
    owned_resources = owner.get("resources") or ()
    subresource = resource.partition("/")[2]
    return (
        _has(owner.get("apiGroups"), part["apiGroups"][0])
        and (_has(owned_resources, resource) or bool(subresource and f"*/{subresource}" in owned_resources))
        and (not names or (bool(part.get("resourceNames")) and part["resourceNames"][0] in names))
    )


def _has(values: Sequence[str] | None, value: str) -> bool:
    return values is not None and (_ALL in values or value in values)


def _path_covers(owned: str, path: str) -> bool:
    return owned == path or (owned.endswith(_ALL) and path.startswith(owned.rstrip(_ALL)))


def describe(rule: Rule) -> str:
    """A rule as messages about escalation print it."""
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
