"""The whole agent of one node: what it is made of, and in which order that starts."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Final

from fairlead.agent.directory import Directory
from fairlead.agent.engine import Engine
from fairlead.agent.folder import SocketFolder
from fairlead.agent.plugins import Channels, PluginRegistry
from fairlead.agent.publishing import Publisher
from fairlead.agent.reporting import Reporter
from fairlead.api import errors as api_errors
from fairlead.api.core_v1 import Namespace
from fairlead.api.meta import ObjectMeta
from fairlead.api.reserved import NAMESPACE_NODE_LEASE
from fairlead.base import logs, tasks
from fairlead.base.backoff import Backoff
from fairlead.base.metrics import Metrics
from fairlead.client import errors as client_errors
from fairlead.client import follow
from fairlead.client.client import Client
from fairlead.client.recorder import EventRecorder
from fairlead.election import Candidate, Leadership, Lock, Rules, Term, Timing, guarded
from fairlead.lifecycle.facts import Settings

__all__ = ["LEASE_TIMING", "Agent", "AgentOptions"]

LEASE_TIMING: Final = Timing(lease_duration_seconds=60.0, renew_deadline_seconds=50.0, retry_period_seconds=10.0)
"""As seldom as a kubelet renews its own, and long enough to live through a restart of the API server."""

_RETRY: Final = Backoff(initial_seconds=0.5, factor=2.0, cap_seconds=10.0, jitter=0.3)

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """What an agent is for."""

    node_name: str
    identity: str  # in the node's Lease; see `identity`
    registry: Path | None = None  # None: no drivers but those inside this process
    settings: Settings = dataclasses.field(default_factory=Settings)
    claimant: str = ""  # node/<name> unless given
    timing: Timing = LEASE_TIMING


class Agent:
    """Looks after the events of one node whenever it holds the node's Lease, and registers drivers all the time."""

    def __init__(self, client: Client, options: AgentOptions, channels: Channels, metrics: Metrics) -> None:
        self.options = options
        self.directory = Directory()
        self.engine: Engine | None = None  # while this agent holds the Lease
        self._client = client
        self._recorder = EventRecorder(client, controller="fairlead.dev/agent", instance=options.node_name)
        self._reporter = Reporter(self._recorder, metrics)
        self._candidate = Candidate(
            client, Lock(NAMESPACE_NODE_LEASE, options.node_name), identity=options.identity, timing=options.timing
        )
        self._registry: PluginRegistry | None = None
        if options.registry is not None:
            self._registry = PluginRegistry(
                SocketFolder(options.registry, client.clock),
                self.directory,
                Publisher(client),
                channels,
                node_name=options.node_name,
                clock=client.clock,
                randomness=client.randomness,
                metrics=metrics,
            )
        self._interruption = ""

    @property
    def holds_lease(self) -> bool:
        """Whether this agent, and no other, may claim for the node now."""
        return self._candidate.is_valid

    @property
    def last_error(self) -> Exception | None:
        """What keeps it from its work, if something does."""
        return None if self.engine is None else self.engine.last_error

    def interrupt(self, why: str) -> None:
        """The node is going down: end what is under way, claim nothing but that. An empty reason takes it back."""
        self._interruption = why
        if self.engine is not None:
            self.engine.interrupt(why)

    async def run(self) -> None:
        """Run until cancelled. Driver calls under way are cancelled then; the next agent goes on with them."""
        rules = Rules(drain_seconds=0.0)
        async with self._recorder.running(), tasks.TaskScope("agent", on_exit=tasks.OnExit.CANCEL) as scope:
            scope.start(self._ensure_namespace(), name="namespace")
            if self._registry is not None:
                scope.start(self._registry.run(), name="plugins")
            await Leadership(self._candidate, self._lead, rules=rules).run()

    async def _lead(self, term: Term) -> None:
        _log.info("holds the lease of the node", node=self.options.node_name)
        engine = Engine(
            guarded(self._client, term),
            self.options.node_name,
            self.directory,
            self._reporter,
            claimant=self.options.claimant,
            settings=self.options.settings,
        )
        engine.interrupt(self._interruption)
        self.engine = engine
        try:
            async with tasks.TaskScope(term.owner, on_exit=tasks.OnExit.CANCEL) as scope:
                scope.start(engine.run(), name="engine")
                await term.stopping.wait()
        finally:
            self.engine = None

    async def _ensure_namespace(self) -> None:
        """Make the Leases' namespace where nobody has; on a cluster that was set up by manifests it is there."""
        namespaces = self._client.of(Namespace)
        wanted = Namespace(metadata=ObjectMeta(name=NAMESPACE_NODE_LEASE))
        delays = _RETRY.delays(self._client.randomness)
        while True:
            try:
                await namespaces.create(wanted)
            except (api_errors.ApiError, client_errors.ClientError) as error:
                # There already, or not for us to make: then somebody else has, or the Lease will tell of it.
                if not follow.is_transient(error):
                    return
                await self._client.clock.sleep(next(delays))
            else:
                return
