"""The API server's own check that a cloud controller manager touches its own nodes only. Pure: manifests to apply.

A wrong flag, a bug or stolen credentials of one manager cannot reach another's nodes: its service account has the least
rights that its controllers need, and a ValidatingAdmissionPolicy judges every write of it to a Node by the state that
is stored, with the same rules as `ownership.owned_by_id`. One set of manifests per manager, which is one per provider
and set of platforms: accounts and policies of two managers of one provider have nothing in common.

The same policy can be put before the account of a manager that is not ours (`OtherManager`): Kubernetes' own, of any
cloud, which would delete a node of another cloud because its own does not know it.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection
from typing import Literal

from kube_fairlead.api.json_object import Json
from kube_fairlead.api.reserved import ANNOTATION_PLATFORM
from kube_fairlead.cloud.manager_names import lease_name, manager_identity
from kube_fairlead.cloud.ownership import parse_platforms
from kube_fairlead.cloud.unannounced_deletions import record_name
from kube_fairlead.cloud.wellknown import TAINT_UNINITIALIZED

__all__ = [
    "Manager",
    "OtherManager",
    "access_manifests",
    "ccm_manifests",
    "fence_account_manifests",
    "policy_manifests",
]


_RBAC = "rbac.authorization.k8s.io"
_FENCE = "cloud-fence"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """Which manager the manifests are for."""

    provider: str
    platforms: frozenset[str]
    namespace: str = "kube-system"
    lease: str = ""
    routes: bool = False  # whether the route controller runs
    services: bool = False  # whether the service controller runs

    def __post_init__(self) -> None:
        parse_platforms([self.provider, *self.platforms])
        if not self.platforms:
            raise ValueError("without platforms there is nothing to enforce: every node is the manager's")

    @property
    def name(self) -> str:
        """What its account, its rights and its policy are called; its Lease too, unless given."""
        return lease_name(manager_identity(self.provider, self.platforms), self.platforms)

    @property
    def user(self) -> str:
        """As the API server calls it."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OtherManager:
    """A cloud controller manager of another vendor, by its account; Fairlead does not grant its rights."""

    namespace: str
    account: str
    platforms: frozenset[str]

    def __post_init__(self) -> None:
        parse_platforms(self.platforms)
        if not self.platforms:
            raise ValueError("without platforms there is nothing to enforce: every node is the manager's")

    @property
    def name(self) -> str:
        """What its policy is called. A namespace has no dot, so two accounts never share a name."""
        return f"{_FENCE}.{self.namespace}.{self.account}"

    @property
    def user(self) -> str:
        """As the API server calls it."""
        return f"system:serviceaccount:{self.namespace}:{self.account}"


def fence_account_manifests(manager: OtherManager, *, mode: Literal["deny", "warn"] = "deny") -> list[Json]:
    """The policy alone, for a manager that is not ours."""
    return policy_manifests(manager, mode=mode)


def ccm_manifests(manager: Manager, *, mode: Literal["deny", "warn"] = "deny") -> list[Json]:
    """Everything for one manager: its account, its rights and the policy."""
    return [*access_manifests(manager), *policy_manifests(manager, mode=mode)]


def access_manifests(manager: Manager) -> list[Json]:
    """The service account and its rights, and no more."""
    rules = [
        _rule("", ["nodes"], ["get", "list", "watch", "patch", "delete"]),
        _rule("", ["nodes/status"], ["patch"]),
        _rule("", ["events"], ["create", "patch"]),
        _rule("events.k8s.io", ["events"], ["create", "patch"]),
        # Who may see its metrics.
        _rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
        _rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
    ]
    if manager.services:
        rules += [
            _rule("", ["services"], ["get", "list", "watch", "patch"]),
            _rule("", ["services/status"], ["patch"]),
        ]
    lease = manager.lease or manager.name
    lease_rules = [
        # A name cannot be demanded of what does not exist yet.
        _rule("coordination.k8s.io", ["leases"], ["create"]),
        _rule("coordination.k8s.io", ["leases"], ["get", "list", "watch", "update", "patch"], names=[lease]),
        # Which platforms the other managers' Leases name.
        _rule("coordination.k8s.io", ["leases"], ["list"]),
        # What the next leader must know of deleted nodes.
        _rule("", ["configmaps"], ["create"]),
        _rule("", ["configmaps"], ["get", "patch"], names=[record_name(lease)]),
    ]
    here = {"name": manager.name, "namespace": manager.namespace}
    subject = {"kind": "ServiceAccount", **here}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": here},
        _role("ClusterRole", {"name": manager.name}, rules),
        _binding("ClusterRole", {"name": manager.name}, subject),
        _role("Role", here, lease_rules),
        _binding("Role", here, subject),
    ]


