"""A hollow cluster on the embedded API server, on virtual time."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.apps_v1 import DaemonSet, Deployment, StatefulSet
from kube_fairlead.api.coordination_v1 import Lease
from kube_fairlead.api.core_v1 import Namespace, Node, Pod, Service
from kube_fairlead.api.discovery_v1 import EndpointSlice
from kube_fairlead.api.meta import KubeObject, ObjectMeta
from kube_fairlead.api.policy_v1 import PodDisruptionBudget
from kube_fairlead.base import tasks
from kube_fairlead.client import patches, subresources
from kube_fairlead_lab.hollow import ANNOTATION_READY, HollowCluster, HollowOptions, plan_nodes
from tests.unit.election.world import World

_O = TypeVar("_O", bound=KubeObject)

SPACE = "shop"
LABELS = {"app": "web"}


@contextlib.asynccontextmanager
async def hollow(world: World, nodes: int = 3, **options: Any) -> AsyncIterator[HollowCluster]:
    await world.admin.of(Namespace).create(Namespace(metadata=ObjectMeta(name=SPACE)))
    cluster = HollowCluster(world.client("hollow"), plan_nodes(nodes), HollowOptions(**options))
    # Virtual time moves only here, so nodes register while it moves.
    async with tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        moving = scope.start(world.clock.advance(2), name="clock")
        async with cluster.running():
            await moving
            yield cluster


def workload(
    kind: str, *, replicas: int | None = 2, annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    template = {
        "metadata": {"labels": LABELS, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    }
    sized = {} if replicas is None else {"replicas": replicas}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": SPACE},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template, **sized, **spec},
    }


def made(kind: type[_O], api_version: str, **fields: Any) -> _O:
    metadata = {"name": "web", "namespace": SPACE}
    return wire.from_dict(kind, {"apiVersion": api_version, "kind": kind.__name__, "metadata": metadata, **fields})


async def pods(world: World) -> list[Pod]:
    found = await world.admin.of(Pod).list(namespace=SPACE)
    return sorted(found.items, key=lambda pod: pod.name)


def ready(pod: Pod) -> bool:
    condition = pod.condition("Ready")
    return condition is not None and condition.status == "True"


async def bare_pod(world: World, name: str = "bare", *, grace: int = 30, **annotations: str) -> Pod:
    tree = {
        "metadata": {
            "name": name,
            "namespace": SPACE,
            "annotations": {f"hollow.fairlead.dev/{key}": value for key, value in annotations.items()},
        },
        "spec": {"terminationGracePeriodSeconds": grace, "containers": [{"name": "c", "image": "i"}]},
    }
    return await world.admin.of(Pod).create(wire.from_dict(Pod, {"apiVersion": "v1", "kind": "Pod", **tree}))


async def get(world: World, name: str) -> Pod | None:
    try:
        return await world.admin.of(Pod).get(name, namespace=SPACE)
    except api_errors.NotFound:
        return None


async def test_nodes_register_with_zones_clouds_and_heartbeats(world: World) -> None:
    async with hollow(world, 6):
        nodes = (await world.admin.of(Node).list()).items
        assert {node.metadata.labels["topology.kubernetes.io/zone"] for node in nodes} == {
            f"{cloud}-1{zone}" for cloud in ("aws", "hcloud") for zone in "abc"
        }
        assert {node.spec.provider_id.partition("://")[0] for node in nodes} == {"aws", "hcloud"}
        assert all(node.spec.taints == () for node in nodes)
        before = await world.admin.of(Lease).get("hollow-0", namespace="kube-node-lease")
        await world.clock.advance(11)
        after = await world.admin.of(Lease).get("hollow-0", namespace="kube-node-lease")
        assert before.spec.renew_time is not None
        assert after.spec.renew_time is not None
        assert after.spec.renew_time > before.spec.renew_time


async def test_a_deployment_runs_spread_over_nodes_with_a_budget_and_endpoints(world: World) -> None:
    async with hollow(world):
        admin = world.admin
        await admin.of(Deployment).create(wire.from_dict(Deployment, workload("Deployment", replicas=3)))
        budget = made(PodDisruptionBudget, "policy/v1", spec={"minAvailable": 2, "selector": {"matchLabels": LABELS}})
        await admin.of(PodDisruptionBudget).create(budget)
        ports = [{"port": 80, "targetPort": 8080}]
        await admin.of(Service).create(made(Service, "v1", spec={"selector": LABELS, "ports": ports}))
        await world.clock.advance(2)
        running = await pods(world)
        assert [pod.status.phase for pod in running] == ["Running"] * 3
        assert {pod.spec.node_name for pod in running} == {"hollow-0", "hollow-1", "hollow-2"}
        assert len({pod.status.pod_ip for pod in running}) == 3
        assert (await admin.of(Deployment).get("web", namespace=SPACE)).status.available_replicas == 3
        assert (await admin.of(PodDisruptionBudget).get("web", namespace=SPACE)).status.disruptions_allowed == 1
        [endpoints] = (await admin.of(EndpointSlice).list(namespace=SPACE)).items
        assert [one.conditions.ready for one in endpoints.endpoints] == [True] * 3

        await subresources.evict(admin, running[0].name, namespace=SPACE, uid=running[0].uid)
        await world.clock.advance(2)
        replaced = await pods(world)
        assert running[0].name not in [pod.name for pod in replaced]
        assert [ready(pod) for pod in replaced] == [True] * 3


async def test_a_changed_template_rolls_out_within_its_limits(world: World) -> None:
    async with hollow(world):
        admin = world.admin
        await admin.of(Deployment).create(wire.from_dict(Deployment, workload("Deployment", replicas=4)))
        await world.clock.advance(2)
        change = {"spec": {"template": {"metadata": {"annotations": {ANNOTATION_READY: "3s"}, "labels": LABELS}}}}
        await admin.of(Deployment).patch("web", patches.MergePatch(change), namespace=SPACE)
        for _ in range(60):
            await world.clock.advance(0.5)
            assert sum(map(ready, await pods(world))) >= 3
        now = await pods(world)
        assert [pod.metadata.annotations[ANNOTATION_READY] for pod in now] == ["3s"] * 4


@pytest.mark.parametrize(
    ("ends", "gone_after", "phase"),
    [("at-once", 0.5, ""), ("7s", 8, ""), ("killed", 21, ""), ("never", None, "Running")],
)
async def test_pods_terminate_as_their_annotation_says(
    world: World, ends: str, gone_after: float | None, phase: str
) -> None:
    async with hollow(world):
        await bare_pod(world, grace=20, ends=ends)
        await world.clock.advance(1)
        await world.admin.of(Pod).delete("bare", namespace=SPACE)
        await world.clock.advance(0.1 if gone_after is None or gone_after < 1 else gone_after - 2)
        if ends != "at-once":
            assert await get(world, "bare") is not None
        await world.clock.advance(600 if gone_after is None else 2)
        left = await get(world, "bare")
        assert (left.status.phase if left else "") == phase


async def test_a_shorter_grace_counts_and_force_removes_at_once(world: World) -> None:
    async with hollow(world):
        await bare_pod(world, "slow", ends="killed", grace=3600)
        await bare_pod(world, "stuck", ends="never", grace=3600)
        await world.clock.advance(1)
        for name in ("slow", "stuck"):
            await world.admin.of(Pod).delete(name, namespace=SPACE)
        await world.clock.advance(10)
        await world.admin.of(Pod).delete("slow", namespace=SPACE, grace_period_seconds=15)
        await world.clock.advance(4)
        assert await get(world, "slow") is not None
        await world.clock.advance(13)
        assert await get(world, "slow") is None
        await world.admin.of(Pod).delete("stuck", namespace=SPACE, grace_period_seconds=0)
        assert await get(world, "stuck") is None


async def test_readiness_follows_the_annotation(world: World) -> None:
    async with hollow(world):
        await bare_pod(world, ready="5s")
        await world.clock.advance(4)
        pod = await get(world, "bare")
        assert pod is not None
        assert pod.status.phase == "Running"
        assert not ready(pod)
        await world.clock.advance(2)
        pod = await get(world, "bare")
        assert pod is not None
        assert ready(pod)
        off = patches.MergePatch({"metadata": {"annotations": {ANNOTATION_READY: "false"}}})
        await world.admin.of(Pod).patch("bare", off, namespace=SPACE)
        await world.clock.advance(1)
        pod = await get(world, "bare")
        assert pod is not None
        assert not ready(pod)


async def test_a_stateful_set_is_created_in_order_and_keeps_names(world: World) -> None:
    async with hollow(world):
        slow = workload("StatefulSet", replicas=3, annotations={ANNOTATION_READY: "10s"}, serviceName="web")
        await world.admin.of(StatefulSet).create(wire.from_dict(StatefulSet, slow))
        await world.clock.advance(5)
        assert [pod.name for pod in await pods(world)] == ["web-0"]
        await world.clock.advance(40)
        first = await pods(world)
        assert [pod.name for pod in first] == ["web-0", "web-1", "web-2"]
        await world.admin.of(Pod).delete("web-1", namespace=SPACE)
        await world.clock.advance(20)
        again = await pods(world)
        assert [pod.name for pod in again] == ["web-0", "web-1", "web-2"]
        assert again[1].uid != first[1].uid
        await subresources.set_scale(world.admin, world.admin.of(StatefulSet).resource.gvr, "web", 1, namespace=SPACE)
        await world.clock.advance(5)
        assert [pod.name for pod in await pods(world)] == ["web-0"]


async def test_daemons_run_on_every_node_even_a_cordoned_one(world: World) -> None:
    async with hollow(world):
        admin = world.admin
        cordon = patches.MergePatch({"spec": {"unschedulable": True}})
        await admin.of(Node).patch("hollow-1", cordon)
        await admin.of(DaemonSet).create(wire.from_dict(DaemonSet, workload("DaemonSet", replicas=None)))
        await world.clock.advance(2)
        assert {pod.spec.node_name for pod in await pods(world)} == {"hollow-0", "hollow-1", "hollow-2"}
        node = await admin.of(Node).get("hollow-1")
        assert [taint.key for taint in node.spec.taints] == ["node.kubernetes.io/unschedulable"]
        await admin.of(Node).delete("hollow-2")
        await world.clock.advance(2)
        status = (await admin.of(DaemonSet).get("web", namespace=SPACE)).status
        assert (status.desired_number_scheduled, status.number_ready) == (2, 2)


async def test_an_unschedulable_pod_has_the_reason_and_is_bound_when_it_fits(world: World) -> None:
    async with hollow(world):
        nodes = world.admin.of(Node)
        cordon, uncordon = (patches.MergePatch({"spec": {"unschedulable": value}}) for value in (True, None))
        for number in range(3):
            await nodes.patch(f"hollow-{number}", cordon)
        await bare_pod(world)
        await world.clock.advance(1)
        pod = await get(world, "bare")
        assert pod is not None
        condition = pod.condition("PodScheduled")
        assert condition is not None
        assert condition.message == "0/3 nodes are available: 3 node(s) were unschedulable."
        await nodes.patch("hollow-1", uncordon)
        await world.clock.advance(1)
        pod = await get(world, "bare")
        assert pod is not None
        assert (pod.spec.node_name, pod.status.phase) == ("hollow-1", "Running")


async def test_a_stopped_kubelet_leaves_its_pods_and_its_node_becomes_unknown(world: World) -> None:
    async with hollow(world) as cluster:
        await bare_pod(world)
        await world.clock.advance(1)
        pod = await get(world, "bare")
        assert pod is not None
        name = pod.spec.node_name
        kubelet = cluster.kubelet(name)
        kubelet.stop()
        await world.clock.advance(70)
        node = await world.admin.of(Node).get(name)
        condition = node.condition("Ready")
        assert condition is not None
        assert condition.status == "Unknown"
        assert {taint.key for taint in node.spec.taints} == {"node.kubernetes.io/unreachable"}
        # The default tolerations of a pod give it five minutes; then it is deleted, but no kubelet stops it.
        await world.clock.advance(320)
        pod = await get(world, "bare")
        assert pod is not None
        assert pod.deleting
        # Another component can stop the containers.
        assert [sandbox.pod.name for sandbox in kubelet.runtime] == ["bare"]
        kubelet.runtime.stop(pod.uid, 10, world.clock.now())
        kubelet.start()
        await world.clock.advance(15)
        assert await get(world, "bare") is None
        node = await world.admin.of(Node).get(name)
        assert node.spec.taints == ()


async def test_a_reboot_changes_the_boot_id_and_restarts_pods(world: World) -> None:
    async with hollow(world) as cluster:
        await bare_pod(world)
        await world.clock.advance(1)
        pod = await get(world, "bare")
        assert pod is not None
        before = (await world.admin.of(Node).get(pod.spec.node_name)).status.node_info.boot_id
        cluster.fleet.reboot(pod.spec.node_name)
        await world.clock.advance(1)
        after = (await world.admin.of(Node).get(pod.spec.node_name)).status.node_info.boot_id
        assert before != after
        pod = await get(world, "bare")
        assert pod is not None
        assert [status.restart_count for status in pod.status.container_statuses] == [1]


async def test_kubelets_may_watch_on_their_own(world: World) -> None:
    async with hollow(world, own_watches=True):
        await bare_pod(world)
        await world.clock.advance(1)
        pod = await get(world, "bare")
        assert pod is not None
        assert ready(pod)
        await world.admin.of(Pod).delete("bare", namespace=SPACE)
        await world.clock.advance(1)
        assert await get(world, "bare") is None
