from __future__ import annotations

import re
from typing import Any

import pytest

from kube_fairlead.api import errors
from kube_fairlead_apiserver.admission.builtin.node_restriction import forbidden_labels, node_of
from kube_fairlead_apiserver.admission.interface import Operation
from kube_fairlead_apiserver.attributes import UserInfo
from tests.unit.admission.plane import Plane, node, pod

Json = dict[str, Any]

KUBELET = UserInfo("system:node:a", groups=("system:nodes", "system:authenticated"))


@pytest.mark.parametrize(
    ("user", "name"),
    [
        (KUBELET, "a"),
        (UserInfo("system:node:a", groups=("system:authenticated",)), None),
        (UserInfo("jane", groups=("system:nodes",)), None),
        (UserInfo("system:node:", groups=("system:nodes",)), ""),
    ],
)
def test_who_is_a_node(user: UserInfo, name: str | None) -> None:
    assert node_of(user) == name


async def refused(plane: Plane, why: str, awaitable: Any) -> None:
    with pytest.raises(errors.Forbidden, match=re.escape(why)):
        await awaitable


async def test_a_kubelet_has_one_node(plane: Plane) -> None:
    await plane.create(node("a"), user=KUBELET)
    await plane.create(node("b"))
    await refused(plane, 'node "a" is not allowed to modify node "c"', plane.create(node("c"), user=KUBELET))

    def ready(obj: Json) -> None:
        obj["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}

    await plane.change("Node", "a", ready, subresource="status", user=KUBELET)
    await refused(
        plane,
        'nodes "b" is forbidden: node "a" is not allowed to modify node "b"',
        plane.change("Node", "b", ready, subresource="status", user=KUBELET),
    )
    await refused(plane, "is not allowed to modify node", plane.delete("Node", "b", user=KUBELET))
    await plane.delete("Node", "a", user=KUBELET)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda obj: obj["spec"].pop("taints"), 'node "a" is not allowed to modify taints'),
        (
            lambda obj: obj["metadata"].update(
                ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1"}]
            ),
            'node "a" is not allowed to modify ownerReferences',
        ),
        (
            lambda obj: obj["metadata"]["labels"].update({"node-restriction.kubernetes.io/zone": "secret", "x": "y"}),
            "is not allowed to modify labels: node-restriction.kubernetes.io/zone",
        ),
    ],
)
async def test_a_kubelet_cannot_make_its_node_more_attractive(plane: Plane, change: Any, why: str) -> None:
    await plane.create(node("a", **{"kubernetes.io/hostname": "a"}), user=KUBELET)
    await refused(plane, why, plane.change("Node", "a", change, user=KUBELET))
    await plane.change("Node", "a", change)


async def test_nor_register_with_labels_that_are_not_its_to_set(plane: Plane) -> None:
    labels = {"node-role.kubernetes.io/control-plane": "", "example.com/rack": "7"}
    await refused(
        plane,
        'node "a" is not allowed to set the following labels: node-role.kubernetes.io/control-plane',
        plane.create(node("a", **labels), user=KUBELET),
    )


@pytest.mark.parametrize(
    ("key", "forbidden"),
    [
        ("kubernetes.io/hostname", False),
        ("topology.kubernetes.io/zone", False),
        ("node.kubernetes.io/anything", False),
        ("sub.kubelet.kubernetes.io/anything", False),
        ("kubernetes.io/else", True),
        ("other.k8s.io/else", True),
        ("node-restriction.kubernetes.io/a", True),
        ("deep.node-restriction.kubernetes.io/a", True),
        ("example.com/a", False),
        ("plain", False),
    ],
)
def test_labels(key: str, forbidden: bool) -> None:
    assert bool(forbidden_labels({key: "1"}, {})) is forbidden
    assert bool(forbidden_labels({}, {key: "1"})) is forbidden
    assert forbidden_labels({key: "1"}, {key: "1"}) == []