def policy_manifests(manager: Manager | OtherManager, *, mode: Literal["deny", "warn"] = "deny") -> list[Json]:
    """The policy, and its binding."""
    platforms = ", ".join(sorted(manager.platforms))
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "resources": ["nodes", "nodes/status"],
                }
            ]
        },
        "matchConditions": [
            {"name": "this-manager", "expression": f"request.userInfo.username == {_quoted(manager.user)}"}
        ],
        "variables": _variables(manager.platforms),
        "validations": [
            {
                "expression": "variables.isOwned || variables.isInitialised",
                "messageExpression": (
                    "'node ' + request.name + ' belongs to ' + variables.owner + "
                    f"{_quoted(f', not to {manager.name} ({platforms})')}"
                ),
                "reason": "Forbidden",
            }
        ],
    }
    binding = {"policyName": manager.name, "validationActions": ["Deny"] if mode == "deny" else ["Warn", "Audit"]}
    return [
        _registered("ValidatingAdmissionPolicy", manager.name, policy),
        _registered("ValidatingAdmissionPolicyBinding", manager.name, binding),
    ]


def _variables(platforms: Collection[str]) -> list[Json]:
    """`ownership`, said in CEL."""
    # Anchored at both ends; RE2's `$` is the end of the text and not of a line.
    pattern = f"^({'|'.join(re.escape(name) for name in sorted(platforms))})://[!-~]+$"
    note = _quoted(ANNOTATION_PLATFORM)
    own_id = f"{{}}.size() <= 1024 && {{}}.matches({_quoted(pattern)})"
    # A node without an id may be initialised if it names nothing or this platform: it waits for a cloud, and becomes
    # this one's by this very write. No manager writes to a node for an annotation alone.
    claims = f"variables.platform in {json.dumps(sorted(platforms))}"
    initialised = (
        "request.operation == 'UPDATE' && !has(request.subResource) && variables.providerID == '' && "
        f"(variables.platform == '' || {claims}) && "
        f"has(oldObject.spec.taints) && oldObject.spec.taints.exists(t, t.key == {_quoted(TAINT_UNINITIALIZED)}) && "
        f"has(object.spec.providerID) && {own_id.format('object.spec.providerID', 'object.spec.providerID')}"
    )
    return [
        {
            "name": "providerID",
            "expression": "oldObject != null && has(oldObject.spec.providerID) ? oldObject.spec.providerID : ''",
        },
        {
            "name": "platform",
            "expression": (
                f"oldObject != null && has(oldObject.metadata.annotations) && {note} in oldObject.metadata.annotations "
                f"? oldObject.metadata.annotations[{note}] : ''"
            ),
        },
        {
            "name": "isOwned",
            "expression": (
                f"oldObject != null && variables.providerID != '' && "
                f"{own_id.format('variables.providerID', 'variables.providerID')}"
            ),
        },
        {"name": "isInitialised", "expression": f"oldObject != null && {initialised}"},
        {
            "name": "named",
            "expression": "variables.providerID != '' ? variables.providerID : variables.platform",
        },
        # A message that has a line break is not shown at all.
        {
            "name": "owner",
            "expression": (
                f"variables.providerID == '' && {claims} ? 'no cloud yet, for it has no providerID' : "
                "variables.named.matches('^[!-~]{1,200}$') ? variables.named : "
                "variables.named == '' ? 'no platform' : 'a platform that cannot be read'"
            ),
        },
    ]


def _quoted(text: str) -> str:
    # JSON's strings are CEL's too.
    return json.dumps(text, ensure_ascii=True)


def _rule(group: str, resources: list[str], verbs: list[str], *, names: list[str] | None = None) -> Json:
    rule: Json = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return {**rule, "resourceNames": names} if names else rule


def _role(kind: str, metadata: Json, rules: list[Json]) -> Json:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules}


def _binding(role: str, metadata: Json, subject: Json) -> Json:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{role}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": role, "name": metadata["name"]},
        "subjects": [subject],
    }


def _registered(kind: str, name: str, spec: Json) -> Json:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
