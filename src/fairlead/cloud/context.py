"""What the controllers of one cloud controller manager share while they run."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from fairlead.api.core_v1 import Node
from fairlead.base.metrics import Metrics
from fairlead.client.client import Client
from fairlead.client.informer import Informer
from fairlead.client.recorder import EventRecorder
from fairlead.cloud.calls import CloudCalls
from fairlead.cloud.errors import ProviderError
from fairlead.cloud.provider import Instance, InstanceQuery, Instances, Provider, query_for
from fairlead.cloud.writing import NodeWriter

__all__ = ["CloudContext", "Controller"]


class Controller(Protocol):
    """Something that runs until it is asked to stop."""

    @property
    def name(self) -> str:
        """As in `--controllers`."""
        ...

    async def run(self) -> None:
        """Do the work. Returns soon after `stopping` is set, with nothing left half done."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CloudContext:
    """One cloud, one cluster, one term of office."""

    client: Client
    nodes: Informer[Node]
    provider: Provider
    platforms: frozenset[str]
    calls: CloudCalls
    metrics: Metrics
    cluster_name: str = "kubernetes"
    instance: str = "fairlead"  # who reports Events
    stopping: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    @property
    def writer(self) -> NodeWriter:
        """The door to nodes."""
        return NodeWriter(self.client, self.platforms)

    @property
    def instances(self) -> Instances:
        """The cloud's machines, which every controller of nodes needs."""
        if self.provider.instances is None:
            raise ProviderError(f"cloud provider {self.provider.name} does not support instances")
        return self.provider.instances

    def recorder(self, controller: str) -> EventRecorder:
        """Reports Events in a controller's name."""
        return EventRecorder(self.client, controller=controller, instance=self.instance)

    async def describe(self, nodes: Iterable[Node]) -> Mapping[str, Instance]:
        """What the cloud knows of these nodes, by their names; asked once for all.

        Raises:
            CloudError: the cloud did not answer.
        """
        queries: Sequence[InstanceQuery] = [query_for(node) for node in nodes]
        if not queries:
            return {}
        instances = self.instances
        found = await self.calls.call("describe", lambda: instances.describe(queries))
        return {query.node_name: instance for query, instance in found.items()}

    async def exists(self, provider_id: str) -> bool:
        """Whether the cloud still has this very machine.

        Raises:
            CloudError: the cloud did not answer.
        """
        instances = self.instances
        return await self.calls.call("exists", lambda: instances.exists(provider_id))
