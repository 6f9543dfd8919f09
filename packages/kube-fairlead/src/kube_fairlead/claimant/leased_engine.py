"""Holding the Lease of a node, and carrying out its events for as long as that lasts.

The Lease guards the node as a resource version guards one event: without it nobody claims. Two agents that were started
for one node by mistake, or an agent and the central claimer, never work on it at once; the second stands by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleTransition
from kube_fairlead.api.reserved import NAMESPACE_NODE_LEASE
from kube_fairlead.base import logs, tasks
from kube_fairlead.claimant import lease_owner
from kube_fairlead.claimant.driver_directory import DriverDirectory
from kube_fairlead.claimant.engine import Engine
from kube_fairlead.claimant.event_recorder import ClaimEventRecorder
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Informer
from kube_fairlead.election import Candidate, Leadership, Lock, Rules, Term, TermOverrun, Timing, end_process, guarded
from kube_fairlead.lifecycle.facts import Precedence, Settings

__all__ = ["LEASE_TIMING", "LeasedEngine"]

LEASE_TIMING: Final = Timing(lease_duration_seconds=60.0, renew_deadline_seconds=50.0, retry_period_seconds=10.0)
"""As seldom as a kubelet renews its own, and long enough to live through a restart of the API server."""

_log = logs.get_logger(__name__)


class LeasedEngine:
    """Carries out the events of one node whenever it holds the node's Lease."""

    def __init__(
        self,
        client: Client,
        node_name: str,
        directory: DriverDirectory,
        reporter: ClaimEventRecorder,
        transitions: Informer[LifecycleTransition],
        *,
        identity: str,
        claimant: str = "",
        settings: Settings | None = None,
        timing: Timing = LEASE_TIMING,
        succeeds: str = "",
        on_overrun: Callable[[TermOverrun], None] = end_process,
    ) -> None:
        self.node_name = node_name
        self.engine: Engine | None = None  # while the Lease is held
        self._client = client
        self._directory = directory
        self._reporter = reporter
        self._transitions = transitions
        self._claimant = claimant
        self._settings = settings or Settings()
        self._on_overrun = on_overrun
        self._precedence: Precedence | None = None
        self._step_aside: Callable[[], object] = lambda: None
        self._candidate = Candidate(
            client, Lock(NAMESPACE_NODE_LEASE, node_name), identity=identity, timing=timing, succeeds=succeeds
        )

    @property
    def holds_lease(self) -> bool:
        """Whether this claimant, and no other, may claim for the node now."""
        return self._candidate.is_valid

    @property
    def last_error(self) -> Exception | None:
        """What keeps it from its work, if something does."""
        return None if self.engine is None else self.engine.last_error

    @property
    def node_is_missing(self) -> bool:
        """Whether there is no such node, as far as is known."""
        return self.engine is not None and self.engine.node_is_missing

    def give_precedence(self, precedence: Precedence | None) -> None:
        """From now on only the events of one driver go on at the node; None: all do."""
        self._precedence = precedence
        if self.engine is not None:
            self.engine.give_precedence(precedence)

    async def run(self) -> None:
        """Run until cancelled. Driver calls under way are cancelled then; whoever holds the Lease next calls again."""
        rules = Rules(drain_seconds=0.0)
        leadership = Leadership(self._candidate, self._lead, rules=rules, on_overrun=self._on_overrun)
        self._step_aside = leadership.step_down
        await leadership.run()

    async def _lead(self, term: Term) -> None:
        _log.info("holds the lease of the node", node=self.node_name)
        client = guarded(self._client, term)
        engine = Engine(
            client,
            self.node_name,
            self._directory,
            self._reporter,
            self._transitions,
            claimant=self._claimant,
            settings=self._settings,
            step_aside=self._step_aside,
        )
        engine.give_precedence(self._precedence)
        self.engine = engine
        try:
            async with tasks.TaskScope(term.owner, on_exit=tasks.OnExit.CANCEL) as scope:
                scope.start(engine.run(), name="engine")
                scope.start(lease_owner.tie_to_node(client, self.node_name), name="lease")
                await term.stopping.wait()
        finally:
            self.engine = None