async def test_pods_of_its_own_only(plane: Plane) -> None:
    await plane.create(pod("mine", nodeName="a"))
    await plane.create(pod("other", nodeName="b"))

    def running(obj: Json) -> None:
        obj["status"]["phase"] = "Running"

    status: Json = {"namespace": "work", "subresource": "status", "user": KUBELET}
    await plane.change("Pod", "mine", running, **status)
    await refused(
        plane,
        'node "a" can only update pod status for pods with spec.nodeName set to itself',
        plane.change("Pod", "other", running, **status),
    )
    await refused(
        plane,
        'node "a" cannot update labels through pod status',
        plane.change("Pod", "mine", lambda obj: obj["metadata"].update(labels={"x": "y"}), **status),
    )
    await refused(
        plane,
        'unexpected operation "UPDATE", node "a" can only create and delete mirror pods',
        plane.change("Pod", "mine", running, namespace="work", user=KUBELET),
    )
    await refused(
        plane,
        'node "a" can only delete pods with spec.nodeName set to itself',
        plane.delete("Pod", "other", namespace="work", user=KUBELET),
    )
    await plane.delete("Pod", "mine", namespace="work", user=KUBELET)


async def test_only_mirror_pods_are_created_by_a_kubelet(plane: Plane) -> None:
    uid = (await plane.create(node("a")))["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": uid, "controller": True}

    def mirror(**changes: Any) -> Json:
        obj = pod("static-a", **{"nodeName": "a", **changes.pop("spec", {})})
        obj["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
        obj["metadata"]["ownerReferences"] = [{**owner, **changes}]
        return obj

    plain = pod("static-a", nodeName="a")
    cases: list[tuple[Json, str]] = [
        (plain, "can only create mirror pods"),
        (mirror(uid="other"), "UID mismatch: expected other got"),
        (mirror(controller=False), "with a controller owner reference set to itself"),
        (mirror(name="b"), "with an owner reference set to itself"),
        (mirror(blockOwnerDeletion=True), "must not set blockOwnerDeletion"),
        (mirror(spec={"nodeName": "b"}), "can only create pods with spec.nodeName set to itself"),
        (
            mirror(spec={"volumes": [{"name": "v", "configMap": {"name": "c"}}]}),
            'node "a" can not create pods that reference configmaps',
        ),
        (
            mirror(spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}),
            "reference persistentvolumeclaims",
        ),
    ]
    for obj, why in cases:
        await refused(plane, why, plane.create(obj, user=KUBELET))
    await plane.create(mirror(), user=KUBELET)


def lease(name: str, namespace: str) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {},
    }


async def test_its_own_lease_only(plane: Plane) -> None:
    await plane.namespace("kube-node-lease")
    await plane.create(lease("a", "kube-node-lease"), user=KUBELET)
    await refused(
        plane,
        "can only access node lease with the same name as the requesting node",
        plane.create(lease("b", "kube-node-lease"), user=KUBELET),
    )
    await refused(
        plane,
        'can only access leases in the "kube-node-lease" system namespace',
        plane.create(lease("a", "work"), user=KUBELET),
    )


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ({}, "node requested token not bound to a pod"),
        ({"name": "mine"}, "node requested token with a pod binding without a uid"),
        ({"name": "mine", "uid": "x"}, "the UID in the bound object reference (x) does not match the UID in record."),
        ({"name": "other", "uid": "real"}, "node requested token bound to a pod scheduled on a different node"),
        ({"name": "mine", "uid": "real"}, ""),
    ],
)
async def test_tokens_for_its_own_pods_only(plane: Plane, reference: Json, why: str) -> None:
    uids = {
        name: (await plane.create(pod(name, nodeName=where)))["metadata"]["uid"]
        for name, where in (("mine", "a"), ("other", "b"))
    }
    if reference.get("uid") == "real":
        reference = {**reference, "uid": uids[reference["name"]]}
    bound = {"apiVersion": "v1", "kind": "Pod", **reference} if reference else None
    request = Operation(
        "CREATE",
        plane.resource("ServiceAccount"),
        KUBELET,
        "work",
        "default",
        {"spec": {"boundObjectRef": bound}},
        None,
        "token",
        kind=("authentication.k8s.io", "v1", "TokenRequest"),
    )
    if why:
        await refused(plane, why, plane.chain.admit(request))
    else:
        await plane.chain.admit(request)
