"""Writes Services: the finalizer, the managing provider, and the load balancer's address."""

from __future__ import annotations

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import LoadBalancerStatus, Service
from kube_fairlead.api.json_object import Json
from kube_fairlead.client import patches
from kube_fairlead.client.client import Client
from kube_fairlead.cloud.wellknown import ANNOTATION_LOAD_BALANCER_PROVIDER, FINALIZER_LOAD_BALANCER

__all__ = ["ServiceWriter"]


class ServiceWriter:
    """Every write carries the resource version that was judged: of two managers only one gets a Service."""

    def __init__(self, client: Client, manager: str, *, claims: bool) -> None:
        self._api = client.of(Service)
        self._manager = manager
        self._claims = claims  # whether there may be other managers

    async def claim(self, service: Service) -> Service:
        """Add the finalizer, which holds the Service until its load balancer is gone, and name the provider."""
        finalizers = service.metadata.finalizers
        annotations = {ANNOTATION_LOAD_BALANCER_PROVIDER: self._manager} if self._claims else {}
        if FINALIZER_LOAD_BALANCER in finalizers and annotations.items() <= service.metadata.annotations.items():
            return service
        if FINALIZER_LOAD_BALANCER not in finalizers:
            finalizers = (*finalizers, FINALIZER_LOAD_BALANCER)
        return await self._patch(service, metadata={"finalizers": list(finalizers), "annotations": annotations})

    async def release(self, service: Service) -> Service:
        """The load balancer is gone: let the Service go."""
        finalizers = [name for name in service.metadata.finalizers if name != FINALIZER_LOAD_BALANCER]
        annotations = {ANNOTATION_LOAD_BALANCER_PROVIDER: None} if self._claims else {}
        return await self._patch(service, metadata={"finalizers": finalizers, "annotations": annotations})

    async def set_status(self, service: Service, status: LoadBalancerStatus) -> Service:
        """Say where the load balancer is reached."""
        if service.status.load_balancer == status:
            return service
        # Null, not an absent list: a merge patch keeps what it does not name.
        ingress = [wire.to_dict(one) for one in status.ingress] or None
        return await self._patch(service, metadata={}, status={"loadBalancer": {"ingress": ingress}})

    async def _patch(self, service: Service, *, metadata: Json, **parts: Json) -> Service:
        guard = {"resourceVersion": service.metadata.resource_version}
        patch = patches.MergePatch({"metadata": {**metadata, **guard}, **parts})
        return await self._api.patch(
            service.name, patch, namespace=service.namespace, subresource="status" if parts else ""
        )
