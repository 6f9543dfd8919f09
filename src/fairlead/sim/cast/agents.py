"""Agents: one per node, and now and then a twin that somebody started by mistake."""

from __future__ import annotations

from fairlead.agent.agent import Agent, AgentOptions
from fairlead.base.metrics import DiscardedMetrics
from fairlead.claimant.directory import Registration
from fairlead.driverapi.channel import DriverChannel, RegistrationChannel
from fairlead.sim.cast.drivers import DRIVER, OFFERED, DriverHost
from fairlead.sim.stage import Actor, Life, Stage

__all__ = ["add_agent"]


class _NoSockets:
    def registration(self, path: str) -> RegistrationChannel:
        raise NotImplementedError(path)

    def driver(self, path: str) -> DriverChannel:
        raise NotImplementedError(path)


def add_agent(stage: Stage, node_name: str, driver: DriverHost, *, name: str = "") -> Actor:
    """The agent of a node. It keeps its name over its lives, as one with a state folder does."""
    name = name or f"agent-{node_name}"

    async def main(life: Life) -> None:
        options = AgentOptions(node_name=node_name, identity=name, on_overrun=stage.exit_on_overrun(name))
        agent = Agent(stage.client(life), options, _NoSockets(), DiscardedMetrics())
        agent.directory.add(Registration(driver=DRIVER, endpoint="", owner=0, channel=driver, transitions=OFFERED))
        await agent.run()

    return stage.add(name, main)
