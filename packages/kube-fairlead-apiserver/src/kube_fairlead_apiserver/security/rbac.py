"""Role-based access control, from an index of roles and bindings that is updated with every change.

A request never scans all bindings: they are indexed by subject, and the rules of a subject in a namespace are computed
once and cached until a role or binding changes.

Upstream: k8s.io/kubernetes@v1.36.4/plugin/pkg/auth/authorizer/rbac/rbac.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/rbac/validation/rule.go,
    k8s.io/kubernetes@v1.36.4/pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from kube_fairlead.api import errors, golang, selectors
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.attributes import Attributes, UserInfo
from kube_fairlead_apiserver.security import identities
from kube_fairlead_apiserver.security.authorization import Decision
from kube_fairlead_apiserver.security.rbac_rules import Rule, RuleSet

__all__ = ["Policy", "Rbac", "ResolvedRules", "aggregated_rules"]


_GROUP = "rbac.authorization.k8s.io"
_REMEMBERED = 4096


class ResolvedRules(NamedTuple):
    """The rules of a user in a namespace, and the missing roles that bindings refer to."""

    rules: list[Rule]
    problems: list[str]


def aggregated_rules(role: Json, cluster_roles: Iterable[Json]) -> list[Rule] | None:
    """Return the rules that an aggregation rule combines, without duplicates; None for a role without such a rule.

    An aggregated role may itself aggregate others, as `edit` does for `admin`.
    """
    gathered: dict[bytes, Rule] = {}
    ordered = sorted(cluster_roles, key=lambda found: str(found["metadata"]["name"]))
    return list(gathered.values()) if _gather(role, ordered, set(), gathered) else None


def _gather(role: Json, cluster_roles: list[Json], seen: set[str], gathered: dict[bytes, Rule]) -> bool:
    """Add the rules that the role aggregates; False for a role without an aggregation rule.

    No role is visited twice.
    """
    wanted = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
    if not wanted:
        return False
    try:
        matchers = [selectors.label_selector_from(selector) for selector in wanted]
    except selectors.SelectorError:
        return True  # validation rejects such a rule; a stored one aggregates nothing
    seen.add(role["metadata"]["name"])  # roles may aggregate each other in a cycle
    for found in cluster_roles:
        labels = found["metadata"].get("labels") or {}
        if found["metadata"]["name"] in seen or not any(matcher.matches(labels) for matcher in matchers):
            continue
        seen.add(found["metadata"]["name"])
        if not _gather(found, cluster_roles, seen, gathered):
            for rule in found.get("rules") or ():
                gathered.setdefault(msgspec.json.encode(rule, order="sorted"), rule)
    return True


class Policy:
    """The roles and bindings of the cluster. `put` and `remove` are called for every change."""

    def __init__(self) -> None:
        self.version = 0  # increases with every change
        self._roles: dict[tuple[str, str], Json] = {}
        self._cluster_roles: dict[str, Json] = {}
        self._bindings: dict[tuple[str, str, str], Json] = {}  # kind, namespace, name
        # The bindings that name a subject, by namespace (empty for ClusterRoleBindings) and subject.
        self._by_subject: dict[tuple[str, str], dict[str, Json]] = {}
        self._aggregated: dict[str, list[Rule]] = {}

    def put(self, kind: str, value: Json) -> None:
        """Add a role or binding that was created or changed."""
        metadata = value["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        match kind:
            case "Role":
                self._roles[namespace, name] = value
            case "ClusterRole":
                self._cluster_roles[name] = value
            case "RoleBinding" | "ClusterRoleBinding":
                self._unbind(kind, namespace, name)
                self._bindings[kind, namespace, name] = value
                for subject in _subjects(value, namespace):
                    self._by_subject.setdefault((namespace, subject), {})[name] = value
            case _:
                raise ValueError(f"{kind} is no part of RBAC")
        self._changed()

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Remove a deleted role or binding."""
        match kind:
            case "Role":
                self._roles.pop((namespace, name), None)
            case "ClusterRole":
                self._cluster_roles.pop(name, None)
            case _:
                self._unbind(kind, namespace, name)
        self._changed()

    def _unbind(self, kind: str, namespace: str, name: str) -> None:
        old = self._bindings.pop((kind, namespace, name), None)
        if old is None:
            return
        for subject in _subjects(old, namespace):
            bound = self._by_subject.get((namespace, subject))
            if bound is not None:
                bound.pop(name, None)
                if not bound:
                    del self._by_subject[namespace, subject]

    def _changed(self) -> None:
        self.version += 1
        self._aggregated.clear()

    def rules_of(self, reference: Json, namespace: str) -> list[Rule]:
        """Return the rules of a role that a binding in this namespace names; NotFound if there is no such role."""
        kind, name = reference.get("kind"), reference.get("name", "")
        role = self._roles.get((namespace, name)) if kind == "Role" else None
        if kind == "ClusterRole":
            role = self._cluster_roles.get(name)
        if role is None:
            plural = f"{str(kind).lower()}.{_GROUP}"
            raise errors.NotFound(f"{plural} {golang.quote(name)} not found")
        if kind == "ClusterRole" and role.get("aggregationRule"):
            if name not in self._aggregated:
                # As the aggregation controller writes it, but at once and also where that does not run.
                gathered = aggregated_rules(role, self._cluster_roles.values())
                self._aggregated[name] = list(role.get("rules") or ()) if gathered is None else gathered
            return self._aggregated[name]
        return list(role.get("rules") or ())

    def bindings_of(self, user: UserInfo, namespace: str) -> Iterator[Json]:
        """Return the bindings in a namespace (empty: cluster-wide) that name the user or one of its groups, by name."""
        found: dict[str, Json] = {}
        for subject in (f"u:{user.name}", *(f"g:{group}" for group in user.groups)):
            found.update(self._by_subject.get((namespace, subject), {}))
        return iter([found[name] for name in sorted(found)])

    def resolve(self, user: UserInfo, namespace: str) -> ResolvedRules:
        """Return the rules that the bindings of one namespace (empty: the cluster-wide ones) grant a user."""
        resolved = ResolvedRules([], [])
        for binding in self.bindings_of(user, namespace):
            try:
                resolved.rules.extend(self.rules_of(binding.get("roleRef") or {}, namespace))
            except errors.NotFound as problem:
                resolved.problems.append(problem.message)
        return resolved


