"""discovery.k8s.io/v1: EndpointSlices, which say where a service's pods are.

Upstream: k8s.io/api@v0.36.4/discovery/v1/types.go
"""

from __future__ import annotations

from kube_fairlead.api.core_v1 import ObjectReference
from kube_fairlead.api.meta import KubeObject
from kube_fairlead.api.parts import Part, always

__all__ = ["Endpoint", "EndpointConditions", "EndpointPort", "EndpointSlice"]


class EndpointConditions(Part):
    """Whether an endpoint takes traffic; a missing `ready` reads as true."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Endpoint(Part):
    """One pod behind a service."""

    MERGE_KEY = ("addresses",)

    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    hostname: str | None = None
    target_ref: ObjectReference | None = None
    node_name: str | None = None
    zone: str | None = None


class EndpointPort(Part):
    """One port behind a service."""

    name: str | None = None
    protocol: str | None = None
    port: int | None = None
    app_protocol: str | None = None


class EndpointSlice(KubeObject):
    """Some of the endpoints of a service."""

    api_version: str = always("discovery.k8s.io/v1")
    kind: str = always("EndpointSlice")
    address_type: str = always("")
    endpoints: tuple[Endpoint, ...] = always(())
    ports: tuple[EndpointPort, ...] = always(())
