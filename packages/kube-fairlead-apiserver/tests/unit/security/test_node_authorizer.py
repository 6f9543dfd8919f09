from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead.api.selectors import parse_field_selector
from kube_fairlead_apiserver.attributes import Attributes, UserInfo
from kube_fairlead_apiserver.security.bootstrap_policy import node_rules
from kube_fairlead_apiserver.security.node_authorizer import NodeAuthorizer
from kube_fairlead_apiserver.security.node_graph import NodeGraph
from kube_fairlead_apiserver.security.tokens import Lookup

Json = dict[str, Any]

POD: Json = {
    "metadata": {"name": "web", "namespace": "ns"},
    "spec": {
        "nodeName": "n1",
        "serviceAccountName": "robot",
        "resourceClaims": [{"name": "a", "resourceClaimName": "gpu"}, {"name": "b", "resourceClaimTemplateName": "t"}],
        "imagePullSecrets": [{"name": "pull"}],
        "initContainers": [{"envFrom": [{"secretRef": {"name": "init"}}, {"configMapRef": {"name": "init-map"}}]}],
        "containers": [
            {
                "env": [
                    {"name": "A", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}},
                    {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "env-map", "key": "k"}}},
                    {"name": "C", "value": "x"},
                ]
            }
        ],
        "volumes": [
            {"name": "v1", "secret": {"secretName": "vol"}},
            {"name": "v2", "configMap": {"name": "vol-map"}},
            {
                "name": "v3",
                "projected": {"sources": [{"secret": {"name": "proj"}}, {"configMap": {"name": "proj-map"}}]},
            },
            {"name": "v4", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "v5", "ephemeral": {}},
            {"name": "v7", "azureFile": {"secretName": "azure"}},
            {"name": "v8", "rbd": {"secretRef": {"name": "rbd"}}},
            {"name": "v6", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "csi"}}},
        ],
    },
}
POD["status"] = {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "made"}]}
KUBELET = UserInfo("system:node:n1", groups=("system:nodes", "system:authenticated"))


@pytest.fixture
def nodes() -> NodeAuthorizer:
    def lookup(resource: str, namespace: str, name: str) -> Json | None:
        claim = {"namespace": "ns", "name": "data"}
        csi = {"nodeStageSecretRef": {"namespace": "vault", "name": "stage"}}
        csi["controllerPublishSecretRef"] = {"namespace": "vault", "name": "controller"}
        known: dict[tuple[str, str, str], Json] = {
            ("persistentvolumeclaims", "ns", "data"): {"spec": {"volumeName": "pv-1"}},
            ("persistentvolumeclaims", "ns", "web-v5"): {"spec": {"volumeName": "pv-2"}},
            ("persistentvolumes", "", "pv-1"): {"spec": {"claimRef": claim, "csi": csi}},
            # It does not know of the claim that names it.
            ("persistentvolumes", "", "pv-2"): {
                "spec": {"csi": {"nodeStageSecretRef": {"name": "s", "namespace": "ns"}}}
            },
            ("pods", "ns", "web"): POD,
            ("pods", "ns", "elsewhere"): {"metadata": {"name": "elsewhere"}, "spec": {"nodeName": "n2"}},
            ("volumeattachments", "", "mine"): {"spec": {"nodeName": "n1"}},
            ("volumeattachments", "", "other"): {"spec": {"nodeName": "n2"}},
            ("resourceslices", "", "mine"): {"spec": {"nodeName": "n1"}},
            ("resourceslices", "", "other"): {"spec": {"nodeName": "n2"}},
        }
        return known.get((resource, namespace, name))

    return on_node("n1", lookup)


def on_node(node: str, lookup: Lookup) -> NodeAuthorizer:
    graph = NodeGraph(lookup)
    graph.change_pod("ns/web", "", node)
    return NodeAuthorizer(node_rules, graph, lookup)


def ask(
    verb: str, resource: str, name: str = "", user: UserInfo = KUBELET, *, fields: str = "", **more: Any
) -> Attributes:
    if fields:
        more["fields"] = parse_field_selector(fields)
    return Attributes(user, verb, "/", resource=resource, name=name, **({"namespace": "ns"} | more))


@pytest.mark.parametrize("name", ["pull", "init", "env", "vol", "proj", "csi", "azure", "rbd"])
def test_secrets_of_its_pods(nodes: NodeAuthorizer, name: str) -> None:
    for verb in ("get", "list", "watch"):
        assert nodes.decide(ask(verb, "secrets", name)).allowed
    assert not nodes.decide(ask("get", "secrets", name, namespace="other")).allowed
    assert not nodes.decide(ask("update", "secrets", name)).allowed
    other = UserInfo("system:node:n2", groups=KUBELET.groups)
    decision = nodes.decide(ask("get", "secrets", name, other))
    assert decision.reason == "no relationship found between node 'n2' and this object"


@pytest.mark.parametrize("name", ["init-map", "env-map", "vol-map", "proj-map"])
def test_config_maps_of_its_pods(nodes: NodeAuthorizer, name: str) -> None:
    assert nodes.decide(ask("get", "configmaps", name)).allowed


