from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_apiserver.security.node_graph import NodeGraph
from kube_fairlead_apiserver.security.node_references import Reference

Json = dict[str, Any]


class Cluster:
    """Objects by resource, namespace and name, and a count of the pods that were read."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.pods_read = 0
        self.graph = NodeGraph(self.lookup)

    def lookup(self, resource: str, namespace: str, name: str) -> Json | None:
        self.pods_read += resource == "pods"
        return self.objects.get((resource, namespace, name))

    def put_pod(self, name: str, node: str, **spec: Any) -> None:
        before = self._node_of(name)
        self.objects["pods", "ns", name] = {
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"nodeName": node, **spec},
        }
        self.graph.change_pod(f"ns/{name}", before, node)

    def delete_pod(self, name: str) -> None:
        before = self._node_of(name)
        del self.objects["pods", "ns", name]
        self.graph.change_pod(f"ns/{name}", before, "")

    def put_claim(self, name: str, volume: str) -> None:
        self.objects["persistentvolumeclaims", "ns", name] = {"spec": {"volumeName": volume}}
        self.graph.change_claim("ns", name)

    def put_volume(self, name: str, claim: str, secret: str) -> None:
        stage = {"namespace": "vault", "name": secret}
        self.objects["persistentvolumes", "", name] = {
            "spec": {"claimRef": {"namespace": "ns", "name": claim}, "csi": {"nodeStageSecretRef": stage}}
        }
        self.graph.change_claim("ns", claim)

    def reads(self, node: str, resource: str, name: str, namespace: str = "ns") -> bool:
        return self.graph.leads_to(node, Reference(resource, namespace, name))

    def _node_of(self, name: str) -> str:
        pod = self.objects.get(("pods", "ns", name))
        return "" if pod is None else pod["spec"]["nodeName"]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def pull(secret: str) -> list[Json]:
    return [{"name": secret}]


def claims(*names: str) -> list[Json]:
    return [{"name": f"v{name}", "persistentVolumeClaim": {"claimName": name}} for name in names]


def test_a_question_reads_only_pods_that_changed(cluster: Cluster) -> None:
    for number in range(500):
        cluster.put_pod(f"p{number}", "n1", imagePullSecrets=pull("s"))
    assert cluster.reads("n1", "secrets", "s")
    cluster.pods_read = 0
    for _ in range(20):
        assert not cluster.reads("n1", "secrets", "other")
    assert cluster.pods_read == 0
    cluster.put_pod("p7", "n1", imagePullSecrets=pull("other"))
    assert cluster.reads("n1", "secrets", "other")
    assert cluster.pods_read == 1


def test_changes_do_not_pile_up_for_the_next_question(cluster: Cluster) -> None:
    cluster.put_pod("first", "n1")
    cluster.reads("n1", "secrets", "s")
    for number in range(1000):
        cluster.put_pod(f"p{number}", "n1")
    cluster.pods_read = 0
    cluster.reads("n1", "secrets", "s")
    assert cluster.pods_read < 100


def test_a_node_that_never_asks_costs_no_reading(cluster: Cluster) -> None:
    for number in range(200):
        cluster.put_pod(f"p{number}", "n1")
    assert not cluster.reads("n2", "secrets", "s")
    assert cluster.pods_read == 0


def test_a_reference_lasts_as_long_as_the_last_pod_that_has_it(cluster: Cluster) -> None:
    cluster.put_pod("a", "n1", imagePullSecrets=pull("s") * 2)
    cluster.put_pod("b", "n1", imagePullSecrets=pull("s"))
    assert cluster.reads("n1", "secrets", "s")
    cluster.delete_pod("a")
    assert cluster.reads("n1", "secrets", "s")
    cluster.put_pod("b", "n1")
    assert not cluster.reads("n1", "secrets", "s")
    cluster.delete_pod("b")
    cluster.put_pod("b", "n1", imagePullSecrets=pull("s"))
    assert cluster.reads("n1", "secrets", "s")
    cluster.delete_pod("b")
    assert not cluster.reads("n1", "secrets", "s")


def test_a_pod_that_is_bound_later_counts_from_then_on(cluster: Cluster) -> None:
    cluster.put_pod("first", "n1")
    cluster.put_pod("a", "", imagePullSecrets=pull("s"))
    assert not cluster.reads("n1", "secrets", "s")
    cluster.put_pod("a", "n1", imagePullSecrets=pull("s"))
    assert cluster.reads("n1", "secrets", "s")
    assert not cluster.reads("n2", "secrets", "s")


def test_secrets_behind_a_claim_follow_the_claim_and_the_volume(cluster: Cluster) -> None:
    cluster.put_pod("a", "n1", volumes=claims("data"))
    assert cluster.reads("n1", "persistentvolumeclaims", "data")
    assert not cluster.reads("n1", "secrets", "stage", "vault")
    cluster.put_claim("data", "pv")
    assert not cluster.reads("n1", "secrets", "stage", "vault")  # the volume does not name the claim yet
    cluster.put_volume("pv", "data", "stage")
    assert cluster.reads("n1", "secrets", "stage", "vault")
    cluster.put_volume("pv", "data", "rotated")
    assert cluster.reads("n1", "secrets", "rotated", "vault")
    assert not cluster.reads("n1", "secrets", "stage", "vault")
    cluster.put_pod("b", "n1", volumes=claims("data"))
    cluster.delete_pod("a")
    assert cluster.reads("n1", "secrets", "rotated", "vault")
    cluster.put_claim("data", "another")
    assert not cluster.reads("n1", "secrets", "rotated", "vault")


def test_a_claim_that_returns_between_two_questions_is_followed_again(cluster: Cluster) -> None:
    cluster.put_claim("data", "pv")
    cluster.put_volume("pv", "data", "stage")
    cluster.put_pod("other", "n1")
    cluster.put_pod("a", "n1", volumes=claims("data"))
    assert cluster.reads("n1", "secrets", "stage", "vault")
    cluster.delete_pod("a")
    cluster.put_pod("b", "n1", volumes=claims("data"))
    assert cluster.reads("n1", "secrets", "stage", "vault")
    cluster.put_volume("pv", "data", "rotated")
    assert cluster.reads("n1", "secrets", "rotated", "vault")
    assert not cluster.reads("n1", "secrets", "stage", "vault")
