"""A kubelet and other nodes. tests/parity compares every verb on everything that is tied to nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest

from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import node, pod
from kube_fairlead_lab.testing.rawhttp import RawApi


@dataclass(frozen=True)
class Pair:
    """Two nodes with a pod each; the kubelet is that of the first."""

    kubelet: RawApi
    own: str
    other: str
    pods: str


@pytest.fixture
async def pair(
    control_plane: ControlPlane, api: RawApi, namespace: str, unique_name: Callable[[str], str]
) -> AsyncIterator[Pair]:
    own, other = unique_name("node"), unique_name("node")
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for name in (own, other):
        (await api.post("/api/v1/nodes", node(name))).expect(201)
        (await api.post(pods, pod(f"on-{name}", name))).expect(201)
    async with RawApi(control_plane.access(f"system:node:{own}", ["system:nodes"])) as kubelet:
        # kube-apiserver learns of the pod a moment later.
        await kubelet.poll(f"{pods}/on-{own}", lambda answer: answer.code == 200)
        yield Pair(kubelet, own, other, pods)
    for name in (own, other):
        (await api.delete(f"{pods}/on-{name}", gracePeriodSeconds=0)).expect(200, 404)
        (await api.delete(f"/api/v1/nodes/{name}")).expect(200)


async def test_a_kubelet_reads_its_own_node(pair: Pair) -> None:
    nodes = "/api/v1/nodes"
    (await pair.kubelet.get(f"{nodes}/{pair.own}")).expect(200)
    listed = (await pair.kubelet.get(nodes, fieldSelector=f"metadata.name={pair.own}")).expect(200)
    assert [found["metadata"]["name"] for found in listed["items"]] == [pair.own]
    status = (await pair.kubelet.get(f"{nodes}/{pair.other}")).expect(403)
    assert status["message"].endswith(f": node '{pair.own}' cannot read '{pair.other}', only its own Node object")
    status = (await pair.kubelet.get(nodes)).expect(403)
    assert status["message"].endswith(f": node '{pair.own}' cannot read all nodes, only its own Node object")
    (await pair.kubelet.get(nodes, fieldSelector=f"metadata.name={pair.other}")).expect(403)
    (await pair.kubelet.get(f"/api/v1/watch/nodes/{pair.other}")).expect(403)


async def test_a_kubelet_reads_the_pods_on_its_node(pair: Pair) -> None:
    status = (await pair.kubelet.get(f"{pair.pods}/on-{pair.other}")).expect(403)
    assert status["message"].endswith(f": no relationship found between node '{pair.own}' and this object")
    status = (await pair.kubelet.get("/api/v1/pods")).expect(403)
    assert status["message"].endswith(": can only list/watch pods with spec.nodeName field selector")
    for selector in (f"spec.nodeName={pair.other}", f"spec.nodeName!={pair.other}", f"metadata.name=on-{pair.other}"):
        (await pair.kubelet.get(pair.pods, fieldSelector=selector)).expect(403)
        (await pair.kubelet.get(pair.pods, fieldSelector=selector, watch="true")).expect(403)
    listed = (await pair.kubelet.get("/api/v1/pods", fieldSelector=f"spec.nodeName={pair.own}")).expect(200)
    assert [found["metadata"]["name"] for found in listed["items"]] == [f"on-{pair.own}"]
