"""The real controllers and scheduler beside the embedded server's own: two hands at the same work, and live nodes.

`test_controllers` shows that the real ones alone do everything. Here the embedded server keeps its own controllers,
as whoever starts it without further flags has it, and nodes send heartbeats as kubelets do.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from kube_fairlead.base.clock import RealClock
from kube_fairlead_lab.testing import ControlPlane, EmbeddedControlPlane, EmbeddedOptions, require_real
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.rawhttp import RawApi, RawWatch

pytestmark = [pytest.mark.kube, pytest.mark.xdist_group("kube-controllers")]

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
HEARTBEAT_SECONDS = 1
# A node is lost after four missed heartbeats, and its pods are evicted at once.
WATCHFUL = ["--node-monitor-period=1s", "--node-monitor-grace-period=4s", "--node-startup-grace-period=4s"]
WATCHFUL += ["--leader-elect=true", "--node-eviction-rate=10", "--secondary-node-eviction-rate=10"]

Json = dict[str, Any]


@pytest.fixture(scope="module")
def control_plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    missing = KubeBinaries.find().missing("kube-controller-manager", "kube-scheduler")
    require_real("real Kubernetes", present=not missing, remedy="run: make kube")
    options = EmbeddedOptions(
        flags=["--controllers=*"],
        kube_controllers=["*"],
        kube_controller_manager_flags=WATCHFUL,
        kube_scheduler=True,
    )
    yield from watch_over(request.config, EmbeddedControlPlane(tmp_path_factory.mktemp("beside"), options))


class Node:
    """As much of a kubelet as the control plane sees: a Node, its Lease, its pods."""

    def __init__(self, api: RawApi, name: str) -> None:
        self.name = name
        self._api = api
        self._clock = RealClock()
        self._tasks: list[asyncio.Task[None]] = []

    async def register(self) -> None:
        (await self._api.post("/api/v1/nodes", {"metadata": {"name": self.name}})).expect(201)
        room = {"cpu": "8", "memory": "16Gi", "pods": "50"}
        status = {"capacity": room, "allocatable": room, "conditions": [self._ready()]}
        (await self._api.patch(f"/api/v1/nodes/{self.name}/status", {"status": status})).expect(200)
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": 40, "renewTime": self._now()}
        (await self._api.post(LEASES, {"metadata": {"name": self.name}, "spec": spec})).expect(201)
        self._tasks = [
            asyncio.create_task(self._beat(), name=f"{self.name}-heartbeat"),
            asyncio.create_task(self._run_pods(), name=f"{self.name}-pods"),
        ]

    async def stop(self) -> None:
        """Fall silent, as a machine without power."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks = []

    async def _beat(self) -> None:
        while True:
            await self._clock.sleep(HEARTBEAT_SECONDS)
            (await self._api.patch(f"{LEASES}/{self.name}", {"spec": {"renewTime": self._now()}})).expect(200)

    async def _run_pods(self) -> None:
        async with self._api.watch("/api/v1/pods", fieldSelector=f"spec.nodeName={self.name}") as watch:
            while True:
                event = await watch.next()
                if event["type"] in {"ADDED", "MODIFIED"}:
                    await self._look_after(event["object"])

    async def _look_after(self, pod: Json) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        if "deletionTimestamp" in metadata:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
            (await self._api.delete(path, options)).expect(200, 404, 409)
        elif pod["status"]["phase"] == "Pending":
            ready = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
            once = pod["spec"]["restartPolicy"] == "Never"
            status = {"phase": "Succeeded"} if once else {"phase": "Running", "conditions": ready}
            (await self._api.patch(f"{path}/status", {"status": status})).expect(200, 404)

    def _ready(self) -> Json:
        return {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": self._now()[:19] + "Z",
        }

    def _now(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@pytest.fixture
async def register(control_plane: ControlPlane, unique_name: Callable[[str], str]) -> AsyncIterator[Callable[[], Any]]:
    """Register nodes that live until they are stopped, at the latest with the test."""
    made: list[Node] = []
    async with RawApi(control_plane.access(), timeout_seconds=120) as api:

        async def register() -> Node:
            node = Node(api, unique_name("node"))
            made.append(node)
            await node.register()
            return node

        yield register
        for node in made:
            await node.stop()
            (await api.delete(f"/api/v1/nodes/{node.name}")).expect(200, 404)


def deployment(replicas: int) -> Json:
    # What a pod tolerates by default is five minutes of a lost node.
    lost = [
        {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
        for state in ("unreachable", "not-ready")
    ]
    spec = {"containers": [{"name": "main", "image": "a:1"}], "tolerations": lost}
    template = {"metadata": {"labels": {"app": "d"}}, "spec": spec}
    selector = {"matchLabels": {"app": "d"}}
    return {"metadata": {"name": "d"}, "spec": {"replicas": replicas, "selector": selector, "template": template}}


async def available(api: RawApi, namespace: str, replicas: int) -> None:
    """Wait until the deployment has this many pods, all of them available and none besides."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"

    def wanted(event: Json) -> bool:
        status = event["object"].get("status", {})
        return bool(status.get("availableReplicas") == status.get("replicas") == replicas)

    async with api.watch(path) as watch:
        await watch.until(wanted)


async def running_on(api: RawApi, namespace: str, node: Node, count: int) -> None:
    """Wait until this many pods of the namespace run on a node."""
    running: set[str] = set()
    async with api.watch(f"/api/v1/namespaces/{namespace}/pods", fieldSelector=f"spec.nodeName={node.name}") as watch:
        while len(running) < count:
            event = await watch.next()
            pod = event["object"]
            if event["type"] != "DELETED" and pod["status"]["phase"] == "Running":
                running.add(pod["metadata"]["name"])
            else:
                running.discard(pod["metadata"]["name"])


async def names_of(api: RawApi, collection: str, **params: str) -> set[str]:
    return {made["metadata"]["name"] for made in (await api.get(collection, **params)).expect(200)["items"]}


async def came_to_an_end(watch: RawWatch, names: set[str]) -> None:
    """Wait until all of these have been deleted."""
    left = set(names)
    while left:
        event = await watch.until(lambda event: event["type"] == "DELETED")
        left.discard(event["object"]["metadata"]["name"])


async def test_a_drained_nodes_pods_are_replaced_elsewhere(api: RawApi, namespace: str, register: Any) -> None:
    first, second = await register(), await register()
    pods = f"/api/v1/namespaces/{namespace}/pods"
    (await api.post(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment(4))).expect(201)
    await available(api, namespace, 4)
    (await api.patch(f"/api/v1/nodes/{first.name}", {"spec": {"unschedulable": True}})).expect(200)
    here = await names_of(api, pods, fieldSelector=f"spec.nodeName={first.name}")
    assert here, "the scheduler spreads pods over nodes"
    async with api.watch(pods, fieldSelector=f"spec.nodeName={first.name}") as watch:
        for name in here:
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            (await api.post(f"{pods}/{name}/eviction", eviction)).expect(201)
        await came_to_an_end(watch, here)
    await running_on(api, namespace, second, 4)
    assert len(await names_of(api, pods)) == 4


async def test_a_lost_nodes_pods_are_replaced_elsewhere(api: RawApi, namespace: str, register: Any) -> None:
    first, second = await register(), await register()
    (await api.patch(f"/api/v1/nodes/{second.name}", {"spec": {"unschedulable": True}})).expect(200)
    (await api.post(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment(2))).expect(201)
    await running_on(api, namespace, first, 2)
    (await api.patch(f"/api/v1/nodes/{second.name}", {"spec": {"unschedulable": None}})).expect(200)
    async with api.watch("/api/v1/nodes", fieldSelector=f"metadata.name={first.name}") as nodes:
        await first.stop()
        lost = await nodes.until(lambda event: _condition(event["object"]).get("status") == "Unknown")
        await nodes.until(lambda event: "node.kubernetes.io/unreachable" in _taints(event["object"]))
    assert _condition(lost["object"])["reason"] == "NodeStatusUnknown"
    await running_on(api, namespace, second, 2)


def _condition(node: Json) -> Json:
    return next((entry for entry in node["status"]["conditions"] if entry["type"] == "Ready"), {})


def _taints(node: Json) -> set[str]:
    return {taint["key"] for taint in node["spec"].get("taints", [])}


async def test_a_job_completes_once(api: RawApi, namespace: str, register: Any) -> None:
    await register()
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a:1"}]}}
    spec = {"completions": 3, "parallelism": 2, "template": template}
    async with api.watch(path) as watch:
        (await api.post(path, {"metadata": {"name": "j"}, "spec": spec})).expect(201)
        done = await watch.until(lambda event: "completionTime" in event["object"].get("status", {}))
    assert done["object"]["status"]["succeeded"] == 3


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_a_deployment_takes_its_own_with_it(api: RawApi, namespace: str, register: Any, policy: str) -> None:
    await register()
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    pods = f"/api/v1/namespaces/{namespace}/pods"
    (await api.post(deployments, deployment(2))).expect(201)
    await available(api, namespace, 2)
    own_sets, own_pods = await names_of(api, sets), await names_of(api, pods)
    assert (len(own_sets), len(own_pods)) == (1, 2)
    async with api.watch(deployments) as top, api.watch(sets) as middle, api.watch(pods) as bottom:
        (await api.delete(f"{deployments}/d", {"propagationPolicy": policy})).expect(200)
        if policy == "Foreground":
            # The owner goes last: when it is gone, so is everything below.
            await came_to_an_end(top, {"d"})
            assert await names_of(api, sets) | await names_of(api, pods) == set()
        await came_to_an_end(bottom, own_pods)
        await came_to_an_end(middle, own_sets)


async def test_a_namespace_takes_its_workload_with_it(
    api: RawApi, register: Any, unique_name: Callable[[str], str]
) -> None:
    await register()
    name = unique_name("space")
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).expect(201)
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    async with api.watch(accounts, fieldSelector="metadata.name=default") as watch:
        await watch.next()
    (await api.post(f"/apis/apps/v1/namespaces/{name}/deployments", deployment(2))).expect(201)
    await available(api, name, 2)
    async with api.watch("/api/v1/namespaces", fieldSelector=f"metadata.name={name}") as watch:
        (await api.delete(f"/api/v1/namespaces/{name}")).expect(200)
        await came_to_an_end(watch, {name})
    assert await names_of(api, f"/api/v1/namespaces/{name}/pods") == set()


async def test_the_manager_leads_by_its_lease(api: RawApi) -> None:
    lease = (
        await api.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager")
    ).expect(200)
    assert lease["spec"]["holderIdentity"]
