"""What the controllers of one cloud controller manager share while they run."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.base import logs
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.cloud.calls import CloudCalls
from kube_fairlead.cloud.confirmation import Confirmations
from kube_fairlead.cloud.errors import CloudError, ProviderError, ProviderFault
from kube_fairlead.cloud.manager_names import identity_of
from kube_fairlead.cloud.node_writer import NodeWriter
from kube_fairlead.cloud.parallel import for_each
from kube_fairlead.cloud.provider import Instance, InstanceQuery, Instances, ManyInstances, Provider, query_for
from kube_fairlead.cloud.unannounced_deletions import UnannouncedDeletions

__all__ = ["CloudContext", "Controller"]

# Where each machine is a question of its own: as many as hide the way to the cloud and back.
_QUESTIONS_AT_ONCE = 4

_log = logs.get_logger(__name__)


class Controller(Protocol):
    """Runs until the request to stop."""

    @property
    def name(self) -> str:
        """As in `--controllers`."""
        ...

    async def run(self) -> None:
        """Do the work. Returns soon after `graceful_stop` is set, with nothing left half done."""
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
    unannounced_deletions: UnannouncedDeletions
    cluster_name: str = "kubernetes"
    instance: str = "fairlead"  # who reports Events
    stopping: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    confirmations: Confirmations = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        made = Confirmations(self.platforms, clock=self.client.clock, randomness=self.client.randomness)
        object.__setattr__(self, "confirmations", made)
        self.nodes.add_handler(Handler(on_delete=made.forget))

    @property
    def identity(self) -> str:
        """Which of several managers this one is, for what they share."""
        return identity_of(self.provider, self.platforms)

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
        """What the cloud knows of these nodes, by their names; one query for all.

        Raises:
            CloudError: the cloud did not answer.
        """
        asked = list(nodes)
        queries: Sequence[InstanceQuery] = [query_for(node) for node in asked]
        if not queries:
            return {}
        found = await self.calls.call(
            Instances.describe,
            lambda: self.instances.describe(queries),
            accept=lambda answer: _check_asked(Instances.describe.__name__, answer, queries),
        )
        by_name = {query.node_name: instance for query, instance in found.items()}
        self.confirmations.answered(asked, by_name.keys())
        return by_name

    async def confirm(self, nodes: Iterable[Node]) -> None:
        """Query the cloud whether it knows these nodes by their id, where it has not answered yet.

        Raises:
            CloudError: the cloud did not answer; which of them are its own is not known.
        """
        await self.describe(self.confirmations.due(nodes))

    def recognises(self, provider_id: str) -> bool:
        """Whether the id has the form of this cloud's."""
        return self.calls.recognises(self.instances, provider_id)

    async def which_are_gone(self, nodes: Iterable[Node]) -> set[str]:
        """Of which ids of these nodes the cloud says, asked about that very id, that the machine is gone.

        No answer is none.
        """
        by_id = {node.spec.provider_id: node for node in nodes}
        if not by_id:
            return set()
        if isinstance(self.instances, ManyInstances):
            return await self._which_of_many_are_gone(self.instances, by_id)
        gone: set[str] = set()

        async def ask(entry: tuple[str, Node]) -> None:
            provider_id, node = entry
            try:
                if await self.calls.call(Instances.exists, lambda: self.instances.exists(provider_id, node)) is False:
                    gone.add(provider_id)
            except CloudError as error:
                _log.warning("no answer of the cloud about the machine", machine=provider_id, error=str(error))

        await for_each(by_id.items(), ask, workers=_QUESTIONS_AT_ONCE, owner="exists", stopping=self.stopping)
        return gone

    async def _which_of_many_are_gone(self, instances: ManyInstances, by_id: Mapping[str, Node]) -> set[str]:
        try:
            answers = await self.calls.call(
                ManyInstances.which_exist,
                lambda: instances.which_exist(by_id),
                accept=lambda answer: _check_asked(ManyInstances.which_exist.__name__, answer, by_id),
            )
        except CloudError as error:
            _log.warning("no answer of the cloud about missing machines", machines=len(by_id), error=str(error))
            return set()
        return {provider_id for provider_id in by_id if answers.get(provider_id) is False}


def _check_asked(name: str, answer: Iterable[object], asked: Collection[object]) -> None:
    """An answer about other nodes is wrong, and then its gaps do not mean missing nodes."""
    if unasked := set(answer) - set(asked):
        raise ProviderFault(
            f"{name}() answers about {len(unasked)} that were not in the query, such as {min(map(repr, unasked))}"
        )