def _subjects(binding: Json, namespace: str) -> Iterator[str]:
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name", "")
        if kind == "User":
            yield f"u:{name}"
        elif kind == "Group":
            yield f"g:{name}"
        elif kind == "ServiceAccount" and (home := subject.get("namespace") or namespace):
            yield f"u:{identities.service_account_user(home, name)}"


def _explanation(binding: Json, reference: Json, user: UserInfo, namespace: str) -> str:
    kind, name = ("RoleBinding" if namespace else "ClusterRoleBinding"), binding["metadata"]["name"]
    shown = f"{namespace}/{name}" if namespace else name
    wanted = {f"u:{user.name}", *(f"g:{group}" for group in user.groups)}
    subject = next(
        subject
        for subject in binding.get("subjects") or ()
        if wanted & set(_subjects({"subjects": [subject]}, namespace))
    )
    who = f"{subject.get('kind')} {golang.quote(subject.get('name', ''))}"
    role = f"{reference.get('kind')} {golang.quote(reference.get('name', ''))}"
    return f"RBAC: allowed by {kind} {golang.quote(shown)} of {role} to {who}"


class _Arranged(NamedTuple):
    rules: RuleSet
    problems: tuple[str, ...]


class Rbac:
    """The RBAC authorizer over a policy."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._version = -1
        self._arranged: dict[tuple[str, tuple[str, ...], str], _Arranged] = {}

    def decide(self, attributes: Attributes) -> Decision:
        """Return whether a rule of a binding of the caller allows the request."""
        everywhere = self._for(attributes.user, "")
        if everywhere.rules.allows(attributes):
            return Decision(allowed=True)
        problems = everywhere.problems
        if attributes.namespace:
            here = self._for(attributes.user, attributes.namespace)
            if here.rules.allows(attributes):
                return Decision(allowed=True)
            problems += here.problems
        if not problems:
            return Decision(allowed=False)
        distinct = list(dict.fromkeys(problems))
        text = distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
        return Decision(allowed=False, reason=f"RBAC: {text}")

    def _for(self, user: UserInfo, namespace: str) -> _Arranged:
        if self._version != self.policy.version or len(self._arranged) > _REMEMBERED:
            self._arranged.clear()
            self._version = self.policy.version
        key = (user.name, user.groups, namespace)
        known = self._arranged.get(key)
        if known is None:
            resolved = self.policy.resolve(user, namespace)
            known = self._arranged[key] = _Arranged(RuleSet(resolved.rules), tuple(resolved.problems))
        return known

    def explain(self, attributes: Attributes) -> str:
        """Return the binding that allows the request, for access reviews; empty when none does."""
        for namespace in dict.fromkeys(("", attributes.namespace)):
            for binding in self.policy.bindings_of(attributes.user, namespace):
                reference = binding.get("roleRef") or {}
                try:
                    rules = self.policy.rules_of(reference, namespace)
                except errors.NotFound:
                    continue
                if RuleSet(rules).allows(attributes):
                    return _explanation(binding, reference, attributes.user, namespace)
        return ""

    def rules_for(self, user: UserInfo, namespace: str) -> ResolvedRules:
        """Return all rules of a user in a namespace: for SelfSubjectRulesReview and for escalation checks."""
        everywhere = self.policy.resolve(user, "")
        if not namespace:
            return everywhere
        here = self.policy.resolve(user, namespace)
        return ResolvedRules(everywhere.rules + here.rules, everywhere.problems + here.problems)
