"""Clouds: their machines, and an API that can be late, silent or wrong."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.cloud.errors import CloudError, CloudUnavailable
from kube_fairlead.cloud.provider import Instance, InstanceQuery, Route
from kube_fairlead.cloud.providers.fake import FakeCloud
from kube_fairlead_lab.sim.environment import Environment, Violation
from kube_fairlead_lab.sim.links import Link
from kube_fairlead_lab.sim.loop import current_process

__all__ = ["ADMINISTRATORS", "POD_RANGE", "CloudFault", "SimCloud"]

POD_RANGE: Final = "10.244.0.0/16"
ADMINISTRATORS: Final = "administrator"  # the name of routes that an administrator made

_SOON_SECONDS: Final = (0.0, 0.5)
_LATE_SECONDS: Final = (5.0, 40.0)
# Invalid answers of a provider; an exception is raised. All of them are false as a boolean.
_NONSENSE: Final[tuple[Any, ...]] = (
    None,
    0,
    "",
    {},
    KeyError("State"),
    TypeError("'NoneType' object is not subscriptable"),
)
_CONFUSED: Final = 0.4  # how often a list then fails
_LOST: Final = 0.6  # how often an answer that a cut holds back is lost without an error


class CloudFault(enum.Enum):
    """Faults of a whole cloud; the values are texts for the history."""

    SILENT = "does not answer"
    EMPTY = "knows no machine"
    LATE = "answers late"
    CONFUSED = "has a provider that returns invalid answers"


class SimCloud(FakeCloud):
    """A cloud of one platform. It also reports requests about machines of others."""

    def __init__(self, environment: Environment, platform: str) -> None:
        super().__init__(platform, name=platform)
        self._environment = environment
        self._platform = platform
        self.links: dict[str, Link] = {}  # by the name of the manager
        self.troubles: set[CloudFault] = set()
        self.said_off: set[str] = set()  # names of running machines that it reports as shut down
        self.back_at: dict[str, float] = {}  # by name: when a deleted machine was created again

    def add(self, node_name: str, provider_id: str = "", **facts: object) -> Instance:
        """Create a machine."""
        if node_name not in self.machines:
            self.back_at[node_name] = self._environment.loop.time()
        return super().add(node_name, provider_id, **facts)

    async def describe(self, queries: Sequence[InstanceQuery]) -> Mapping[InstanceQuery, Instance]:
        """Machines by id, unless a fault is active."""
        self._check(query.provider_id for query in queries)
        await self._receive_request()
        if CloudFault.CONFUSED in self.troubles and self._environment.chance.random() < _CONFUSED:
            return self._invalid_answer(but={})  # type: ignore[no-any-return]  # an invalid answer is the fault
        found = {} if CloudFault.EMPTY in self.troubles else await super().describe(queries)
        if self.said_off:
            found = {
                query: dataclasses.replace(one, shutdown=one.shutdown or query.node_name in self.said_off)
                for query, one in found.items()
            }
        await self._deliver_answer()
        return found

    async def list_routes(self, cluster_name: str, nodes: Sequence[Node]) -> Sequence[Route]:
        """Return the route table."""
        await self._receive_request()
        return await super().list_routes(cluster_name, nodes)

    async def create_route(self, cluster_name: str, name_hint: str, route: Route, node: Node) -> None:
        """Create a route to a node, which must be a machine of this cloud."""
        await self._receive_request()
        if not self._owns_or_owned(node):
            said = f"cloud {self.name} was asked to route {route.destination_cidr} to {node.name}, which is not its own"
            self._environment.violate(Violation("8", said))
        await super().create_route(cluster_name, name_hint, route, node)

    async def delete_route(self, cluster_name: str, route: Route) -> None:
        """Remove a route; a manager must not remove the administrator's routes to unmanaged nodes."""
        await self._receive_request()
        if route.name == ADMINISTRATORS:
            said = f"cloud {self.name} was asked to remove the administrator's route for {route.destination_cidr}"
            self._environment.violate(Violation("8", said))
        await super().delete_route(cluster_name, route)

    def _owns_or_owned(self, node: Node) -> bool:
        """Return whether the node's id is or was a machine of this cloud."""
        return node.spec.provider_id == f"{self._platform}://{node.name}" and node.name in self.back_at

    async def exists(self, provider_id: str, node: Node) -> bool:
        """Return whether a machine with this id exists when the request arrives."""
        self._check([provider_id])
        await self._receive_request()
        if CloudFault.CONFUSED in self.troubles:
            return self._invalid_answer()  # type: ignore[no-any-return]  # an invalid answer is the fault
        found = await super().exists(provider_id, node)
        await self._deliver_answer()
        return found

    def _invalid_answer(self, *, but: object = ...) -> Any:
        self._environment.counts["invalid answers of clouds"] += 1
        answer = self._environment.chance.choice([one for one in _NONSENSE if one != but])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _receive_request(self) -> None:
        """Wait until the request arrives."""
        await self._environment.clock.sleep(self._environment.chance.uniform(0.01, 0.5))
        try:
            await self._link().wait_connected()
        except TimeoutError as error:
            raise CloudUnavailable("connection timed out") from error
        self.calls.clear()  # not used here
        if CloudFault.SILENT in self.troubles:
            raise CloudError("the cloud does not answer")

    async def _deliver_answer(self) -> None:
        """Wait until the answer arrives; it can be lost."""
        takes = _LATE_SECONDS if CloudFault.LATE in self.troubles else _SOON_SECONDS
        await self._environment.clock.sleep(self._environment.chance.uniform(*takes))
        link = self._link()
        if link.is_cut and self._environment.chance.random() < _LOST:
            self._environment.counts["cloud answers lost"] += 1
            await asyncio.Event().wait()
        try:
            await link.wait_connected()
        except TimeoutError as error:
            raise CloudUnavailable("connection timed out") from error

    def _link(self) -> Link:
        return self.links[current_process().name.partition("#")[0]]

    def _check(self, provider_ids: Iterable[str]) -> None:
        for provider_id in provider_ids:
            if provider_id and not provider_id.startswith(f"{self._platform}://"):
                self._environment.violate(Violation("8", f"cloud {self.name} was asked about {provider_id}"))
