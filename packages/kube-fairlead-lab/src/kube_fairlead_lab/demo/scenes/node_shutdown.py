"""KEP-4802 and KEP-5683: a node shuts down, its agent is killed, and the next agent resumes the shutdown."""

from __future__ import annotations

import asyncio
import pathlib
import tempfile
from typing import Any

from kube_fairlead.agent.agent import Agent, AgentOptions
from kube_fairlead.agent.shutdown.event_recorder import ShutdownEventRecorder
from kube_fairlead.agent.shutdown.manager import ShutdownDependencies, ShutdownManager, ShutdownOptions
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node, Pod
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION, NODE_SHUTDOWN
from kube_fairlead.api.scheduling_v1 import PriorityClass
from kube_fairlead.base import tasks
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.claimant.channels import GrpcChannels
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.lifecycle.shutdown_config import read_shutdown_config
from kube_fairlead_lab.demo.context import SceneContext
from kube_fairlead_lab.demo.hollow_machine import HollowMachine
from kube_fairlead_lab.hollow import ANNOTATION_ENDS, HollowCluster, plan_nodes

__all__ = ["play"]

_CONFIG: dict[str, Any] = {
    "shutdownGracePeriodByPodPriority": [
        {"priority": 0, "shutdownGracePeriodSeconds": 4},
        {"priority": 1000, "shutdownGracePeriodSeconds": 4},
        {"priority": 2000000000, "shutdownGracePeriodSeconds": 1},
    ]
}
_PODS = (("web", "", "1s"), ("database", "important", "1500ms"), ("network", "system-node-critical", "killed"))
_NAMESPACE = "default"


async def play(context: SceneContext) -> None:
    """Run the scene."""
    (plan,) = plan_nodes(1, prefix="tower-", clouds=[""])
    with tempfile.TemporaryDirectory(prefix="fl-") as folder:
        async with HollowCluster(context.client, [plan]).running() as cluster:
            machine = HollowMachine(cluster.kubelet(plan.name), context.clock)
            ready = _Readiness(context, plan.name)
            async with ready.pods.running(), ready.node.running():
                await _create_workloads(context, plan.name)
                await ready.until(len(_PODS))
                context.narrate(
                    f"{plan.name} runs web, database and network in rising priority, with 4 s, 4 s and 1 s to terminate"
                )
                await _go_down(context, machine, pathlib.Path(folder), ready)


async def _go_down(context: SceneContext, machine: HollowMachine, folder: pathlib.Path, ready: _Readiness) -> None:
    name, runtime = machine.kubelet.name, machine.runtime
    async with tasks.TaskScope("demo scene", on_exit=tasks.OnExit.CANCEL) as scope:
        agent = scope.start(_run_agent(context, machine, folder), name="agent")
        await _until(context, (folder / "pods.json").exists)
        began = context.clock.monotonic()
        context.narrate(f"{name}$ systemctl poweroff")
        machine.go_down()
        await _until(context, lambda: "database" in runtime.asked)
        context.check(runtime.exit_codes == {"web": 0}, "web has terminated; only then database is stopped")
        context.narrate("the agent is killed during the shutdown")
        await tasks.cancel_and_wait(agent)
        context.check(not ready.is_ready, "the Node stays NotReady, so no pod is scheduled on it")
        scope.start(_run_agent(context, machine, folder), name="agent again")
        context.narrate(
            "the next agent reads the shutdown's state from the node's disk and resumes with the time that is left"
        )
        await machine.listener.released.wait()
        took = context.clock.monotonic() - began
        context.check(runtime.asked == ["web", "database", "network"], "pods were stopped in order, each one once")
        context.check(
            runtime.exit_codes == {"web": 0, "database": 0, "network": 137},
            "only network, which ignores SIGTERM, was killed",
        )
        context.narrate(f"the agent released the inhibitor lock after {took:.1f} s of at most 9 s")
    await _check_result(context, name, ready)