@pytest.mark.parametrize(
    ("question", "allowed"),
    [
        (ask("list", "secrets"), False),
        (ask("get", "secrets", "x", namespace=""), False),
        (ask("get", "persistentvolumeclaims", "data"), True),
        (ask("get", "persistentvolumeclaims", "web-v5"), True),
        (ask("get", "persistentvolumeclaims", "other"), False),
        (ask("list", "persistentvolumeclaims"), False),
        (ask("patch", "persistentvolumeclaims", "data", subresource="status"), True),
        (ask("get", "persistentvolumes", "pv-1", namespace=""), True),
        (ask("get", "persistentvolumes", "pv-2", namespace=""), False),
        (ask("create", "serviceaccounts", "robot", subresource="token"), True),
        (ask("create", "serviceaccounts", "other", subresource="token"), False),
        (ask("get", "serviceaccounts", "robot"), True),
        (ask("delete", "serviceaccounts", "robot"), False),
        (ask("update", "leases", "n1", group="coordination.k8s.io", namespace="kube-node-lease"), True),
        (ask("update", "leases", "n2", group="coordination.k8s.io", namespace="kube-node-lease"), False),
        (ask("create", "leases", "", group="coordination.k8s.io", namespace="kube-node-lease"), True),
        (ask("list", "leases", "", group="coordination.k8s.io", namespace="kube-node-lease"), False),
        (ask("update", "leases", "n1", group="coordination.k8s.io", namespace="kube-system"), False),
        (ask("get", "csinodes", "n1", group="storage.k8s.io", namespace=""), True),
        (ask("get", "csinodes", "n2", group="storage.k8s.io", namespace=""), False),
        (ask("list", "pods"), False),
        (ask("list", "pods", fields="spec.nodeName=n1"), True),
        (ask("watch", "pods", fields="spec.nodeName=n2"), False),
        (ask("list", "nodes"), False),
        (ask("watch", "nodes", "n1"), True),
        (ask("get", "nodes", "n1", namespace=""), True),
        (ask("get", "nodes", "n2", namespace=""), False),
        (ask("get", "nodes", "n1", subresource="status", namespace=""), False),
        (ask("get", "pods", "web"), True),
        (ask("get", "pods", "elsewhere"), False),
        (ask("get", "pods", "web", namespace="other"), False),
        (ask("watch", "pods", "web"), True),
        (ask("list", "pods", "elsewhere"), False),
        (ask("get", "pods", "web", subresource="log"), False),
        (ask("create", "pods", "elsewhere", subresource="eviction"), True),
        (ask("update", "pods", "web"), False),
        (ask("get", "secrets", "stage", namespace="vault"), True),
        (ask("get", "secrets", "controller", namespace="vault"), False),
        (ask("get", "secrets", "s"), False),
        (ask("get", "volumeattachments", "mine", group="storage.k8s.io", namespace=""), True),
        (ask("get", "volumeattachments", "other", group="storage.k8s.io", namespace=""), False),
        (ask("list", "volumeattachments", group="storage.k8s.io", namespace=""), False),
        (ask("get", "resourceclaims", "gpu", group="resource.k8s.io"), True),
        (ask("get", "resourceclaims", "made", group="resource.k8s.io"), True),
        (ask("get", "resourceclaims", "none", group="resource.k8s.io"), False),
        (ask("delete", "resourceslices", "mine", group="resource.k8s.io", namespace=""), True),
        (ask("delete", "resourceslices", "other", group="resource.k8s.io", namespace=""), False),
        (ask("list", "resourceslices", group="resource.k8s.io", namespace=""), False),
        (ask("list", "resourceslices", group="resource.k8s.io", namespace="", fields="spec.nodeName=n1"), True),
        (ask("patch", "nodes", "n1", subresource="status", namespace=""), True),
        (ask("delete", "nodes", "n1", namespace=""), False),
        (ask("create", "events"), True),
        (ask("create", "deployments", group="apps"), False),
    ],
)
def test_decide(nodes: NodeAuthorizer, question: Attributes, allowed: bool) -> None:
    assert nodes.decide(question).allowed is allowed


@pytest.mark.parametrize(
    "user",
    [
        UserInfo("system:node:n1"),
        UserInfo("alice", groups=("system:nodes",)),
        UserInfo("system:node:", groups=("system:nodes",)),
    ],
)
def test_who_is_no_kubelet_gets_nothing_here(nodes: NodeAuthorizer, user: UserInfo) -> None:
    assert not nodes.decide(ask("get", "secrets", "env", user)).allowed
    assert not nodes.decide(ask("list", "pods", "", user)).allowed


def test_a_mirror_pod_gives_no_rights() -> None:
    mirror = {**POD, "metadata": {**POD["metadata"], "annotations": {"kubernetes.io/config.mirror": "x"}}}
    nodes = on_node("n1", lambda *key: mirror if key == ("pods", "ns", "web") else None)
    assert not nodes.decide(ask("get", "secrets", "env")).allowed
    assert not nodes.decide(ask("create", "serviceaccounts", "robot", subresource="token")).allowed
