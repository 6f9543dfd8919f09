"""EndpointSlices: the pods of a service, and whether they accept traffic.

Upstream: k8s.io/kubernetes@v1.36.4/pkg/controller/endpointslice/endpointslice_controller.go,
    k8s.io/endpointslice@v0.36.4/reconciler.go,
    k8s.io/endpointslice@v0.36.4/utils.go
"""

from __future__ import annotations

from typing import Any

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Pod, Service, ServicePort
from kube_fairlead.api.discovery_v1 import EndpointSlice
from kube_fairlead.base.workqueue import WorkQueue
from kube_fairlead.client.informer import Handler
from kube_fairlead.client.objects import Key, key_of
from kube_fairlead.manager import Context, Controller
from kube_fairlead_lab.hollow.caches import Caches
from kube_fairlead_lab.hollow.workloads.pods import owner_reference

__all__ = ["endpoint_slices", "endpoints_of"]

_MANAGER = "endpointslice-controller.hollow.fairlead.dev"
# Upstream's limit for one slice; a hollow service has one slice.
_ENDPOINTS_MAX = 1000


def endpoint_slices(caches: Caches) -> Controller:
    """Return the controller, for a manager to run."""

    async def run(context: Context) -> None:
        await _EndpointSlices(context, caches).run()

    return Controller(name="hollow-endpointslice", run=run, workers=2)


def endpoints_of(pods: list[Pod], zones: dict[str, str], *, publish_not_ready: bool = False) -> list[dict[str, Any]]:
    """Return the endpoints of pods. A terminating pod may be serving, but is not ready."""
    found = []
    for pod in sorted(pods, key=lambda one: one.name):
        if not pod.status.pod_ip or pod.finished:
            continue
        condition = pod.condition("Ready")
        serving = condition is not None and condition.status == "True"
        endpoint: dict[str, Any] = {
            "addresses": [pod.status.pod_ip],
            "conditions": {
                "ready": (serving and not pod.deleting) or publish_not_ready,
                "serving": serving,
                "terminating": pod.deleting,
            },
            "nodeName": pod.spec.node_name,
            "targetRef": {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        }
        if zone := zones.get(pod.spec.node_name):
            endpoint["zone"] = zone
        found.append(endpoint)
    return found[:_ENDPOINTS_MAX]


class _EndpointSlices:
    """One run of the controller."""

    def __init__(self, context: Context, caches: Caches) -> None:
        self._context = context
        self._client = context.client
        self._caches = caches
        self._services = caches.of(Service)
        self._slices = caches.of(EndpointSlice)
        self._queue: WorkQueue[Key] = context.queue()

    async def run(self) -> None:
        self._services.add_handler(
            Handler(
                on_add=lambda one: self._queue.add(key_of(one)),
                on_update=lambda _old, new: self._queue.add(key_of(new)),
            )
        )
        self._caches.pods.add_handler(
            Handler(on_add=self._pod_changed, on_update=self._pod_updated, on_delete=self._pod_changed)
        )
        pods, nodes = self._caches.pods, self._caches.nodes
        if await self._context.wait_synced(self._services, self._slices, pods, nodes):
            await self._context.reconcile(self._queue, self._handle)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        self._pod_changed(new)
        if old.metadata.labels != new.metadata.labels:
            self._pod_changed(old)

    def _pod_changed(self, pod: Pod) -> None:
        for service in self._services.store.select(namespace=pod.namespace, where=lambda one: _selects(one, pod)):
            self._queue.add(key_of(service))

    async def _handle(self, key: Key) -> float | None:
        service = self._services.store.by_key(key)
        if service is None or service.deleting or not service.spec.selector:
            return None
        pods = self._caches.pods.store.select(namespace=key.namespace, where=lambda pod: _selects(service, pod))
        zones = {
            node.name: node.metadata.labels.get("topology.kubernetes.io/zone", "") for node in self._caches.nodes.store
        }
        wanted = _slice(service, endpoints_of(pods, zones, publish_not_ready=service.spec.publish_not_ready_addresses))
        slices = self._client.of(EndpointSlice)
        known = self._slices.store.get(wanted["metadata"]["name"], key.namespace)
        try:
            if known is None:
                await slices.create(wire.from_dict(EndpointSlice, wanted))
                return None
            current = wire.to_dict(known)
            changed = {field: wanted[field] for field in ("endpoints", "ports")}
            # An empty list is stored as null.
            if any((current.get(field) or []) != value for field, value in changed.items()):
                await slices.update(wire.from_dict(EndpointSlice, current | changed))
        except (api_errors.Conflict, api_errors.AlreadyExists, api_errors.NotFound):
            return 0.05  # the cache is behind
        return None


def _selects(service: Service, pod: Pod) -> bool:
    labels = pod.metadata.labels
    return bool(service.spec.selector) and all(labels.get(key) == value for key, value in service.spec.selector.items())


def _slice(service: Service, endpoints: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{service.name}-hollow",
            "namespace": service.namespace,
            "labels": {
                "kubernetes.io/service-name": service.name,
                "endpointslice.kubernetes.io/managed-by": _MANAGER,
            },
            "ownerReferences": [owner_reference(service)],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [_port(port) for port in service.spec.ports],
    }


def _port(port: ServicePort) -> dict[str, Any]:
    target = port.target_port if isinstance(port.target_port, int) and port.target_port else port.port
    return {"name": port.name, "protocol": port.protocol or "TCP", "port": target}