async def _check_result(context: SceneContext, name: str, ready: _Readiness) -> None:
    node = await context.client.of(Node).get(name)
    state = node.condition(CONDITION_LIFECYCLE_TRANSITION)
    context.check(
        state is not None and state.reason == NODE_SHUTDOWN.end,
        f"Node {name} has the condition reason {NODE_SHUTDOWN.end}",
    )
    context.check(ready.was_ready_again == 0, "the Node was never Ready again during the shutdown")
    for pod, _, _ in _PODS:
        status = (await context.client.of(Pod).get(pod, namespace=_NAMESPACE)).status
        context.narrate(f"  pod/{pod}: {status.phase} {status.reason} {status.message}".rstrip())
    (event,) = (await context.client.of(LifecycleEvent).list(field_selector=f"spec.bindingNode={name}")).items
    context.check(
        event.claim_status == "Claimed",
        f"LifecycleEvent {event.name} stays Claimed until a controller sees the node down",
    )


async def _run_agent(context: SceneContext, machine: HollowMachine, folder: pathlib.Path) -> None:
    """Run the node's agent. Its only driver is its own, for shutdowns."""
    name = machine.kubelet.name
    recorder = EventRecorder(context.client, controller="fairlead.dev/shutdown", instance=name)
    agent = Agent(context.client, AgentOptions(node_name=name, identity=name), GrpcChannels(), DiscardedMetrics())
    manager = ShutdownManager(
        context.client,
        ShutdownOptions(node_name=name, config=read_shutdown_config(_CONFIG), folder=folder, owner="agent"),
        ShutdownDependencies(
            listener=machine.listener, runtime=machine.runtime, kubelet=machine, boot=machine.identity, agent=agent
        ),
        ShutdownEventRecorder(recorder, DiscardedMetrics()),
    )
    async with recorder.running(), tasks.TaskScope("agent", on_exit=tasks.OnExit.CANCEL) as scope:
        scope.start(agent.run(), name="claims")
        await manager.run()


async def _create_workloads(context: SceneContext, node: str) -> None:
    important = PriorityClass(metadata=ObjectMeta(name="important"), value=1000)
    await context.client.of(PriorityClass).create(important)
    for name, priority_class, ends in _PODS:
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "registry.example/main"}]}
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": _NAMESPACE, "annotations": {ANNOTATION_ENDS: ends}},
            "spec": spec | {"priorityClassName": priority_class},
        }
        await context.client.of(Pod).create(wire.from_dict(Pod, body), namespace=_NAMESPACE)


class _Readiness:
    """Whether the node and its pods are ready, and how often the node became ready again."""

    def __init__(self, context: SceneContext, node: str) -> None:
        self.node = Informer(context.client.of(Node), field_selector=f"metadata.name={node}")
        self.pods = Informer(context.client.of(Pod), namespace=_NAMESPACE, field_selector=f"spec.nodeName={node}")
        self.is_ready = False
        self.was_ready_again = 0
        self._went_down = False
        self._changed = asyncio.Event()
        self.node.add_handler(Handler(on_add=self._seen, on_update=lambda _old, new: self._seen(new)))
        self.pods.add_handler(
            Handler(on_add=lambda _new: self._changed.set(), on_update=lambda _old, _new: self._changed.set())
        )

    async def until(self, number: int) -> None:
        """Wait until the node is ready and this number of its pods run."""
        while not self.is_ready or sum(pod.status.phase == "Running" for pod in self.pods.store) < number:
            self._changed.clear()
            await self._changed.wait()

    def _seen(self, node: Node) -> None:
        ready = node.condition("Ready")
        now = ready is not None and ready.status == "True"
        self._went_down = self._went_down or (self.is_ready and not now)
        self.was_ready_again += self._went_down and now
        self.is_ready = now
        self._changed.set()


async def _until(context: SceneContext, holds: Any) -> None:
    while not holds():  # a file and a list have no event to wait for
        await context.clock.sleep(0.02)
