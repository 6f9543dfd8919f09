"""What a cloud must be able to answer and do. Others implement these protocols and ship them as plug-ins.

A provider is made once per process by the factory that its entry point names (group `fairlead.cloud_providers`):

    def provider(settings: ProviderSettings) -> Provider: ...

Only `name` and `supported_platforms` are demanded; every other part may be None, and a controller that needs one which
is missing is refused at the start. All calls may be repeated. All raise `kube_fairlead.cloud.errors.CloudError`, and
only that, when the cloud does not answer. The types that they return are the promise that every answer is held against
(`answers`); whatever else is raised or returned is an outage of the call (`calls`). A method that does not take the
arguments of its protocol is refused at the start (`checked`).

The protocols carry what cloud-provider's InstancesV2, LoadBalancer and Routes carry: the Node, the Service, the name of
the cluster, and in `running` a read-only view of the cluster.

Upstream: k8s.io/cloud-provider@v0.36.4/cloud.go
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from kube_fairlead.api.core_v1 import LoadBalancerStatus, Node, NodeAddress, Service
from kube_fairlead.base.clock import Clock
from kube_fairlead.base.environment import Environment
from kube_fairlead.cloud.cluster import Cluster

__all__ = [
    "Instance",
    "InstanceQuery",
    "Instances",
    "LoadBalancers",
    "ManyInstances",
    "Provider",
    "ProviderFactory",
    "ProviderSettings",
    "Route",
    "Routes",
    "Zone",
    "Zones",
    "query_for",
]


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class InstanceQuery:
    """Which instance is meant: by its id where a node has one, else by the node's name.

    `node` is the whole Node, for clouds that need its labels, annotations or addresses. Two queries are the same if
    they name the same machine, so an answer may have an equal query as its key.
    """

    node_name: str
    provider_id: str = ""
    node: Node = dataclasses.field(default_factory=Node, compare=False, repr=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """What a cloud knows of a machine: upstream's InstanceMetadata, and whether it is shut down."""

    provider_id: str
    shutdown: bool = False
    instance_type: str = ""
    addresses: tuple[NodeAddress, ...] = ()
    zone: str = ""
    region: str = ""
    additional_labels: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Instances(Protocol):
    """The machines of a cloud."""

    def recognises(self, provider_id: str) -> bool:
        """Whether the id has the form of this cloud's. Pure; a node with another form is never queried."""
        ...

    async def describe(self, queries: Sequence[InstanceQuery]) -> Mapping[InstanceQuery, Instance]:
        """Look at many at once, in as few calls as the cloud allows.

        What is missing from the answer was not found this time, which proves nothing. A machine that is shut down
        is found; one that was deleted for good is not.
        """
        ...

    async def exists(self, provider_id: str, node: Node) -> bool:
        """Look at this very machine. False only if the cloud itself said that it is gone; anything else is an error.

        `node` is the one that has the id, for clouds that cannot find a machine by its id alone.

        Raises:
            ForeignId: the id could not be of this cloud.
        """
        ...


@runtime_checkable
class ManyInstances(Protocol):
    """For clouds that can say of many very machines at once whether they are gone; `Instances` may be this too."""

    async def which_exist(self, nodes: Mapping[str, Node]) -> Mapping[str, bool]:
        """As `exists`, for each of these, by providerID. An id that is missing from the answer had none."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Zone:
    """Where a machine is."""

    zone: str = ""
    region: str = ""


class Zones(Protocol):
    """For clouds whose instances do not say where they are."""

    async def zone_of(self, provider_id: str, node: Node) -> Zone:
        """Where a machine is."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Traffic for a range of pod addresses goes to a node."""

    destination_cidr: str
    target_node: str  # empty: to nothing that is a node of this cloud
    name: str = ""
    target_node_addresses: tuple[NodeAddress, ...] | None = None  # None: the cloud routes to machines, not addresses
    blackhole: bool = False


class Routes(Protocol):
    """The route table of a cloud's network."""

    async def list_routes(self, cluster_name: str, nodes: Sequence[Node]) -> Sequence[Route]:
        """All routes that could be the cluster's. `nodes` are all nodes, so that targets can be matched by name."""
        ...

    async def create_route(self, cluster_name: str, name_hint: str, route: Route, node: Node) -> None:
        """Make a route to a node. One that is there already is no error."""
        ...

    async def delete_route(self, cluster_name: str, route: Route) -> None:
        """Remove a route, as `list_routes` gave it. One that is gone already is no error."""
        ...


class LoadBalancers(Protocol):
    """Load balancers for Services of that type."""

    def get_load_balancer_name(self, cluster_name: str, service: Service) -> str:
        """What the cloud calls it, whether it exists or not. Pure; for people who look for it there."""
        ...

    async def get_load_balancer(self, cluster_name: str, service: Service) -> LoadBalancerStatus | None:
        """Where it is reached; None only if the cloud itself said that there is none.

        One that is being made, or of which only parts are left, exists too.
        """
        ...

    async def ensure_load_balancer(
        self, cluster_name: str, service: Service, nodes: Sequence[Node]
    ) -> LoadBalancerStatus:
        """Make it, or bring what there is in line. It sends traffic to these nodes and no others."""
        ...

    async def update_load_balancer(self, cluster_name: str, service: Service, nodes: Sequence[Node]) -> None:
        """Only the nodes have changed."""
        ...

    async def ensure_load_balancer_deleted(self, cluster_name: str, service: Service) -> None:
        """Remove every part of it that is there, also when a removal was interrupted and only parts are."""
        ...


class Provider(Protocol):
    """One cloud.

    One whose platforms come from its configuration, so that there may be several managers of it in a cluster, also has
    the attribute `platforms_are_configured = True`: the platforms then distinguish their Leases.
    """

    @property
    def name(self) -> str:
        """As in `--cloud-provider`."""
        ...

    @property
    def instances(self) -> Instances | None:
        """Its machines."""
        ...

    @property
    def zones(self) -> Zones | None:
        """Where they are, if they do not say so themselves."""
        ...

    @property
    def routes(self) -> Routes | None:
        """Its route table."""
        ...

    @property
    def load_balancers(self) -> LoadBalancers | None:
        """Its load balancers."""
        ...

    def supported_platforms(self) -> frozenset[str]:
        """The schemes of the providerIDs that it answers for. Empty: it does not say, the administrator must."""
        ...

    def running(self, cluster: Cluster) -> AbstractAsyncContextManager[object]:
        """The block in which it is used: holds connections and threads.

        `cluster` reads the cluster with the rights of the manager's own account, and is of use until the block ends.
        """
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """What a provider is made from."""

    cloud_config: pathlib.Path | None
    cluster_name: str
    clock: Clock
    environment: Environment


class ProviderFactory(Protocol):
    """What an entry point names."""

    def __call__(self, settings: ProviderSettings) -> Provider:
        """Create the provider; it makes no call yet.

        Raises:
            ProviderError: the configuration does not do.
        """
        ...


def query_for(node: Node) -> InstanceQuery:
    """The cloud query for a node."""
    return InstanceQuery(node.name, node.spec.provider_id, node)
