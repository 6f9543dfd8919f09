"""The agent of one node: its parts, and the order in which they start."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleTransition
from kube_fairlead.base import tasks
from kube_fairlead.base.metrics import Metrics
from kube_fairlead.claimant.driver_directory import DriverDirectory
from kube_fairlead.claimant.driver_probe import DriverProbe
from kube_fairlead.claimant.event_recorder import ClaimEventRecorder
from kube_fairlead.claimant.lease_namespace import LeaseNamespace
from kube_fairlead.claimant.leased_engine import LEASE_TIMING, LeasedEngine
from kube_fairlead.claimant.plugins import Channels, PluginRegistry
from kube_fairlead.claimant.socket_folder import SocketFolder
from kube_fairlead.claimant.transition_publisher import TransitionPublisher
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Informer
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.election import TermOverrun, Timing, end_process
from kube_fairlead.lifecycle.facts import Precedence, Settings

__all__ = ["Agent", "AgentOptions"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """The node of an agent, and its settings."""

    node_name: str
    identity: str  # in the node's Lease; see `claimant.identity`
    registry: Path | None = None  # None: no drivers but those inside this process
    settings: Settings = dataclasses.field(default_factory=Settings)
    timing: Timing = LEASE_TIMING
    on_overrun: Callable[[TermOverrun], None] = end_process  # a task that did not end in time might still write


class Agent:
    """Carries out the events of one node while it holds the node's Lease, and registers drivers all the time.

    It has no global state, so a process may run any number of agents. Drivers of the same process are added to the
    `directory`, with a `driverapi.memory_channel.MemoryChannel`.
    """

    def __init__(self, client: Client, options: AgentOptions, channels: Channels, metrics: Metrics) -> None:
        self.options = options
        self.directory = DriverDirectory()
        self._client = client
        self._recorder = EventRecorder(client, controller="fairlead.dev/agent", instance=options.node_name)
        self.lease_namespace = LeaseNamespace(client, self._recorder)
        self._transitions = Informer(client.of(LifecycleTransition, keep=False))
        self._leased_engine = LeasedEngine(
            client,
            options.node_name,
            self.directory,
            ClaimEventRecorder(self._recorder, metrics),
            self._transitions,
            identity=options.identity,
            settings=options.settings,
            timing=options.timing,
            # The identity is kept in a file that this process has locked: its earlier holder has ended.
            succeeds=options.identity,
            on_overrun=options.on_overrun,
        )
        self._contact = DriverProbe(
            self.directory, node_name=options.node_name, clock=client.clock, randomness=client.randomness
        )
        self._publisher = TransitionPublisher(client, self._transitions)
        self._registry: PluginRegistry | None = None
        if options.registry is not None:
            self._registry = PluginRegistry(
                SocketFolder(options.registry, client.clock),
                self.directory,
                self._publisher,
                channels,
                node_name=options.node_name,
                clock=client.clock,
                randomness=client.randomness,
                metrics=metrics,
            )

    @property
    def holds_lease(self) -> bool:
        """Whether this agent, and no other, may claim for the node now."""
        return self._leased_engine.holds_lease

    @property
    def last_error(self) -> Exception | None:
        """The error of the last pass over the events; None: it succeeded."""
        return self._leased_engine.last_error

    @property
    def node_is_missing(self) -> bool:
        """Whether there is no such node. Only the holder of the node's Lease reads it."""
        return self._leased_engine.node_is_missing

    def give_precedence(self, precedence: Precedence | None) -> None:
        """From now on the claimant carries out the events of one driver only; None: all events."""
        self._leased_engine.give_precedence(precedence)

    async def run(self) -> None:
        """Run until cancelled. That cancels driver calls in progress; the next agent repeats them."""
        async with (
            self._recorder.running(),
            self._transitions.running(),
            tasks.TaskScope("agent", on_exit=tasks.OnExit.CANCEL) as scope,
        ):
            scope.start(self.lease_namespace.run(), name="namespace")
            scope.start(self._contact.run(), name="contact")
            if self._registry is not None:
                scope.start(self._publisher.run(), name="publisher")
                scope.start(self._registry.run(), name="plugins")
            await self._leased_engine.run()
