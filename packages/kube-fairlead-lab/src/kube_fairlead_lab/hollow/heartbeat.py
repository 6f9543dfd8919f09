"""Heartbeats of hollow nodes: the Node object, its Lease and its status.

Upstream: k8s.io/component-helpers@v0.36.4/apimachinery/lease/controller.go,
    k8s.io/kubernetes@v1.36.4/pkg/kubelet/kubelet_node_status.go
"""

from __future__ import annotations

import asyncio
import dataclasses

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.coordination_v1 import Lease, LeaseSpec
from kube_fairlead.api.core_v1 import (
    DaemonEndpoint,
    Node,
    NodeAddress,
    NodeDaemonEndpoints,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
)
from kube_fairlead.api.meta import ObjectMeta, OwnerReference
from kube_fairlead.api.time import format_micro_time
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.base.reconcile import reconcile
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.client import patches
from kube_fairlead.client.client import Client
from kube_fairlead_lab.hollow import statuses
from kube_fairlead_lab.hollow.kubelet import Kubelet

__all__ = ["NODE_LEASES", "Heartbeat", "HeartbeatOptions"]

NODE_LEASES = "kube-node-lease"
_KUBELET_PORT = 10250
_WORKERS = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatOptions:
    """Heartbeat periods; the kubelet's defaults. Longer ones reduce the load of thousands of nodes."""

    lease_duration_seconds: int = 40
    renew_seconds: float = 10.0
    status_seconds: float = 300.0


class Heartbeat:
    """Registers kubelets and renews their Leases while they run."""

    def __init__(self, client: Client, options: HeartbeatOptions) -> None:
        self._client = client
        self._options = options
        self._queue: WorkQueue[str] = WorkQueue(client.clock, client.randomness)
        self._kubelets: dict[str, Kubelet] = {}
        self._reported: dict[str, tuple[float, str, str]] = {}  # time, boot id and readiness

    async def register(self, kubelet: Kubelet) -> None:
        """Create the Node and the Lease, or adopt existing ones."""
        nodes = self._client.of(Node)
        wanted = self._node(kubelet)
        try:
            node = await nodes.create(wanted)
        except api_errors.AlreadyExists:
            labels = patches.MergePatch({"metadata": {"labels": dict(kubelet.plan.labels)}})
            node = await nodes.patch(kubelet.name, labels)
            await self._report(kubelet)
        await self._create_lease(kubelet, node)
        self._kubelets[kubelet.name] = kubelet
        self._reported[kubelet.name] = self._now_reported(kubelet)
        # Spread the renewals of nodes that registered together.
        self._queue.add_after(kubelet.name, self._options.renew_seconds * self._client.randomness.uniform(0.5, 1.0))

    def changed(self, name: str) -> None:
        """A kubelet was started or stopped, or its status has changed."""
        if name in self._kubelets:
            self._queue.add(name)

    async def run(self, metrics: Metrics) -> None:
        """Send heartbeats until cancelled."""
        await reconcile(
            self._queue,
            self._beat,
            name="hollow-heartbeat",
            stopping=asyncio.Event(),
            clock=self._client.clock,
            metrics=metrics,
            workers=_WORKERS,
        )

    async def _beat(self, name: str) -> float | None:
        kubelet = self._kubelets[name]
        if not kubelet.is_running:
            # A restarted kubelet reports its status at once; `changed` queues it.
            self._reported[name] = (0.0, "", "")
            return None
        since, boot_id, not_ready = self._reported[name]
        due = self._client.clock.monotonic() - since >= self._options.status_seconds
        try:
            if due or (boot_id, not_ready) != (kubelet.boot_id, kubelet.not_ready):
                await self._report(kubelet)
                self._reported[name] = self._now_reported(kubelet)
            await self._renew(name)
        except api_errors.NotFound:
            # The Node was deleted. Like a real kubelet it does not register again, but keeps trying.
            return self._options.renew_seconds
        return self._options.renew_seconds

    def _now_reported(self, kubelet: Kubelet) -> tuple[float, str, str]:
        return self._client.clock.monotonic(), kubelet.boot_id, kubelet.not_ready

    async def _report(self, kubelet: Kubelet) -> None:
        nodes = self._client.of(Node)
        now = self._client.clock.now()
        node = await nodes.get(kubelet.name)
        conditions = statuses.node_conditions(node, now, not_ready=kubelet.not_ready)
        wanted = self._node(kubelet)
        status = wire.to_dict(wire.replace(wanted, status=wire.replace(wanted.status, conditions=conditions)))["status"]
        await nodes.patch(kubelet.name, patches.StrategicMergePatch({"status": status}), subresource="status")

    async def _create_lease(self, kubelet: Kubelet, node: Node) -> None:
        owner = OwnerReference(api_version="v1", kind="Node", name=node.name, uid=node.uid)
        now = self._client.clock.now()
        spec = LeaseSpec(
            holder_identity=kubelet.name, lease_duration_seconds=self._options.lease_duration_seconds, renew_time=now
        )
        metadata = ObjectMeta(name=kubelet.name, namespace=NODE_LEASES, owner_references=(owner,))
        try:
            await self._client.of(Lease).create(Lease(metadata=metadata, spec=spec))
        except api_errors.AlreadyExists:
            await self._renew(kubelet.name)

    async def _renew(self, name: str) -> None:
        patch = patches.MergePatch({"spec": {"renewTime": format_micro_time(self._client.clock.now())}})
        await self._client.of(Lease).patch(name, patch, namespace=NODE_LEASES)

    def _node(self, kubelet: Kubelet) -> Node:
        plan = kubelet.plan
        now = self._client.clock.now()
        info = NodeSystemInfo(
            machine_id=plan.name,
            system_uuid=plan.name,
            boot_id=kubelet.boot_id,
            kernel_version="hollow",
            os_image="hollow",
            container_runtime_version=statuses.CONTAINER_RUNTIME,
            kubelet_version=statuses.KUBELET_VERSION,
            operating_system="linux",
            architecture="amd64",
        )
        return Node(
            metadata=ObjectMeta(name=plan.name, labels=dict(plan.labels), annotations=dict(plan.annotations)),
            spec=NodeSpec(
                pod_cidr=plan.pod_cidr, pod_cidrs=(plan.pod_cidr,), provider_id=plan.provider_id, taints=plan.taints
            ),
            status=NodeStatus(
                capacity=dict(plan.capacity),
                allocatable=dict(plan.capacity),
                conditions=statuses.node_conditions(None, now, not_ready=kubelet.not_ready),
                addresses=(
                    NodeAddress(type="InternalIP", address=plan.address),
                    NodeAddress(type="Hostname", address=plan.name),
                ),
                daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=_KUBELET_PORT)),
                node_info=info,
            ),
        )
