"""What rights alone cannot say: agent and drain driver of a node write to that node and to nothing of another. Pure.

Rights are per kind, so the account that every agent shares could write to every node. The API server knows from the
token on which node its pod runs, and a ValidatingAdmissionPolicy compares. Evictions and EvictionRequests name a pod
but no node, and a policy cannot look the pod up: `fairlead webhook` does, where it is registered. All that is judged
here of a request is that it is the drain driver's own.
"""

from __future__ import annotations

from typing import Any

from fairlead.api.reserved import ANNOTATION_PUBLISHED_BY, DRIVER_DRAIN, NAMESPACE_NODE_LEASE, NODE_SHUTDOWN
from fairlead.cli.install.plan import AGENT, DRAIN, Plan

__all__ = ["OWN_NODE", "own_node_manifests"]

Json = dict[str, Any]

OWN_NODE = "own-node.fairlead.dev"

_API_VERSION = "admissionregistration.k8s.io/v1"
_MARK = f"metadata.?annotations['{ANNOTATION_PUBLISHED_BY}']"
# The transition of shutdowns is the agents' own. It is created once, for all nodes, and never renewed.
_OF_SHUTDOWNS = f"request.operation == 'CREATE' && object.metadata.name == '{NODE_SHUTDOWN.name}'"
_PUBLISHED = (
    f"variables.node != '' && ({_OF_SHUTDOWNS} || ("
    f"(request.operation == 'DELETE' || object.{_MARK}.orValue('') == object.spec.driver)"
    f" && (request.operation == 'CREATE' || oldObject.{_MARK}.orValue('') == oldObject.spec.driver)))"
)
_NODE_NAME = "authentication.kubernetes.io/node-name"


def own_node_manifests(plan: Plan) -> list[Json]:
    """The policy and its binding; none when it is off."""
    if plan.own_node == "off":
        return []
    users = ", ".join(f"'system:serviceaccount:{plan.namespace}:{name}'" for name in (AGENT, DRAIN))
    extra = "request.userInfo.extra"
    rules, judgements = _requests() if plan.eviction_requests else ([], [])
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                _matched("", ["nodes", "nodes/status"]),
                _matched("", ["pods", "pods/status"]),
                _matched("coordination.k8s.io", ["leases"]),
                _matched(plan.lifecycle_group, ["lifecycleevents", "lifecycleevents/status"]),
                _matched(plan.lifecycle_group, ["lifecycletransitions"]),
                *rules,
            ]
        },
        "matchConditions": [{"name": "agents-and-drivers", "expression": f"request.userInfo.username in [{users}]"}],
        "variables": [
            {
                "name": "node",
                "expression": f"has({extra}) && '{_NODE_NAME}' in {extra} ? {extra}['{_NODE_NAME}'][0] : ''",
            },
            {"name": "kind", "expression": "request.resource.resource"},
        ],
        "validations": [
            _judged("nodes", "request.name"),
            _judged("pods", "oldObject.spec.?nodeName.orValue('')"),
            _judged("leases", "request.operation == 'CREATE' ? object.metadata.name : request.name"),
            _judged("lifecycleevents", "(request.operation == 'CREATE' ? object : oldObject).spec.bindingNode"),
            {
                "expression": f"variables.kind != 'leases' || request.namespace == '{NAMESPACE_NODE_LEASE}'",
                "message": f"agents hold Leases in {NAMESPACE_NODE_LEASE} only",
                "reason": "Forbidden",
            },
            {
                # What agents publish carries the driver's name; what a user made does not, and stays as it is.
                "expression": f"variables.kind != 'lifecycletransitions' || ({_PUBLISHED})",
                "message": "agents create, renew and replace LifecycleTransitions that agents published only",
                "reason": "Forbidden",
            },
            *judgements,
        ],
    }
    actions = ["Deny"] if plan.own_node == "deny" else ["Warn", "Audit"]
    return [
        {
            "apiVersion": _API_VERSION,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": OWN_NODE},
            "spec": policy,
        },
        {
            "apiVersion": _API_VERSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": OWN_NODE},
            "spec": {"policyName": OWN_NODE, "validationActions": actions},
        },
    ]


def _requests() -> tuple[list[Json], list[Json]]:
    """What is matched and what is judged of EvictionRequests: nobody else's are made or taken back."""
    mine = f"(request.operation == 'DELETE' ? oldObject : object).spec.requester == '{DRIVER_DRAIN}'"
    judged = {
        "expression": f"variables.kind != 'evictionrequests' || (variables.node != '' && {mine})",
        "message": f"drain drivers make and take back the EvictionRequests of {DRIVER_DRAIN} only",
        "reason": "Forbidden",
    }
    return [_matched("lifecycle.k8s.io", ["evictionrequests"])], [judged]


def _matched(group: str, resources: list[str]) -> Json:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": resources,
    }


def _judged(kind: str, node: str) -> Json:
    return {
        "expression": f"variables.kind != '{kind}' || (variables.node != '' && variables.node == ({node}))",
        "messageExpression": f"'a pod on node \"' + variables.node + '\" writes to {kind} of that node only'",
        "reason": "Forbidden",
    }
