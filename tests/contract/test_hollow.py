"""Hollow nodes on both control planes, and as kubelets beside the real controllers and scheduler."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.apps_v1 import DaemonSet, Deployment, StatefulSet
from kube_fairlead.api.core_v1 import Namespace, Node, Pod
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.client import Client, subresources
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead_lab.hollow import ANNOTATION_ENDS, HollowCluster, HollowOptions, plan_nodes
from kube_fairlead_lab.testing import ControlPlane, KubeControlPlane, KubeOptions, require_real
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.processes import ManagedProcess

SPACE = "shop"
PATIENCE_SECONDS = 60


async def until(client: Client, holds: Callable[[list[Pod]], bool], namespace: str = SPACE) -> list[Pod]:
    """Wait until the pods of the namespace are as they should be."""
    changed = asyncio.Event()
    informer = Informer(client.of(Pod), namespace=namespace)
    informer.add_handler(
        Handler(
            on_add=lambda _pod: changed.set(),
            on_update=lambda _old, _new: changed.set(),
            on_delete=lambda _pod: changed.set(),
        )
    )
    async with client.clock.timeout(PATIENCE_SECONDS), informer.running():
        await informer.wait_synced()
        while not holds(list(informer.store)):
            await changed.wait()
            changed.clear()
        return sorted(informer.store, key=lambda pod: pod.name)


def ready(count: int) -> Callable[[list[Pod]], bool]:
    def holds(pods: list[Pod]) -> bool:
        conditions = [pod.condition("Ready") for pod in pods]
        return len(pods) == count and all(one is not None and one.status == "True" for one in conditions)

    return holds


def workload(kind: str, name: str, **spec: object) -> dict[str, object]:
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels, "annotations": {ANNOTATION_ENDS: "1s"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


async def exercise(client: Client) -> None:
    """Three kinds of workload on three nodes: made, evicted, made again, gone with their owners."""
    await client.of(Namespace).create(Namespace(metadata=ObjectMeta(name=SPACE)))
    await client.of(Deployment).create(wire.from_dict(Deployment, workload("Deployment", "web", replicas=3)))
    database = workload("StatefulSet", "db", replicas=2, serviceName="db")
    await client.of(StatefulSet).create(wire.from_dict(StatefulSet, database))
    await client.of(DaemonSet).create(wire.from_dict(DaemonSet, workload("DaemonSet", "log")))
    before = await until(client, ready(8))
    assert {pod.spec.node_name for pod in before if pod.metadata.labels["app"] == "log"} == {
        "hollow-0",
        "hollow-1",
        "hollow-2",
    }
    evicted = {pod.uid for pod in before if pod.name == "db-0" or pod.metadata.labels["app"] == "web"}
    for pod in before:
        if pod.uid in evicted:
            await subresources.evict(client, pod.name, namespace=SPACE, uid=pod.uid)
    after = await until(client, lambda pods: ready(8)(pods) and not evicted & {pod.uid for pod in pods})
    assert "db-0" in [pod.name for pod in after]
    for kind, name in ((Deployment, "web"), (StatefulSet, "db"), (DaemonSet, "log")):
        await client.of(kind).delete(name, namespace=SPACE, propagation_policy="Background")
    await until(client, lambda pods: not pods)


async def test_workloads_live_and_end(isolated_control_plane: ControlPlane) -> None:
    async with (
        isolated_control_plane.client() as client,
        HollowCluster(client, plan_nodes(3)).running(),
    ):
        await exercise(client)


async def test_the_command(isolated_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> None:
    command = [sys.executable, "-m", "kube_fairlead.cli", "hollow", f"--kubeconfig={isolated_control_plane.kubeconfig}"]
    folder = tmp_path_factory.mktemp("hollow")
    hollow = ManagedProcess("hollow", [*command, "--nodes=4", "--pods-per-node=2"], folder=folder)
    hollow.start()
    try:
        async with isolated_control_plane.client() as client:
            pods = await until(client, ready(8), namespace="hollow")
            nodes = (await client.of(Node).list()).items
            per_node = [sum(pod.spec.node_name == node.name for pod in pods) for node in nodes]
            assert per_node == [2, 2, 2, 2]
    finally:
        await hollow.stop()


@pytest.fixture
def whole_kubernetes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    binaries = KubeBinaries.find()
    missing = binaries.missing("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    require_real("real Kubernetes", present=not missing, remedy="run: make kube")
    plane = KubeControlPlane(
        tmp_path_factory.mktemp("whole"), KubeOptions(controllers=("*",), scheduler=True), binaries=binaries
    )
    yield from watch_over(request.config, plane)


@pytest.mark.kube
async def test_only_kubelets_are_hollow_beside_the_real_controllers(whole_kubernetes: ControlPlane) -> None:
    async with (
        whole_kubernetes.client() as client,
        HollowCluster(client, plan_nodes(3), HollowOptions(only_kubelets=True)).running(),
    ):
        await exercise(client)
