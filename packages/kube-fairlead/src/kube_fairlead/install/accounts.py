"""One service account per component, with the rights that its code uses and no others. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kube_fairlead.api.json_object import Json
from kube_fairlead.api.reserved import NAMESPACE_NODE_LEASE
from kube_fairlead.install.installation import AGENT, CLAIMER, DRAIN, MANAGER, Installation

__all__ = ["access_manifests", "user_roles"]


_RBAC = "rbac.authorization.k8s.io"
_READ = ("get", "list", "watch")
# A claimant reads the record of its node when an event has ended, and adds an entry.
_WRITE_RECORD = ("get", "create", "update")
# The Leases that kubelets renew, which shutdown-observer reads.
_KUBELET_LEASES = "kube-node-lease"


def access_manifests(installation: Installation) -> list[Json]:
    """The accounts of agent, drain driver, manager and claimer."""
    lifecycle = installation.lifecycle_group
    events = _rule("events.k8s.io", ["events"], ["create", "patch"])
    agent = [
        _rule(lifecycle, ["lifecycleevents"], [*_READ, "update", "delete"]),
        _rule(lifecycle, ["lifecycleevents/status"], ["update"]),
        _rule(lifecycle, ["lifecycletransitions"], [*_READ, "create", "patch", "delete"]),
        _rule(lifecycle, ["nodelifecyclerecords"], _WRITE_RECORD),
        _rule("", ["nodes"], [*_READ, "patch"]),
        _rule("", ["nodes/status"], ["patch"]),
        events,
    ]
    if installation.shutdown:
        agent += [
            # The event of a shutdown; the node's pods, their status, and the deletion of those replaced elsewhere.
            _rule(lifecycle, ["lifecycleevents"], ["create"]),
            _rule("", ["pods"], [*_READ, "delete"]),
            _rule("", ["pods/status"], ["patch"]),
            _rule("discovery.k8s.io", ["endpointslices"], ["list"]),
        ]
    manager = [
        _rule(lifecycle, ["lifecycleevents"], [*_READ, "update", "delete"]),
        _rule(lifecycle, ["lifecycleevents/status"], ["update"]),
        _rule(lifecycle, ["lifecycletransitions"], [*_READ, "delete"]),
        _rule(lifecycle, ["nodelifecyclerecords"], [*_READ, "create", "update", "delete"]),
        _rule("", ["nodes"], list(_READ)),
        # The pods of a machine that has shut down.
        _rule("", ["pods"], ["list"]),
        events,
    ]
    if installation.out_of_service_taint:
        manager.append(_rule("", ["nodes"], ["patch"]))
    agent += _DELEGATION
    manager += _DELEGATION
    return [
        *_account(AGENT, installation.namespace, agent),
        # RBAC cannot restrict the name of an object that is created; the policy `own_node_policy` does.
        *_namespaced(AGENT, installation.namespace, NAMESPACE_NODE_LEASE, [_leases([*_READ, "create", "update"])]),
        *_account(DRAIN, installation.namespace, _draining(installation)),
        *_account(MANAGER, installation.namespace, manager),
        *_namespaced(MANAGER, installation.namespace, NAMESPACE_NODE_LEASE, [_leases(["get"])]),
        *_namespaced(MANAGER, installation.namespace, _KUBELET_LEASES, [_leases(["get"])]),
        *_electing(MANAGER, installation),
        *(_claiming(installation) if installation.claimer else ()),
    ]


def _draining(installation: Installation) -> list[Json]:
    rules = [
        _rule(installation.lifecycle_group, ["lifecycleevents"], ["get"]),
        _rule("", ["nodes"], [*_READ, "patch"]),
        _rule("", ["pods"], [*_READ, "delete"]),
        _rule("", ["pods/eviction"], ["create"]),
        _rule("policy", ["poddisruptionbudgets"], list(_READ)),
        _rule("apps", ["daemonsets"], ["get"]),
        _rule("events.k8s.io", ["events"], ["create", "patch"]),
        *_DELEGATION,
    ]
    if installation.eviction_requests:
        # This kind is always in Kubernetes' own group.
        rules.append(_rule("lifecycle.k8s.io", ["evictionrequests"], ["create", "get", "delete"]))
    return rules


def _claiming(installation: Installation) -> list[Json]:
    """The claimer has an account of its own: it acts on every node, which the manager does not."""
    lifecycle = installation.lifecycle_group
    rules = [
        _rule(lifecycle, ["lifecycleevents"], [*_READ, "update", "delete"]),
        _rule(lifecycle, ["lifecycleevents/status"], ["update"]),
        _rule(lifecycle, ["lifecycletransitions"], [*_READ, "create", "patch", "delete"]),
        _rule(lifecycle, ["nodelifecyclerecords"], _WRITE_RECORD),
        _rule("", ["nodes/status"], ["patch"]),
        # The drain driver in the same pod has the same account.
        *_draining(installation),
    ]
    return [
        *_account(CLAIMER, installation.namespace, rules),
        *_namespaced(CLAIMER, installation.namespace, NAMESPACE_NODE_LEASE, [_leases([*_READ, "create", "update"])]),
        *_electing(CLAIMER, installation),
    ]


def _electing(name: str, installation: Installation) -> list[Json]:
    # RBAC cannot restrict the name of an object that is created.
    rules = [_leases(["create"]), _leases([*_READ, "update"], names=[name])]
    return _namespaced(name, installation.namespace, installation.namespace, rules)


def user_roles(installation: Installation) -> list[Json]:
    """Roles for users: `view` includes reading; a binding allows requesting events, or reading metrics."""
    lifecycle = installation.lifecycle_group
    kinds = ["lifecycleevents", "lifecycletransitions", "nodelifecyclerecords"]
    view = {"name": "fairlead-view", "labels": {f"{_RBAC}/aggregate-to-view": "true"}}
    operate = [
        _rule(lifecycle, kinds, list(_READ)),
        _rule(lifecycle, ["lifecycleevents"], ["create", "delete"]),
        _rule("", ["nodes"], list(_READ)),
        _rule("coordination.k8s.io", ["leases"], ["list"]),
    ]
    metrics = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    return [
        _role("ClusterRole", {"name": "fairlead-metrics"}, [metrics]),
        _role("ClusterRole", view, [_rule(lifecycle, kinds, list(_READ))]),
        _role("ClusterRole", {"name": "fairlead-operator"}, operate),
    ]


def _account(name: str, namespace: str, rules: list[Json]) -> list[Json]:
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}},
        _role("ClusterRole", {"name": name}, rules),
        _binding("ClusterRole", {"name": name}, name, namespace),
    ]


def _namespaced(name: str, namespace: str, where: str, rules: list[Json]) -> list[Json]:
    metadata = {"name": name, "namespace": where}
    return [_role("Role", metadata, rules), _binding("Role", metadata, name, namespace)]


def _leases(verbs: Sequence[str], *, names: Sequence[str] = ()) -> Json:
    rule = _rule("coordination.k8s.io", ["leases"], verbs)
    return {**rule, "resourceNames": list(names)} if names else rule


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> Json:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _role(kind: str, metadata: Json, rules: list[Json]) -> Json:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules}


def _binding(role: str, metadata: Json, account: str, namespace: str) -> Json:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{role}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": role, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


# A client that reads metrics sends a token; the component has the API server review the token and the access.
_DELEGATION = [
    _rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
    _rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
]
