"""Restricts the agent and the drain driver of a node to objects of that node, which RBAC cannot. Pure.

RBAC rights are per kind, so the account that all agents share could write to every node. The API server knows from the
token on which node its pod runs, and a ValidatingAdmissionPolicy compares. Another policy restricts the fields that an
account may change (`own_fields_policy`). Evictions and EvictionRequests name a pod but no node, and a policy cannot
read the pod: `fairlead webhook` does. This policy only checks that an EvictionRequest is the drain driver's own.
"""

from __future__ import annotations

from kube_fairlead.api.json_object import Json
from kube_fairlead.api.reserved import (
    ANNOTATION_PUBLISHED_BY,
    DRIVER_DRAIN,
    NAMESPACE_NODE_LEASE,
    NODE_SHUTDOWN,
)
from kube_fairlead.install.installation import AGENT, DRAIN, Installation

__all__ = ["OWN_NODE", "bound_policy", "own_node_manifests"]


OWN_NODE = "own-node.fairlead.dev"

_API_VERSION = "admissionregistration.k8s.io/v1"
_MARK = f"metadata.?annotations['{ANNOTATION_PUBLISHED_BY}']"
# Agents create the transition of shutdowns once, for all nodes, and never update it.
_OF_SHUTDOWNS = f"request.operation == 'CREATE' && object.metadata.name == '{NODE_SHUTDOWN.name}'"
_PUBLISHED = (
    f"variables.node != '' && ({_OF_SHUTDOWNS} || ("
    f"(request.operation == 'DELETE' || object.{_MARK}.orValue('') == object.spec.driver)"
    f" && (request.operation == 'CREATE' || oldObject.{_MARK}.orValue('') == oldObject.spec.driver)))"
)
# A transition for a single node must be for the agent's own node.
_OF_OWN_DRIVERS = "variables.written.spec.?nodeName.orValue(variables.node) == variables.node"
_NODE_NAME = "authentication.kubernetes.io/node-name"
# An Event is signed with the name of the node, cut to what the field takes (`client.eventbodies`).
_SIGNATURE = "(variables.node.size() > 128 ? variables.node.substring(0, 125) + '...' : variables.node)"
_IS_SIGNED = "dyn({}).?reportingInstance.orValue('') == " + _SIGNATURE
_OWN_NODE_MEANT = "(dyn(object.{0}).?kind.orValue('') == 'Node' && dyn(object.{0}).?name.orValue('') == variables.node)"


def own_node_manifests(installation: Installation) -> list[Json]:
    """The policy and its binding; none if it is off."""
    if installation.own_node == "off":
        return []
    users = ", ".join(f"'system:serviceaccount:{installation.namespace}:{name}'" for name in (AGENT, DRAIN))
    extra = "request.userInfo.extra"
    rules, judgements = _requests() if installation.eviction_requests else ([], [])
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                _matched("", ["nodes", "nodes/status"]),
                _matched("", ["pods", "pods/status"]),
                _matched("coordination.k8s.io", ["leases"]),
                _matched("events.k8s.io", ["events"]),
                _matched(installation.lifecycle_group, ["lifecycleevents", "lifecycleevents/status"]),
                _matched(installation.lifecycle_group, ["lifecycletransitions", "nodelifecyclerecords"]),
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
            {"name": "written", "expression": "request.operation == 'DELETE' ? dyn(oldObject) : dyn(object)"},
        ],
        "validations": [
            _judged("nodes", "request.name"),
            _judged("pods", "oldObject.spec.?nodeName.orValue('')"),
            _judged("leases", "request.operation == 'CREATE' ? object.metadata.name : request.name"),
            _judged("nodelifecyclerecords", "request.operation == 'CREATE' ? object.metadata.name : request.name"),
            _judged("lifecycleevents", "(request.operation == 'CREATE' ? object : oldObject).spec.bindingNode"),
            _refused(
                f"variables.kind != 'leases' || request.namespace == '{NAMESPACE_NODE_LEASE}'",
                f"agents hold Leases in {NAMESPACE_NODE_LEASE} only",
            ),
            # A transition that an agent publishes has the driver's name as annotation; one that a user created has not.
            _refused(
                f"variables.kind != 'lifecycletransitions' || ({_PUBLISHED})",
                "agents create, update and replace only LifecycleTransitions that agents published",
            ),
            _refused(
                f"variables.kind != 'lifecycletransitions' || ({_OF_OWN_DRIVERS})",
                "agents publish LifecycleTransitions of drivers on their own node only",
            ),
            _refused(
                f"variables.kind != 'lifecycleevents' || ({_claims()})",
                "agents create the LifecycleEvents of shutdowns only, and claim for their own node only",
            ),
            _refused(
                f"variables.kind != 'events' || (variables.node != '' && {_is_of_own_node(installation)})",
                "agents and drain drivers create Events about their own node, its LifecycleEvents and pods only",
            ),
            *judgements,
        ],
    }
    return bound_policy(OWN_NODE, policy, installation)


def bound_policy(name: str, policy: Json, installation: Installation) -> list[Json]:
    """A policy about agents and drivers, and the binding that makes the API server warn or reject."""
    actions = ["Deny"] if installation.own_node == "deny" else ["Warn", "Audit"]
    return [
        {
            "apiVersion": _API_VERSION,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": policy,
        },
        {
            "apiVersion": _API_VERSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": actions},
        },
    ]


def _claims() -> str:
    """An agent claims events for its own node only, and creates only the event of its own shutdown."""
    shutdown = f"request.operation != 'CREATE' || object.spec.transitionName == '{NODE_SHUTDOWN.name}'"
    claimant = "dyn({}).?status.?claimedBy.orValue('')"
    now, before = claimant.format("object"), claimant.format("oldObject")
    mine = f"{now} in ['', 'node/' + variables.node] || {now} == {before}"
    return f"({shutdown}) && (request.operation != 'UPDATE' || {mine})"


def _is_of_own_node(installation: Installation) -> str:
    """Whether an Event is about an object of the node, as far as the Event shows, and reported by the node."""
    agent = f"request.userInfo.username == 'system:serviceaccount:{installation.namespace}:{AGENT}'"
    kinds = f"dyn(object.regarding).?kind.orValue('') == ({agent} ? 'LifecycleEvent' : 'Pod')"
    related = f"(!has(object.related) || {_OWN_NODE_MEANT.format('related')})"
    # A missing namespace of the nodes' Leases concerns every node.
    leases = (
        f"({agent} && dyn(object.regarding).?kind.orValue('') == 'Namespace'"
        f" && dyn(object.regarding).?name.orValue('') == '{NAMESPACE_NODE_LEASE}')"
    )
    about = f"{_OWN_NODE_MEANT.format('regarding')} || ({kinds} && {related}) || {leases}"
    return (
        "request.operation != 'DELETE' && "
        f"{_IS_SIGNED.format('object')} && (request.operation == 'CREATE' || {_IS_SIGNED.format('oldObject')})"
        f" && has(object.regarding) && ({about})"
    )


def _requests() -> tuple[list[Json], list[Json]]:
    """The rules and validations of EvictionRequests: a drain driver creates and deletes its own only."""
    mine = f"(request.operation == 'DELETE' ? oldObject : object).spec.requester == '{DRIVER_DRAIN}'"
    judged = _refused(
        f"variables.kind != 'evictionrequests' || (variables.node != '' && {mine})",
        f"drain drivers create and delete the EvictionRequests of {DRIVER_DRAIN} only",
    )
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


def _refused(expression: str, message: str) -> Json:
    return {"expression": expression, "message": message, "reason": "Forbidden"}
