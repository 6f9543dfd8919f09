"""Which writes a webhook, a policy or a binding matches: rules, scope, namespace and object selectors.

Upstream: k8s.io/apiserver@v0.36.4/pkg/admission/plugin/webhook/predicates/rules/rules.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/plugin/webhook/predicates/namespace/matcher.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/plugin/webhook/predicates/object/matcher.go,
    k8s.io/apiserver@v0.36.4/pkg/admission/plugin/policy/matching/matching.go
"""

from __future__ import annotations

from collections.abc import Sequence

from kube_fairlead.api import errors, selectors
from kube_fairlead.api.gvk import GroupResource
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.admission.interface import Operation
from kube_fairlead_apiserver.admission.object_reader import ObjectReader
from kube_fairlead_apiserver.registry.resource import Resource

__all__ = ["Criteria", "UnusableCriteria", "is_configuration"]


_NAMESPACES = GroupResource("", "namespaces")
_CONFIGURATION = frozenset(
    {
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    }
)


class UnusableCriteria(Exception):
    """A selector is invalid, so matching cannot be decided. Raised only when the rules match."""


def is_configuration(group: str, plural: str) -> bool:
    """Return whether a resource configures admission itself.

    No webhook and no policy is called for these: a broken one could never be removed.
    """
    return group == "admissionregistration.k8s.io" and plural in _CONFIGURATION


class _Rule:
    """One rule: operations, groups, versions, resources with subresources, scope and names."""

    __slots__ = ("_groups", "_operations", "_resources", "_scope", "_versions", "names")

    def __init__(self, rule: Json) -> None:
        self._operations = frozenset(rule.get("operations") or ())
        self._groups = frozenset(rule.get("apiGroups") or ())
        self._versions = frozenset(rule.get("apiVersions") or ())
        self._resources = [str(one).partition("/")[::2] for one in rule.get("resources") or ()]
        self._scope = rule.get("scope") or "*"
        self.names = frozenset(rule.get("resourceNames") or ())  # empty: all

    def matches(self, operation: Operation, resource: Resource) -> bool:
        """Return whether the rule matches the write as one of this resource, if its name matches."""
        return (
            _named(self._operations, operation.operation)
            and _named(self._groups, resource.group)
            and _named(self._versions, resource.version)
            and self._matches_resource(resource.plural, operation.subresource)
            and self._matches_scope(operation)
        )

    def _matches_resource(self, plural: str, subresource: str) -> bool:
        return any(one in {"*", plural} and sub in {"*", subresource} for one, sub in self._resources)

    def _matches_scope(self, operation: Operation) -> bool:
        if self._scope == "*":
            return True
        is_cluster_wide = operation.is_namespace or not operation.scope
        return is_cluster_wide is (self._scope == "Cluster")


def _named(allowed: frozenset[str], asked: str) -> bool:
    return asked in allowed or "*" in allowed


class _Rules:
    """Several rules. The rules that match a kind of write are computed once."""

    def __init__(self, rules: Sequence[Json], *, equivalent: bool) -> None:
        self._rules = [_Rule(rule) for rule in rules]
        self._equivalent = equivalent
        self._generation = -1
        self._known: dict[tuple[str, str, str, str, str, bool], list[tuple[Resource, frozenset[str]]]] = {}

    def find(self, operation: Operation, objects: ObjectReader) -> Resource | None:
        """Return the resource as which the write matches; None: no match."""
        if not self._rules:
            return None
        if self._generation != objects.catalog.generation:
            self._generation = objects.catalog.generation
            self._known.clear()
        own = operation.resource
        key = (operation.operation, own.group, own.version, own.plural, operation.subresource, bool(operation.scope))
        candidates = self._known.get(key)
        if candidates is None:
            candidates = self._known[key] = self._candidates(operation, objects)
        for resource, names in candidates:
            if not names or operation.name in names:
                return resource
        return None

    def _candidates(self, operation: Operation, objects: ObjectReader) -> list[tuple[Resource, frozenset[str]]]:
        """Return the resources to match: an exact match of any rule comes before an equivalent match."""
        own = operation.resource
        found = [(own, rule.names) for rule in self._rules if rule.matches(operation, own)]
        if self._equivalent:
            others = objects.equivalents(own)
            found += [(other, rule.names) for rule in self._rules for other in others if rule.matches(operation, other)]
        return found


class Criteria:
    """Rules and selectors together.

    ``without_rules``: the meaning of an empty list of rules. A webhook without rules is never called; a policy binding
    without rules narrows nothing.
    """

    def __init__(
        self,
        rules: Sequence[Json],
        *,
        excluded: Sequence[Json] = (),
        match_policy: str | None,
        namespace_selector: Json | None,
        object_selector: Json | None,
        without_rules: bool = False,
    ) -> None:
        equivalent = match_policy == "Equivalent"
        self._rules = _Rules(rules, equivalent=equivalent)
        self._excluded = _Rules(excluded, equivalent=equivalent)
        self._without_rules = without_rules and not rules
        self._problem = ""
        self._namespace_selector = self._read(namespace_selector)
        self._object_selector = self._read(object_selector)

    def _read(self, selector: Json | None) -> selectors.LabelMatcher:
        try:
            return selectors.EVERYTHING if not selector else selectors.label_selector_from(selector)
        except selectors.SelectorError as error:
            self._problem = str(error)
            return selectors.EVERYTHING

    @classmethod
    def of_match_resources(cls, resources: Json) -> Criteria:
        """From the MatchResources of a policy or binding."""
        return cls(
            resources.get("resourceRules") or (),
            excluded=resources.get("excludeResourceRules") or (),
            match_policy=resources.get("matchPolicy"),
            namespace_selector=resources.get("namespaceSelector"),
            object_selector=resources.get("objectSelector"),
            without_rules=True,
        )

    def match(self, operation: Operation, objects: ObjectReader) -> Resource | None:
        """The resource as which the write matches: its own, or another version of it. None: no match.

        Raises:
            NotFound: the namespace of the selector does not exist.
            UnusableCriteria: a selector is invalid.
        """
        if not self._object_selector.empty and not _labelled(operation, self._object_selector):
            return None
        if self._excluded.find(operation, objects) is not None:
            return None
        found = operation.resource if self._without_rules else self._rules.find(operation, objects)
        if found is None or not self._selects_namespace(operation, objects):
            return None
        if self._problem:
            raise UnusableCriteria(self._problem)
        return found

    def _selects_namespace(self, operation: Operation, objects: ObjectReader) -> bool:
        if self._namespace_selector.empty or (not operation.scope and operation.resource.plural != "namespaces"):
            return True
        if operation.is_namespace and not operation.subresource and operation.obj is not None:
            # The stored namespace differs from the one being written.
            return self._namespace_selector.matches(operation.obj["metadata"].get("labels") or {})
        namespace = objects.namespace(operation.scope)
        if namespace is None:
            raise errors.not_found(_NAMESPACES, operation.scope)
        return self._namespace_selector.matches(namespace.labels)


def _labelled(operation: Operation, selector: selectors.LabelMatcher) -> bool:
    """Return whether the selector matches the new or the old object."""
    return any(
        selector.matches((obj.get("metadata") or {}).get("labels") or {})
        for obj in (operation.obj, operation.old)
        if obj is not None
    )
