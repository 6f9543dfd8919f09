"""A cloud in memory, for tests: its state and its failures are set by the test, and it records every call."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from kube_fairlead.api.core_v1 import LoadBalancerIngress, LoadBalancerStatus, Node, Service
from kube_fairlead.base.clock import Clock
from kube_fairlead.cloud.cluster import Cluster
from kube_fairlead.cloud.errors import CloudError, ForeignId
from kube_fairlead.cloud.ownership import platform_of_provider_id
from kube_fairlead.cloud.provider import Instance, InstanceQuery, Instances, LoadBalancers, Route, Routes, Zone, Zones
from kube_fairlead.cloud.requests import before_request

__all__ = ["Call", "FakeCloud"]


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One call that was made, and the names or ids that it was about."""

    name: str
    about: tuple[str, ...] = ()


class FakeCloud:
    """A provider whose state is its attributes. Change them, and the cloud has changed."""

    def __init__(
        self,
        *platforms: str,
        name: str = "fake",
        clock: Clock | None = None,
        latency_seconds: float = 0.0,
        page_size: int = 1000,
    ) -> None:
        self.name = name
        self.machines: dict[str, Instance] = {}  # by node name
        self.forgotten: set[str] = set()  # names that `describe` leaves out although they exist
        self.table: list[Route] = []
        self.balancers: dict[str, tuple[str, ...]] = {}  # Service key -> node names
        self.failure: CloudError | None = None  # raised by every call while set
        self.calls: list[Call] = []
        self.cluster: Cluster | None = None  # what it was given to read, once it runs
        self.instances: Instances | None = self
        self.zones: Zones | None = None
        self.routes: Routes | None = self
        self.load_balancers: LoadBalancers | None = self
        self._platforms = frozenset(platforms)
        self._clock = clock
        self._latency_seconds = latency_seconds
        self._page_size = page_size

    def add(self, node_name: str, provider_id: str = "", **facts: object) -> Instance:
        """Start a machine."""
        platform = min(self._platforms, default=self.name)
        instance = dataclasses.replace(
            Instance(provider_id=provider_id or f"{platform}://{node_name}"),
            **facts,  # type: ignore[arg-type]  # keyword arguments of Instance, checked when it is made
        )
        self.machines[node_name] = instance
        return instance

    def remove(self, node_name: str) -> None:
        """Delete a machine for good."""
        del self.machines[node_name]

    def count(self, name: str) -> int:
        """How often a call was made."""
        return sum(call.name == name for call in self.calls)

    def supported_platforms(self) -> frozenset[str]:
        """As given."""
        return self._platforms

    def running(self, cluster: Cluster) -> AbstractAsyncContextManager[object]:
        """Nothing to hold."""
        self.cluster = cluster
        return contextlib.nullcontext()

    async def describe(self, queries: Sequence[InstanceQuery]) -> Mapping[InstanceQuery, Instance]:
        """Machines by id, else by name; one call per page."""
        by_id = {one.provider_id: (name, one) for name, one in self.machines.items()}
        found: dict[InstanceQuery, Instance] = {}
        for start in range(0, len(queries), self._page_size):
            page = queries[start : start + self._page_size]
            await self._called("describe", [query.provider_id or query.node_name for query in page])
            for query in page:
                if query.provider_id:
                    name, instance = by_id.get(query.provider_id, ("", None))
                else:
                    name, instance = query.node_name, self.machines.get(query.node_name)
                if instance is not None and name not in self.forgotten:
                    found[query] = instance
        return found

    def recognises(self, provider_id: str) -> bool:
        """Any id of its platforms; any at all if it has none."""
        return not self._platforms or platform_of_provider_id(provider_id) in self._platforms

    async def exists(self, provider_id: str, node: Node) -> bool:
        """Whether there is a machine of this id."""
        del node
        await self._called("exists", [provider_id])
        if not self.recognises(provider_id):
            raise ForeignId(provider_id, "no such scheme here")
        return any(instance.provider_id == provider_id for instance in self.machines.values())

    async def zone_of(self, provider_id: str, node: Node) -> Zone:
        """The same everywhere."""
        del node
        await self._called("zone_of", [provider_id])
        return Zone("zone-of-fake", "region-of-fake")

    async def list_routes(self, cluster_name: str, nodes: Sequence[Node]) -> Sequence[Route]:
        """The table."""
        del cluster_name, nodes
        await self._called("list_routes")
        return list(self.table)

    async def create_route(self, cluster_name: str, name_hint: str, route: Route, node: Node) -> None:
        """Add to the table."""
        del cluster_name
        await self._called("create_route", [node.name, route.destination_cidr])
        self.table.append(dataclasses.replace(route, name=name_hint, target_node_addresses=None))

    async def delete_route(self, cluster_name: str, route: Route) -> None:
        """Take out of the table."""
        del cluster_name
        await self._called("delete_route", [route.target_node, route.destination_cidr])
        self.table = [kept for kept in self.table if kept != route]

    def get_load_balancer_name(self, cluster_name: str, service: Service) -> str:
        """The cluster and the Service."""
        return f"{cluster_name}/{service.key}"

    async def get_load_balancer(self, cluster_name: str, service: Service) -> LoadBalancerStatus | None:
        """Where it is, if it is."""
        del cluster_name
        await self._called("get_load_balancer", [service.key])
        return self._status(service) if service.key in self.balancers else None

    async def ensure_load_balancer(
        self, cluster_name: str, service: Service, nodes: Sequence[Node]
    ) -> LoadBalancerStatus:
        """Make it, or change it."""
        del cluster_name
        await self._called("ensure_load_balancer", [service.key, *(node.name for node in nodes)])
        self.balancers[service.key] = tuple(node.name for node in nodes)
        return self._status(service)

    async def update_load_balancer(self, cluster_name: str, service: Service, nodes: Sequence[Node]) -> None:
        """Change its nodes."""
        del cluster_name
        await self._called("update_load_balancer", [service.key, *(node.name for node in nodes)])
        self.balancers[service.key] = tuple(node.name for node in nodes)

    async def ensure_load_balancer_deleted(self, cluster_name: str, service: Service) -> None:
        """Take it away."""
        del cluster_name
        await self._called("ensure_load_balancer_deleted", [service.key])
        self.balancers.pop(service.key, None)

    def _status(self, service: Service) -> LoadBalancerStatus:
        return LoadBalancerStatus(ingress=(LoadBalancerIngress(hostname=f"{service.name}.{self.name}.example"),))

    async def _called(self, name: str, about: Iterable[str] = ()) -> None:
        await before_request()
        self.calls.append(Call(name, tuple(about)))
        if self._clock is not None and self._latency_seconds:
            await self._clock.sleep(self._latency_seconds)
        if self.failure is not None:
            raise self.failure
