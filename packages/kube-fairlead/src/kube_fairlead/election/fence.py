"""The fence: a policy with which the API server itself rejects the writes of a manager that does not lead.

A process checks its lease before it writes (`guard`), but it can be frozen between check and write, and wake up when
another leads. The policy has the Lease as its parameter and compares its holder with the pod whose token is used. It
reads the Lease through a watch and has no clock, so it stops an ex-leader once a successor holds the Lease, or
the Lease was released; not one whose lease has merely expired. One Lease, one service account: a pod that holds one of
two Leases may write whatever the account may.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from kube_fairlead.election.guard import FENCE_MARK
from kube_fairlead.election.lease import Lock

__all__ = ["FenceMode", "anchor_manifests", "fence_manifests"]

_API_VERSION = "admissionregistration.k8s.io/v1"
_LEASES = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
_ANCHOR = "follow-leases.fairlead.dev"
_NOWHERE = "fairlead.invalid"  # a group that no server serves
_POD_NAME = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"


class FenceMode(enum.StrEnum):
    """What happens to a write from a pod that does not hold the Lease."""

    OFF = "off"  # nothing: there is no policy
    WARN = "warn"  # it goes through; the client is warned and the audit log says so
    DENY = "deny"  # it is refused


def fence_manifests(
    lock: Lock, *, service_accounts: Sequence[tuple[str, str]], mode: FenceMode = FenceMode.DENY
) -> list[dict[str, Any]]:
    """The policy and its binding for one Lease, as manifests; none when it is off. `fairlead install` prints them.

    Args:
        lock: the Lease.
        service_accounts: namespace and name of those that must hold it to write. They are used for nothing else.
        mode: what happens to others' writes.
    """
    if mode is FenceMode.OFF:
        return []
    name = f"fence.{lock.namespace}.{lock.name}.fairlead.dev"
    users = [f"system:serviceaccount:{namespace}:{account}" for namespace, account in service_accounts]
    policy = {
        "apiVersion": _API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "paramKind": _LEASES,
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "resourceRules": [_rule(["*"], ["*/*"])],
                "excludeResourceRules": [
                    # An account that may not write the Lease can never become its holder.
                    {**_rule(["coordination.k8s.io"], ["leases"]), "resourceNames": [lock.name]},
                    # Followers write Events too, and an Event changes nothing.
                    _rule(["", "events.k8s.io"], ["events"]),
                    # Followers authenticate callers; a review is not stored.
                    _rule(["authentication.k8s.io"], ["tokenreviews"]),
                    _rule(["authorization.k8s.io"], ["subjectaccessreviews"]),
                ],
            },
            "matchConditions": [
                {"name": "managers-only", "expression": f"request.userInfo.username in {_strings(users)}"}
            ],
            "variables": [
                {"name": "pod", "expression": _extra(_POD_NAME)},
                {"name": "podUID", "expression": _extra(_POD_UID)},
                {
                    "name": "holder",
                    "expression": "has(params.spec) && has(params.spec.holderIdentity) ? "
                    "params.spec.holderIdentity.split('_') : ['']",
                },
            ],
            "validations": [
                {
                    # A holder is `host_uuid`, or `pod_uid_suffix` where the manager knows its pod's uid.
                    "expression": "variables.pod != '' && variables.holder[0] == variables.pod && "
                    "(variables.holder.size() < 3 || variables.holder[1] == variables.podUID)",
                    "messageExpression": f"'pod ' + variables.pod + ' {FENCE_MARK} {lock}'",
                    "reason": "Forbidden",
                }
            ],
        },
    }
    binding = {
        "apiVersion": _API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            # Not Deny: a missing parameter is judged before the match conditions, and a deleted Lease would then
            # stop every writer of the cluster, its administrators too. Its leader makes it again at once.
            "paramRef": {"name": lock.name, "namespace": lock.namespace, "parameterNotFoundAction": "Allow"},
            "validationActions": ["Deny"] if mode is FenceMode.DENY else ["Warn", "Audit"],
        },
    }
    return [policy, binding]


def anchor_manifests() -> list[dict[str, Any]]:
    """A policy and its binding that match no request, but have Leases as parameters as fences do.

    kube-apiserver (seen with 1.36.4) stops to follow a kind for good when the last bound policy with parameters of that
    kind goes, until it is restarted: a fence put back after that would see no Lease, and let every write through. So
    this one is there before the first fence, and stays when the last one goes.
    """
    policy = {
        "apiVersion": _API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": _ANCHOR},
        "spec": {
            "paramKind": _LEASES,
            "matchConstraints": {"resourceRules": [_rule([_NOWHERE], ["none"])]},
            "validations": [{"expression": "true"}],
        },
    }
    binding = {
        "apiVersion": _API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": _ANCHOR},
        "spec": {
            "policyName": _ANCHOR,
            "validationActions": ["Deny"],
            "paramRef": {"name": "none", "namespace": "default", "parameterNotFoundAction": "Allow"},
            "matchResources": {"namespaceSelector": {"matchLabels": {f"{_NOWHERE}/none": "none"}}},
        },
    }
    return [policy, binding]


def _rule(groups: Sequence[str], resources: Sequence[str]) -> dict[str, Any]:
    return {
        "apiGroups": list(groups),
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": list(resources),
    }


def _extra(key: str) -> str:
    extra = "request.userInfo.extra"
    return f"has({extra}) && '{key}' in {extra} ? {extra}['{key}'][0] : ''"


def _strings(values: Sequence[str]) -> str:
    return "[" + ", ".join(f"'{value}'" for value in values) + "]"
