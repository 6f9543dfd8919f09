"""Claims events of nodes that have no agent, and has drivers beside the manager carry them out.

The proposal's Lifecycle Controllers: for machines that nothing of ours runs on, when an administrator allows it. It is
the engine of the agents, once per node that has something for it, and under the same Lease: where an agent runs, the
claimer is passive. Its drivers register in a folder of the manager's own machine; an event whose driver is not among
them is left to an agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import functools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent, LifecycleTransition
from kube_fairlead.api.meta import KubeObject
from kube_fairlead.base import gates, logs, tasks
from kube_fairlead.base.identity import RandomIds
from kube_fairlead.claimant.channels import GrpcChannels
from kube_fairlead.claimant.driver_directory import DriverDirectory
from kube_fairlead.claimant.driver_probe import DriverProbe
from kube_fairlead.claimant.event_recorder import ClaimEventRecorder
from kube_fairlead.claimant.identity import held_identity
from kube_fairlead.claimant.lease_namespace import LeaseNamespace
from kube_fairlead.claimant.leased_engine import LeasedEngine
from kube_fairlead.claimant.plugins import Channels, PluginRegistry
from kube_fairlead.claimant.socket_folder import SocketFolder
from kube_fairlead.claimant.transition_publisher import TransitionPublisher
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.election import NotLeading
from kube_fairlead.lifecycle import claims
from kube_fairlead.lifecycle.facts import Settings
from kube_fairlead.manager import Context, Controller

__all__ = ["CLAIMER", "ClaimerOptions", "claimer"]

CLAIMER = "claimer"

# The same for all replicas: the next one continues the claims of the last. Leases are another matter: each process
# holds them under a name of its own, so that two that run at once (--leader-elect=false) never work on one node. Under
# an election the name begins with the manager's Lease: who holds that one knows that the claimer before has ended, and
# takes its nodes' Leases over at once. Were each change of leader to wait until they expire, a claim could stay past
# its deadline for as long as leaders change.
_CLAIMANT: Final = claims.central_claimant("central")

# A clock that is read a moment early would find nothing to do and wait for nothing.
_LATE_SECONDS: Final = 0.005

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClaimerOptions:
    """What the claimer is for."""

    registry: Path | None  # None: no drivers but those in `directory`
    settings: Settings = dataclasses.field(default_factory=Settings)
    directory: DriverDirectory | None = None  # a new one per term unless given
    channels: Channels = dataclasses.field(default_factory=GrpcChannels)


def claimer(options: ClaimerOptions) -> Controller:
    """The controller, for a manager to run. It runs only where it is named."""

    async def run(context: Context) -> None:
        await _Claimer(context, options).run()

    return Controller(name=CLAIMER, run=run, default=False, gate=gates.SPECIALIZED_LIFECYCLE_MANAGEMENT)


class _Claimer:
    """One run of it."""

    def __init__(self, context: Context, options: ClaimerOptions) -> None:
        self._context = context
        self._client = context.client
        self._identity = ""  # in Leases
        self._kin = f"{_CLAIMANT}_{context.lock.replace('/', '.')}" if context.lock else _CLAIMANT
        # Another claimant may be able to carry the event out.
        self._settings = dataclasses.replace(options.settings, leave_to_others=True)
        self._directory = options.directory or DriverDirectory()
        self._contact = DriverProbe(
            self._directory, node_name="", clock=self._client.clock, randomness=self._client.randomness
        )
        self._reporter = ClaimEventRecorder(context.recorder, context.metrics)
        self._wake = asyncio.Event()
        self._holders: dict[str, asyncio.Task[None]] = {}  # by node
        self._leaving: set[str] = set()  # those of them that are stopping
        self._events = Informer(self._client.of(LifecycleEvent, keep=False))
        self._transitions = Informer(self._client.of(LifecycleTransition, keep=False))
        self._nodes = Informer(self._client.of(Node, keep=False))
        self._folder = options.registry
        self._publisher = TransitionPublisher(self._client, self._transitions)
        self._registry = self._make_registry(options)
        self._held = context.metrics.gauge("fairlead_claimer_nodes", "Nodes with events that the claimer handles.")

    def _make_registry(self, options: ClaimerOptions) -> PluginRegistry | None:
        if options.registry is None:
            return None
        return PluginRegistry(
            SocketFolder(options.registry, self._client.clock),
            self._directory,
            self._publisher,
            options.channels,
            node_name="",  # their offers for any node are read
            clock=self._client.clock,
            randomness=self._client.randomness,
            metrics=self._context.metrics,
        )

    async def run(self) -> None:
        informers = (self._events, self._transitions, self._nodes)
        for informer in informers:
            informer.add_handler(
                Handler(on_add=self._changed, on_update=lambda _old, _new: self._wake.set(), on_delete=self._changed)
            )
        forget = self._directory.on_change(self._wake.set)
        try:
            async with (
                contextlib.AsyncExitStack() as checks,
                self._named() as self._identity,
                self._events.running(),
                self._transitions.running(),
                self._nodes.running(),
                tasks.TaskScope(CLAIMER, on_exit=tasks.OnExit.CANCEL) as scope,
            ):
                namespace = LeaseNamespace(self._client, self._context.recorder)
                checks.enter_context(self._context.ready.during(f"{CLAIMER}-namespace", namespace.verdict))
                scope.start(namespace.run(), name="namespace")
                scope.start(self._contact.run(), name="contact")
                if self._registry is not None:
                    scope.start(self._publisher.run(), name="publisher")
                    scope.start(self._registry.run(), name="plugins")
                if await self._context.wait_synced(*informers):
                    scope.start(self._follow(scope), name="follow")
                    await self._context.stopping.wait()
        finally:
            forget()
            self._held.set(0)

    @contextlib.asynccontextmanager
    async def _named(self) -> AsyncIterator[str]:
        """A name of its own, the same after a restart on the machine that the drivers are on."""
        ids, folder = RandomIds(self._client.randomness), self._folder
        if folder is None:
            yield f"{self._kin}_{ids.uuid()}"
            return
        stem = f"claimer-{folder.name}"
        async with held_identity(folder.parent, stem, self._kin, ids=ids, clock=self._client.clock) as name:
            yield name

    async def _follow(self, scope: tasks.TaskScope) -> None:
        """Have a holder for every node that needs one, and for no other."""
        while True:
            self._wake.clear()
            wanted, moment = self._nodes_to_hold()
            for name in self._holders.keys() - wanted - self._leaving:
                _log.info("node released", node=name)
                self._leaving.add(name)
                self._holders[name].cancel()
            # One that is leaving still gives its Lease back; another for the same node begins after that.
            for name in sorted(wanted - self._holders.keys()):
                self._holders[name] = scope.start(self._hold(name), name=name)
                self._holders[name].add_done_callback(functools.partial(self._has_left, name))
            self._held.set(len(self._holders))
            await self._wait(moment)

    def _has_left(self, node_name: str, _task: asyncio.Task[None]) -> None:
        del self._holders[node_name]
        self._leaving.discard(node_name)
        self._wake.set()

    def _nodes_to_hold(self) -> tuple[set[str], dt.datetime | None]:
        """The nodes that there is something to do for, and when there will be for another."""
        drivers = self._directory.drivers()
        transitions = {transition.name: transition for transition in self._transitions.store}
        events: dict[str, list[LifecycleEvent]] = {}
        for event in self._events.store:
            events.setdefault(event.spec.binding_node, []).append(event)
        wanted: set[str] = set()
        moments: list[dt.datetime] = []
        now = self._client.clock.now()
        for name, bound in events.items():
            node = self._nodes.store.get(name)
            if node is None:
                continue
            keep = self._settings.keep_finished
            moment = claims.lease_needed_from(node, bound, transitions, drivers, claimant=_CLAIMANT, keep=keep)
            if moment is not None and moment <= now:
                wanted.add(name)
            elif moment is not None:
                moments.append(moment)
        return wanted, min(moments, default=None)

    async def _wait(self, moment: dt.datetime | None) -> None:
        """Until something changes, or that moment has come."""
        clock = self._client.clock
        seconds = None if moment is None else max(0.0, (moment - clock.now()).total_seconds()) + _LATE_SECONDS
        with contextlib.suppress(TimeoutError):
            async with clock.timeout(seconds):
                await self._wake.wait()

    async def _hold(self, node_name: str) -> None:
        holder = LeasedEngine(
            self._client,
            node_name,
            self._directory,
            self._reporter,
            self._transitions,
            identity=self._identity,
            claimant=_CLAIMANT,
            settings=self._settings,
            # By the manager's own Lease, or by the locked file that holds this name, the earlier holder has ended.
            succeeds=f"{self._kin}_" if self._context.lock else self._identity,
        )
        try:
            await holder.run()
        except NotLeading:
            _log.info("stopping: the term ended", node=node_name)

    def _changed(self, _item: KubeObject) -> None:
        self._wake.set()
