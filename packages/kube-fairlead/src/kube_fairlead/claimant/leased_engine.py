"""Holds the Lease of a node, and carries out its events during each term.

The Lease guards the node as a resourceVersion guards one event: only its holder claims. Two agents that were started
for one node by mistake, or an agent and the central claimer, never work on it at once; the second waits for the Lease.
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
"""Renewed as rarely as a kubelet renews its own, and long enough for a restart of the API server."""

_log = logs.get_logger(__name__)


class LeasedEngine:
    """Carries out the events of one node while it holds the node's Lease."""

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
        self._step_down: Callable[[], object] = lambda: None
        self._candidate = Candidate(
            client, Lock(NAMESPACE_NODE_LEASE, node_name), identity=identity, timing=timing, succeeds=succeeds
        )

    @property
    def holds_lease(self) -> bool:
        """Whether this claimant, and no other, may claim for the node now."""
        return self._candidate.is_valid

    @property
    def last_error(self) -> Exception | None:
        """The error of the last pass over the events; None: it succeeded."""
        return None if self.engine is None else self.engine.last_error

    @property
    def node_is_missing(self) -> bool:
        """Whether there is no such node. Only the holder of the Lease reads it."""
        return self.engine is not None and self.engine.node_is_missing

    def give_precedence(self, precedence: Precedence | None) -> None:
        """From now on only the events of one driver are carried out; None: all are."""
        self._precedence = precedence
        if self.engine is not None:
            self.engine.give_precedence(precedence)

    async def run(self) -> None:
        """Run until cancelled. That cancels driver calls in progress; the next holder of the Lease repeats them."""
        rules = Rules(drain_seconds=0.0)
        leadership = Leadership(self._candidate, self._lead, rules=rules, on_overrun=self._on_overrun)
        self._step_down = leadership.step_down
        await leadership.run()

    async def _lead(self, term: Term) -> None:
        _log.info("node lease acquired", node=self.node_name)
        client = guarded(self._client, term)
        engine = Engine(
            client,
            self.node_name,
            self._directory,
            self._reporter,
            self._transitions,
            claimant=self._claimant,
            settings=self._settings,
            step_down=self._step_down,
        )
        engine.give_precedence(self._precedence)
        self.engine = engine
        try:
            async with tasks.TaskScope(term.owner, on_exit=tasks.OnExit.CANCEL) as scope:
                scope.start(engine.run(), name="engine")
                scope.start(lease_owner.set_owner_reference(client, self.node_name), name="lease")
                await term.stopping.wait()
        finally:
            self.engine = None
