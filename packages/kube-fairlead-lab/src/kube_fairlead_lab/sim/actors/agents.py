"""Agents: one per node, and a second one for one node, started by mistake."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kube_fairlead.agent.agent import Agent, AgentOptions
from kube_fairlead.agent.shutdown.event_recorder import ShutdownEventRecorder
from kube_fairlead.agent.shutdown.manager import ShutdownDependencies, ShutdownManager, ShutdownOptions
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleTransition
from kube_fairlead.base import tasks
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.claimant.plugins import PluginRegistry
from kube_fairlead.claimant.transition_publisher import TransitionPublisher
from kube_fairlead.client.client import Client
from kube_fairlead.client.informer import Informer
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.driverapi.channels import DriverChannel, RegistrationChannel
from kube_fairlead.lifecycle.facts import Settings
from kube_fairlead_lab.sim.actors.drivers import DriverHost
from kube_fairlead_lab.sim.actors.machines import (
    SHUTDOWN,
    SimMachine,
    SimMemory,
    SimPodCache,
    SimRuntime,
    SimShutdownListener,
)
from kube_fairlead_lab.sim.actors.sockets import SimChannels, SimFolder
from kube_fairlead_lab.sim.environment import Actor, Environment, ProcessRun

__all__ = ["DRIVER_LOST", "add_agent", "add_part_time_agent"]

_RENEWAL: Final = dt.timedelta(seconds=20)  # short, so that a transition without a driver is collected within minutes
DRIVER_LOST: Final = dt.timedelta(seconds=30)
"""How long a claim without a deadline waits for a stopped driver."""


class _NoSockets:
    """No sockets: the simulated registry is created beside the agent and replaces the agent's own."""

    def registration(self, path: str) -> RegistrationChannel:
        raise NotImplementedError(path)

    def driver(self, path: str) -> DriverChannel:
        raise NotImplementedError(path)


def add_agent(
    environment: Environment,
    node_name: str,
    drivers: Mapping[str, DriverHost],
    *,
    driver_wait_seconds: float,
    machine: SimMachine | None = None,
    name: str = "",
) -> Actor:
    """Add the agent of a node. It keeps its identity over restarts, as an agent with a state folder does.

    With a machine it also handles the machine's shutdowns.
    """
    name = name or f"agent-{node_name}"
    settings = Settings(driver_wait=dt.timedelta(seconds=driver_wait_seconds), driver_lost=DRIVER_LOST)

    async def main(process_run: ProcessRun) -> None:
        client = environment.client(process_run)
        options = AgentOptions(
            node_name=node_name, identity=name, settings=settings, on_overrun=environment.exit_on_overrun(name)
        )
        agent = Agent(client, options, _NoSockets(), DiscardedMetrics())
        transitions = Informer(client.of(LifecycleTransition, keep=False))
        publisher = TransitionPublisher(client, transitions, renewal=_RENEWAL)
        registry = PluginRegistry(
            SimFolder(drivers, process_run.clock, name),
            agent.directory,
            publisher,
            SimChannels(drivers),
            node_name=node_name,
            clock=process_run.clock,
            randomness=process_run.randomness,
            metrics=DiscardedMetrics(),
        )
        async with transitions.running(), tasks.TaskScope("node", on_exit=tasks.OnExit.CANCEL) as scope:
            scope.start(publisher.run(), name="publisher")
            scope.start(registry.run(), name="plugins")
            if machine is not None:
                scope.start(_keep(client, machine, process_run, agent), name="shutdown")
            await agent.run()

    return environment.add(name, main)


def add_part_time_agent(environment: Environment, node_name: str) -> Actor:
    """Add an agent without drivers that runs for some seconds from time to time."""
    name = f"agent-{node_name}"

    async def main(process_run: ProcessRun) -> None:
        await process_run.clock.sleep(process_run.randomness.uniform(10.0, 60.0))
        options = AgentOptions(node_name=node_name, identity=name, on_overrun=environment.exit_on_overrun(name))
        agent = Agent(environment.client(process_run), options, _NoSockets(), DiscardedMetrics())
        with contextlib.suppress(TimeoutError):
            async with process_run.clock.timeout(process_run.randomness.uniform(5.0, 40.0)):
                await agent.run()

    return environment.add(name, main)


async def _keep(client: Client, machine: SimMachine, process_run: ProcessRun, agent: Agent) -> None:
    recorder = EventRecorder(client, controller="fairlead.dev/shutdown", instance=machine.node_name)
    manager = ShutdownManager(
        client,
        ShutdownOptions(node_name=machine.node_name, config=SHUTDOWN, folder=Path("/nowhere"), owner="agent"),
        ShutdownDependencies(
            listener=SimShutdownListener(machine),
            runtime=SimRuntime(machine, process_run.randomness),
            kubelet=machine,
            boot=machine.as_seen_by(process_run.clock),
            agent=agent,
        ),
        ShutdownEventRecorder(recorder, DiscardedMetrics()),
    )
    # The disk of the simulated machine, not of the host.
    manager.state_file = SimMemory(machine)
    manager.cache = machine.cache = SimPodCache(machine)
    async with recorder.running():
        await manager.run()
