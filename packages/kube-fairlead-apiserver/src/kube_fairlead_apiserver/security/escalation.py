"""Privilege escalation checks: a user cannot grant permissions in roles and bindings that the user does not hold.

Users that may `escalate` or `bind` the role are exempt, as are members of `system:masters`.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/registry/rbac/escalation_check.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/rbac/role/policybased/storage.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/rbac/clusterrole/policybased/storage.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/rbac/rolebinding/policybased/storage.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/rbac/clusterrolebinding/policybased/storage.go,
    k8s.io/kubernetes@v1.36.4/pkg/registry/rbac/validation/rule.go
"""

from __future__ import annotations

from collections.abc import Sequence

from kube_fairlead.api import errors, golang
from kube_fairlead.api.gvk import GroupResource
from kube_fairlead.api.json_object import Json
from kube_fairlead_apiserver.attributes import Attributes, UserInfo
from kube_fairlead_apiserver.security import identities
from kube_fairlead_apiserver.security.authorization import Authorization
from kube_fairlead_apiserver.security.rbac import Rbac
from kube_fairlead_apiserver.security.rbac_coverage import TooManyCombinations, uncovered
from kube_fairlead_apiserver.security.rbac_rules import Rule, describe

__all__ = ["EscalationCheck"]


_GROUP = "rbac.authorization.k8s.io"
_FULL_AUTHORITY: tuple[Rule, ...] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)


class EscalationCheck:
    """Checks a role or binding before it is created or updated."""

    def __init__(self, rbac: Rbac, authorization: Authorization) -> None:
        self._rbac = rbac
        self._authorization = authorization

    def check(self, user: UserInfo, kind: str, new: Json, old: Json | None = None) -> None:
        """Raise Forbidden if the write grants more than the user holds. Kinds outside of RBAC pass."""
        if identities.MASTERS in user.groups or (old is not None and _only_garbage_fields_differ(new, old)):
            return
        if kind in {"Role", "ClusterRole"}:
            self._check_role(user, kind, new, old)
        elif kind in {"RoleBinding", "ClusterRoleBinding"}:
            self._check_binding(user, kind, new)

    def _check_role(self, user: UserInfo, kind: str, new: Json, old: Json | None) -> None:
        namespace, name = _place(new)
        resource = f"{kind.lower()}s"
        if self._may(user, "escalate", resource, namespace, name):
            return
        self._confirm(user, namespace, new.get("rules") or (), resource, name)
        if kind == "ClusterRole" and (_aggregates(new) or _aggregates(old)):
            held = self._rbac.rules_for(user, "").rules
            if uncovered(held, _FULL_AUTHORITY):
                detail = "must have cluster-admin privileges to use the aggregationRule"
                raise errors.forbidden(GroupResource(_GROUP, resource), name, detail)

    def _check_binding(self, user: UserInfo, kind: str, new: Json) -> None:
        namespace, name = _place(new)
        reference = new.get("roleRef") or {}
        roles = f"{str(reference.get('kind', '')).lower()}s"
        if self._may(user, "bind", roles, namespace, reference.get("name", "")):
            return
        rules = self._rbac.policy.rules_of(reference, namespace)
        self._confirm(user, namespace, rules, f"{kind.lower()}s", name)

    def _may(self, user: UserInfo, verb: str, resource: str, namespace: str, name: str) -> bool:
        attributes = Attributes(
            user=user, verb=verb, path="", resource=resource, group=_GROUP, version="*", namespace=namespace, name=name
        )
        return self._authorization.decide(attributes).allowed

    def _confirm(self, user: UserInfo, namespace: str, rules: Sequence[Rule], resource: str, name: str) -> None:
        held = self._rbac.rules_for(user, namespace)
        try:
            missing = uncovered(held.rules, rules)
        except TooManyCombinations as error:
            message = f"{error}: grant them in several roles"
            raise errors.forbidden(GroupResource(_GROUP, resource), name, message) from error
        if not missing:
            return
        groups = " ".join(golang.quote(group) for group in user.groups)
        message = (
            f"user {golang.quote(user.name)} (groups=[{groups}]) is attempting to grant RBAC permissions not "
            "currently held:\n" + "\n".join(sorted(map(describe, missing)))
        )
        if held.problems:
            message += f"; resolution errors: [{' '.join(held.problems)}]"
        raise errors.forbidden(GroupResource(_GROUP, resource), name, message)


def _place(value: Json) -> tuple[str, str]:
    metadata = value.get("metadata") or {}
    return metadata.get("namespace", ""), metadata.get("name", "")


def _aggregates(role: Json | None) -> bool:
    return bool(((role or {}).get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _only_garbage_fields_differ(new: Json, old: Json) -> bool:
    """Return whether the write changes only owner references and finalizers, as the garbage collector does."""
    if new == old:
        return False

    def rest(value: Json) -> Json:
        ignored = {"ownerReferences", "finalizers", "managedFields", "resourceVersion"}
        metadata = {key: item for key, item in (value.get("metadata") or {}).items() if key not in ignored}
        return {**value, "metadata": metadata}

    return rest(new) == rest(old)
