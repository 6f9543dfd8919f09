"""What rights alone cannot say: agent and drain driver of a node write to that node and to nothing of another. Pure.

Rights are per kind, so the account that every agent shares could write to every node. The API server knows from the
token on which node its pod runs, and a ValidatingAdmissionPolicy compares. Which fields of a node, a pod or an event an
account may change is judged by another policy (`fields`). Evictions and EvictionRequests name a pod but no node, and a
policy cannot look the pod up: `fairlead webhook` does. All that is judged here of a request is that it is the drain
driver's own.
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
# The transition of shutdowns is the agents' own. It is created once, for all nodes, and never renewed.
_OF_SHUTDOWNS = f"request.operation == 'CREATE' && object.metadata.name == '{NODE_SHUTDOWN.name}'"
_PUBLISHED = (
    f"variables.node != '' && ({_OF_SHUTDOWNS} || ("
    f"(request.operation == 'DELETE' || object.{_MARK}.orValue('') == object.spec.driver)"
    f" && (request.operation == 'CREATE' || oldObject.{_MARK}.orValue('') == oldObject.spec.driver)))"
)
# One that is for a single node is for the agent's own.
_OF_OWN_DRIVERS = "variables.written.spec.?nodeName.orValue(variables.node) == variables.node"
_NODE_NAME = "authentication.kubernetes.io/node-name"
# An Event is signed with the name of the node, cut to what the field takes (`client.eventbodies`).
_SIGNATURE = "(variables.node.size() > 128 ? variables.node.substring(0, 125) + '...' : variables.node)"
_IS_SIGNED = "dyn({}).?reportingInstance.orValue('') == " + _SIGNATURE
_OWN_NODE_MEANT = "(dyn(object.{0}).?kind.orValue('') == 'Node' && dyn(object.{0}).?name.orValue('') == variables.node)"


def own_node_manifests(installation: Installation) -> list[Json]:
    """The policy and its binding; none when it is off."""
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
            # What agents publish carries the driver's name; what a user made does not, and stays as it is.
            _refused(
                f"variables.kind != 'lifecycletransitions' || ({_PUBLISHED})",
                "agents create, renew and replace LifecycleTransitions that agents published only",
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
                f"variables.kind != 'events' || (variables.node != '' && {_told(installation)})",
                "agents and drain drivers tell Events about their own node, its LifecycleEvents and pods only",
            ),
            *judgements,
        ],
    }
    return bound_policy(OWN_NODE, policy, installation)


def bound_policy(name: str, policy: Json, installation: Installation) -> list[Json]:
    """A policy about agents and drivers, and the binding that makes it warn or refuse."""
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
    """What an agent says of an event: it is its own claim, and it asks for nothing but its own shutdown."""
    shutdown = f"request.operation != 'CREATE' || object.spec.transitionName == '{NODE_SHUTDOWN.name}'"
    claimant = "dyn({}).?status.?claimedBy.orValue('')"
    now, before = claimant.format("object"), claimant.format("oldObject")
    mine = f"{now} in ['', 'node/' + variables.node] || {now} == {before}"
    return f"({shutdown}) && (request.operation != 'UPDATE' || {mine})"


def _told(installation: Installation) -> str:
    """Whether an Event is about something of the node, as far as the Event itself says, and is signed by the node."""
    agent = f"request.userInfo.username == 'system:serviceaccount:{installation.namespace}:{AGENT}'"
    kinds = f"dyn(object.regarding).?kind.orValue('') == ({agent} ? 'LifecycleEvent' : 'Pod')"
    related = f"(!has(object.related) || {_OWN_NODE_MEANT.format('related')})"
    # That the namespace of the nodes' Leases is missing concerns every node.
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
    """What is matched and what is judged of EvictionRequests: nobody else's are made or taken back."""
    mine = f"(request.operation == 'DELETE' ? oldObject : object).spec.requester == '{DRIVER_DRAIN}'"
    judged = _refused(
        f"variables.kind != 'evictionrequests' || (variables.node != '' && {mine})",
        f"drain drivers make and take back the EvictionRequests of {DRIVER_DRAIN} only",
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
