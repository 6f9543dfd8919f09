"""rbac.authorization.k8s.io/v1: who may do what.

Upstream: k8s.io/api@v0.36.4/rbac/v1/types.go
"""

from __future__ import annotations

from kube_fairlead.api.meta import KubeObject, LabelSelector
from kube_fairlead.api.parts import Part, always, named

__all__ = [
    "AggregationRule",
    "ClusterRole",
    "ClusterRoleBinding",
    "PolicyRule",
    "Role",
    "RoleBinding",
    "RoleRef",
    "Subject",
]

_API_VERSION = "rbac.authorization.k8s.io/v1"


class PolicyRule(Part):
    """Verbs on resources or on bare paths."""

    verbs: tuple[str, ...] = always(())
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = named("nonResourceURLs", ())


class Subject(Part):
    """A user, group or service account."""

    MERGE_KEY = ("kind", "api_group", "namespace", "name")

    kind: str = ""
    api_group: str = ""
    name: str = ""
    namespace: str = ""


class RoleRef(Part):
    """The role a binding grants."""

    api_group: str = always("rbac.authorization.k8s.io")
    kind: str = ""
    name: str = ""


class AggregationRule(Part):
    """Which cluster roles are put together into one."""

    cluster_role_selectors: tuple[LabelSelector, ...] = ()


class Role(KubeObject):
    """Permissions inside a namespace."""

    api_version: str = always(_API_VERSION)
    kind: str = always("Role")
    rules: tuple[PolicyRule, ...] = always(())


class RoleBinding(KubeObject):
    """Grants a role inside a namespace."""

    api_version: str = always(_API_VERSION)
    kind: str = always("RoleBinding")
    subjects: tuple[Subject, ...] = ()
    role_ref: RoleRef = always(RoleRef())


class ClusterRole(KubeObject):
    """Permissions everywhere."""

    api_version: str = always(_API_VERSION)
    kind: str = always("ClusterRole")
    rules: tuple[PolicyRule, ...] = always(())
    aggregation_rule: AggregationRule | None = None


class ClusterRoleBinding(KubeObject):
    """Grants a cluster role everywhere."""

    api_version: str = always(_API_VERSION)
    kind: str = always("ClusterRoleBinding")
    subjects: tuple[Subject, ...] = ()
    role_ref: RoleRef = always(RoleRef())
