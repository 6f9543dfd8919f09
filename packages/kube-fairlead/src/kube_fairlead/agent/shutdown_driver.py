"""The built-in driver `fairlead.dev/shutdown`: it connects the agent's claimant with a shutdown of the machine.

The agent creates a LifecycleEvent as a user does. The claimant claims it, adds the finalizer, calls this driver, stores
the terminal status and deletes the event, as for every other driver. Start returns at once. End returns when the
shutdown is over. A machine that goes down ends the process before that, and the driver of the next process answers.

Three things differ from other drivers, and are data for `lifecycle.decisions`:

1. It has precedence during a shutdown (`facts.Precedence`).
2. The agent writes the node's conditions itself (`facts.DriverTraits`): the node shows the shutdown even where its
   event cannot be claimed, because the lifecycle API is off or another claimant holds the node's Lease.
3. It survives a reboot (`facts.DriverTraits`): it answers for an event of an earlier boot, also after the deadline.

It is registered only while the agent has a shutdown to carry out or to finish.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from kube_fairlead.agent.agent import Agent
from kube_fairlead.agent.shutdown.state_file import Boot, ShutdownState
from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent, LifecycleTransition
from kube_fairlead.api.reserved import DRIVER_SHUTDOWN, NODE_SHUTDOWN
from kube_fairlead.claimant.driver_directory import Registration
from kube_fairlead.client import retry
from kube_fairlead.client.client import Client
from kube_fairlead.driverapi.errors import DriverRefused
from kube_fairlead.driverapi.memory_channel import MemoryChannel
from kube_fairlead.driverapi.messages import OfferedTransition, Progress, Reached, Work
from kube_fairlead.lifecycle import claims, shutdown_events
from kube_fairlead.lifecycle.facts import DriverTraits
from kube_fairlead.lifecycle.shutdown_recovery import MESSAGE_CANCELLED, MESSAGE_REBOOTED, ShutdownEvidence

__all__ = ["NotYet", "ShutdownDriver"]

_OFFER: Final = OfferedTransition(name=NODE_SHUTDOWN.name, start=NODE_SHUTDOWN.start, end=NODE_SHUTDOWN.end)


class NotYet(Exception):
    """Raised when a step has to wait for the claimant of the node."""


class _Shutdown:
    """The current shutdown."""

    def __init__(self, event_name: str) -> None:
        self.event_name = event_name
        self.is_claimed = asyncio.Event()
        self.is_over = asyncio.Event()


class ShutdownDriver:
    """The driver of one agent, and the agent's requests to its claimant.

    Raises (`request`, `check_settled`, `evidence`): what the client raises when the server cannot be reached.
    """

    def __init__(self, client: Client, agent: Agent, boot: Boot) -> None:
        once = client.with_retry(retry.NEVER)
        self._events = once.of(LifecycleEvent)
        self._nodes = once.of(Node)
        self._transitions = once.of(LifecycleTransition)
        self._clock = client.clock
        self._agent = agent
        self._boot = boot
        self._node_name = agent.options.node_name
        self._current: _Shutdown | None = None
        self._is_registered = False
        self._registration = Registration(
            driver=DRIVER_SHUTDOWN,
            endpoint="",
            owner=0,
            channel=MemoryChannel(self),
            transitions=(_OFFER,),
        )
        agent.directory.declare(DRIVER_SHUTDOWN, DriverTraits(writes_conditions=True, survives_reboot=True))

    # ---- for the agent

    def begin(self, state: ShutdownState) -> None:
        """A shutdown begins: its event has precedence over all others of the node."""
        self.conclude()
        self._current = _Shutdown(shutdown_events.event_name(self._node_name, state.start_time))
        self._agent.give_precedence(shutdown_events.precedence(self._node_name, state.start_time, state.periods))

    def conclude(self) -> None:
        """The shutdown is over: the driver reports to the claimant how it ended, and how earlier ones ended."""
        if self._current is not None:
            self._current.is_over.set()
            self._current = None
        if not self._is_registered:
            self._agent.directory.add(self._registration)
            self._is_registered = True

    def yield_precedence(self) -> None:
        """The claimant carries out other events again."""
        self._agent.give_precedence(None)

    def unregister(self) -> None:
        """Every shutdown is finished."""
        if self._is_registered:
            self._agent.directory.remove(self._registration)
            self._is_registered = False

    async def request(self, state: ShutdownState) -> None:
        """Create the event of the shutdown, if there is none.

        Raises:
            NotYet: this agent's claimant does not hold the node's Lease, so another agent may create an event.
        """
        if not self._agent.holds_lease:
            raise NotYet("the agent does not hold the lease of the node")
        try:
            event = await self._events.get(shutdown_events.event_name(self._node_name, state.start_time))
        except api_errors.NotFound:
            event = await self._create(state)
        if event.finished and self._current is not None:
            self._current.is_claimed.set()

    async def wait_claimed(self, seconds: float) -> bool:
        """Wait until claim, finalizer and start of the event are stored, at most so long; whether they are."""
        current = self._current
        if current is None:
            return True
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(seconds):
                await current.is_claimed.wait()
        return current.is_claimed.is_set()

    async def check_settled(self) -> None:
        """Every event of a shutdown of this node has its terminal status.

        Raises:
            NotYet: one does not.
        """
        for event in await self._list():
            if shutdown_events.is_unsettled(event):
                raise NotYet(f"event {event.name} is {event.claim_status}")

    async def evidence(self) -> ShutdownEvidence | None:
        """What a claimed event contains about a shutdown, for an agent that starts."""
        own = claims.node_claimant(self._node_name)
        for event in await self._list():
            status = event.status
            if event.claim_status is ClaimStatus.CLAIMED and status.claimed_by == own:
                otherwise = status.claim_time or event.metadata.creation_timestamp
                return shutdown_events.evidence(status.options, otherwise)
        return None

    # ---- for the claimant

    async def get_transitions(self, node_name: str) -> Sequence[OfferedTransition]:
        """The reserved transition."""
        del node_name
        return (_OFFER,)

    async def start(self, work: Work) -> Reached:
        """The machine goes down already: nothing is left to start."""
        self._evidence_of(work)
        return Reached(state=work.start, node_name=work.node_name)

    async def end(self, work: Work, on_progress: Callable[[Progress], None]) -> Reached:
        """Wait until the shutdown is over, or answer for an earlier one."""
        del on_progress
        evidence, current = self._evidence_of(work), self._current
        if current is not None and current.event_name == work.event_name:
            current.is_claimed.set()
            await current.is_over.wait()
        if evidence.is_of_boot(self._boot.boot_id, self._boot.booted_at):
            raise DriverRefused(MESSAGE_CANCELLED)
        return Reached(state=work.end, node_name=work.node_name, message=MESSAGE_REBOOTED)

    def _evidence_of(self, work: Work) -> ShutdownEvidence:
        evidence = shutdown_events.evidence(work.options)
        if evidence is None:
            raise DriverRefused("only the agent of a node creates the event of a shutdown")
        return evidence

    # ---- requests

    async def _list(self) -> list[LifecycleEvent]:
        page = await self._events.list(field_selector=f"spec.bindingNode={self._node_name}")
        return [event for event in page.items if event.spec.transition_name == NODE_SHUTDOWN.name]

    async def _create(self, state: ShutdownState) -> LifecycleEvent:
        try:
            await self._transitions.get(NODE_SHUTDOWN.name)
        except api_errors.NotFound:
            await self._transitions.create(shutdown_events.new_transition())
        try:
            node_boot_id = (await self._nodes.get(self._node_name)).status.node_info.boot_id
        except api_errors.NotFound:
            node_boot_id = ""
        event = shutdown_events.new_event(
            self._node_name, state.start_time, boot_id=state.boot_id, node_boot_id=node_boot_id
        )
        return await self._events.create(event)
