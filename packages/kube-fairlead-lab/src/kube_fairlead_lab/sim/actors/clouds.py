"""Clouds: machines that exist or not, and an API in front of them that is late, silent or wrong."""

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

__all__ = ["ADMINISTRATORS", "POD_RANGE", "SimCloud", "Trouble"]

POD_RANGE: Final = "10.244.0.0/16"
ADMINISTRATORS: Final = "administrator"  # the name of routes that a person made

_SOON_SECONDS: Final = (0.0, 0.5)
_LATE_SECONDS: Final = (5.0, 40.0)
# What a provider answers that has lost its mind; an exception is raised. All of it is false to whoever only looks so.
_NONSENSE: Final[tuple[Any, ...]] = (
    None,
    0,
    "",
    {},
    KeyError("State"),
    TypeError("'NoneType' object is not subscriptable"),
)
_CONFUSED: Final = 0.4  # how often it then fails at a list
_LOST: Final = 0.6  # how often an answer that a cut held back never comes, and nobody says so


class Trouble(enum.Enum):
    """What is wrong with a whole cloud, in words for people."""

    SILENT = "does not answer"
    EMPTY = "knows no machine"
    LATE = "is late"
    CONFUSED = "has a provider that breaks its protocol"


class SimCloud(FakeCloud):
    """A cloud of one platform. It also notices who asks about machines that are not its own."""

    def __init__(self, environment: Environment, platform: str) -> None:
        super().__init__(platform, name=platform)
        self._environment = environment
        self._platform = platform
        self.links: dict[str, Link] = {}  # by the name of the manager at the other end
        self.troubles: set[Trouble] = set()
        self.said_off: set[str] = set()  # names of machines that it calls shut down, and are not
        self.back_at: dict[str, float] = {}  # by name: when a machine that was gone was there again

    def add(self, node_name: str, provider_id: str = "", **facts: object) -> Instance:
        """Start a machine."""
        if node_name not in self.machines:
            self.back_at[node_name] = self._environment.loop.time()
        return super().add(node_name, provider_id, **facts)

    async def describe(self, queries: Sequence[InstanceQuery]) -> Mapping[InstanceQuery, Instance]:
        """Machines by id, unless it has a bad day."""
        self._check(query.provider_id for query in queries)
        await self._reached()
        if Trouble.CONFUSED in self.troubles and self._environment.chance.random() < _CONFUSED:
            return self._nonsense(but={})  # type: ignore[no-any-return]  # that is the point
        found = {} if Trouble.EMPTY in self.troubles else await super().describe(queries)
        if self.said_off:
            found = {
                query: dataclasses.replace(one, shutdown=one.shutdown or query.node_name in self.said_off)
                for query, one in found.items()
            }
        await self._heard()
        return found

    async def list_routes(self, cluster_name: str, nodes: Sequence[Node]) -> Sequence[Route]:
        """The table."""
        await self._reached()
        return await super().list_routes(cluster_name, nodes)

    async def create_route(self, cluster_name: str, name_hint: str, route: Route, node: Node) -> None:
        """Lead a range to a node, which must be a machine of this cloud's."""
        await self._reached()
        if not self._has_had(node):
            said = f"cloud {self.name} was asked to route {route.destination_cidr} to {node.name}, which is not its own"
            self._environment.violate(Violation("8", said))
        await super().create_route(cluster_name, name_hint, route, node)

    async def delete_route(self, cluster_name: str, route: Route) -> None:
        """Take a route out, but for those that an administrator made for machines of none."""
        await self._reached()
        if route.name == ADMINISTRATORS:
            said = f"cloud {self.name} was asked to remove the administrator's route for {route.destination_cidr}"
            self._environment.violate(Violation("8", said))
        await super().delete_route(cluster_name, route)

    def _has_had(self, node: Node) -> bool:
        """Whether there is or was a machine of this cloud's behind a node, by its id."""
        return node.spec.provider_id == f"{self._platform}://{node.name}" and node.name in self.back_at

    async def exists(self, provider_id: str, node: Node) -> bool:
        """Whether there is a machine of this id, by the time that the question arrives."""
        self._check([provider_id])
        await self._reached()
        if Trouble.CONFUSED in self.troubles:
            return self._nonsense()  # type: ignore[no-any-return]  # that is the point
        found = await super().exists(provider_id, node)
        await self._heard()
        return found

    def _nonsense(self, *, but: object = ...) -> Any:
        self._environment.counts["nonsense from clouds"] += 1
        answer = self._environment.chance.choice([one for one in _NONSENSE if one != but])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _reached(self) -> None:
        """The question arrives."""
        await self._environment.clock.sleep(self._environment.chance.uniform(0.01, 0.5))
        try:
            await self._link().wait_connected()
        except TimeoutError as error:
            raise CloudUnavailable("connection timed out") from error
        self.calls.clear()  # nobody reads them here
        if Trouble.SILENT in self.troubles:
            raise CloudError("the cloud does not answer")

    async def _heard(self) -> None:
        """The answer arrives, which may be old by then; or never does."""
        takes = _LATE_SECONDS if Trouble.LATE in self.troubles else _SOON_SECONDS
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
