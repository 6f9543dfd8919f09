"""Many hollow nodes, each with its own agent, in one process.

`python -m bench.agents_fleet KUBECONFIG NODES` says `ready` when every agent holds its node's Lease, and runs until its
standard input ends. Every agent has its own watches (Lease, events, transitions, node), its own engine and its own
election, as on a real node; they share the process, its event loop and its connection pool.
"""

from __future__ import annotations

import asyncio
import gc
import pathlib
import sys

import uvloop

from kube_fairlead import client
from kube_fairlead.agent.agent import Agent, AgentOptions
from kube_fairlead.base import logs, tasks
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.claimant.channels import GrpcChannels
from kube_fairlead.claimant.driver_directory import Registration
from kube_fairlead.driverapi.memory_channel import MemoryChannel
from kube_fairlead.drivers import sdk
from kube_fairlead.drivers.sdk.service import Service
from kube_fairlead_lab.hollow import HollowCluster, HollowOptions, plan_nodes

__all__ = ["DRIVER", "TRANSITION"]

DRIVER = "bench.example.com/nothing"
TRANSITION = sdk.Transition(name="nothing", start="NothingBegun", end="NothingDone")
# Agents that start at once; more would only wait for handshakes.
_AT_ONCE = 5


class _Nothing(sdk.Driver):
    """Finishes at once, so that only Fairlead's own steps are measured."""

    name = DRIVER
    transitions = (TRANSITION,)

    async def start(self, work: sdk.Work) -> None:
        """Do nothing."""

    async def end(self, work: sdk.Work, report: sdk.Report) -> None:
        """Do nothing."""


async def _run(kubeconfig: pathlib.Path, nodes: int) -> None:
    logs.configure(output="human", level="WARNING")
    plans = plan_nodes(nodes)
    starting = asyncio.Semaphore(_AT_ONCE)
    waiting = nodes
    all_hold = asyncio.Event()

    async def start(scope: tasks.TaskScope, connected: client.Client, node: str) -> None:
        nonlocal waiting
        agent = Agent(
            connected, AgentOptions(node_name=node, identity=f"{node}_bench"), GrpcChannels(), DiscardedMetrics()
        )
        channel = MemoryChannel(Service(_Nothing(), connected.clock))
        agent.directory.add(
            Registration(driver=DRIVER, endpoint="", owner=0, channel=channel, transitions=(TRANSITION,))
        )
        async with starting:
            scope.start(agent.run(), name=node)
            while not agent.holds_lease:
                await connected.clock.sleep(0.02)
        waiting -= 1
        if waiting == 0:
            all_hold.set()

    async with client.connect(kubeconfig_path=kubeconfig, component="bench") as connected:
        hollow = HollowCluster(connected, plans, HollowOptions(only_kubelets=True))
        async with hollow.running(), tasks.TaskScope("agents", on_exit=tasks.OnExit.CANCEL) as scope:
            for plan in plans:
                scope.start(start(scope, connected, plan.name), name=f"start-{plan.name}")
            await all_hold.wait()
            # A thousand agents in one heap would all wait for one garbage collector; on its own machine
            # an agent's heap is a thousandth of this. So existing objects are exempt from collection from now on.
            gc.collect()
            gc.freeze()
            gc.set_threshold(700, 100_000, 100)
            print("ready", flush=True)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(pathlib.Path(sys.argv[1]), int(sys.argv[2])))
