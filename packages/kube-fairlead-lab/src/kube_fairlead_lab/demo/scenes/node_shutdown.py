"""KEP-4802 and KEP-5683's first story: a machine goes down, its agent is killed in the middle, and nobody forgets."""

from __future__ import annotations

import asyncio
import pathlib
import tempfile
from typing import Any

from kube_fairlead.agent.shutdown.keeper import Keeper, KeeperOptions, Parts
from kube_fairlead.agent.shutdown.telling import Teller
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node, Pod
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION, NODE_SHUTDOWN
from kube_fairlead.api.scheduling_v1 import PriorityClass
from kube_fairlead.base import tasks
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.client.informer import Handler, Informer
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.lifecycle.shutdown_config import read_shutdown_config
from kube_fairlead_lab.demo.hollowmachine import HollowMachine
from kube_fairlead_lab.demo.stage import Stage
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


async def play(stage: Stage) -> None:
    """The scene."""
    (plan,) = plan_nodes(1, prefix="tower-", clouds=[""])
    with tempfile.TemporaryDirectory(prefix="fl-") as folder:
        async with HollowCluster(stage.client, [plan]).running() as cluster:
            machine = HollowMachine(cluster.kubelet(plan.name), stage.clock)
            ready = _Readiness(stage, plan.name)
            async with ready.pods.running(), ready.node.running():
                await _furnish(stage, plan.name)
                await ready.until(len(_PODS))
                stage.say(f"{plan.name} runs web, database and network, in rising priority; they get 4 s, 4 s and 1 s")
                await _go_down(stage, machine, pathlib.Path(folder), ready)


async def _go_down(stage: Stage, machine: HollowMachine, folder: pathlib.Path, ready: _Readiness) -> None:
    name, runtime = machine.kubelet.name, machine.runtime
    async with tasks.TaskScope("demo scene", on_exit=tasks.OnExit.CANCEL) as scope:
        agent = scope.start(_keep(stage, machine, folder), name="agent")
        await _until(stage, (folder / "pods.json").exists)
        began = stage.clock.monotonic()
        stage.say(f"{name}$ systemctl poweroff")
        machine.go_down()
        await _until(stage, lambda: "database" in runtime.asked)
        stage.check(runtime.exit_codes == {"web": 0}, "web has ended, then database was asked to")
        stage.say("kill -9 of the agent, in the middle of it")
        await tasks.cancel_and_wait(agent)
        stage.check(not ready.is_ready, "the node does not claim to be ready, and takes no pods")
        scope.start(_keep(stage, machine, folder), name="agent again")
        stage.say("its next process finds the shutdown on the node's disk, and goes on with the time that is left")
        await machine.ear.released.wait()
        took = stage.clock.monotonic() - began
        stage.check(runtime.asked == ["web", "database", "network"], "the order was kept; nobody was asked twice")
        stage.check(
            runtime.exit_codes == {"web": 0, "database": 0, "network": 137},
            "only network, which ignores it, was killed",
        )
        stage.say(f"the machine was let go after {took:.1f} s; its pods might have taken 9 s")
    await _look(stage, name, ready)


async def _look(stage: Stage, name: str, ready: _Readiness) -> None:
    node = await stage.client.of(Node).get(name)
    state = node.condition(CONDITION_LIFECYCLE_TRANSITION)
    stage.check(state is not None and state.reason == NODE_SHUTDOWN.end, f"Node {name} says {NODE_SHUTDOWN.end}")
    stage.check(ready.was_ready_again == 0, "it was never ready again on the way")
    for pod, _, _ in _PODS:
        status = (await stage.client.of(Pod).get(pod, namespace=_NAMESPACE)).status
        stage.say(f"  pod/{pod}: {status.phase} {status.reason} {status.message}".rstrip())
    (event,) = (await stage.client.of(LifecycleEvent).list(field_selector=f"spec.bindingNode={name}")).items
    stage.check(
        event.claim_status == "Claimed",
        f"LifecycleEvent {event.name} stays Claimed until the end is seen from elsewhere",
    )


async def _keep(stage: Stage, machine: HollowMachine, folder: pathlib.Path) -> None:
    """One life of the node's agent, as far as shutdowns go."""
    recorder = EventRecorder(stage.client, controller="fairlead.dev/shutdown", instance=machine.kubelet.name)
    keeper = Keeper(
        stage.client,
        KeeperOptions(
            node_name=machine.kubelet.name, config=read_shutdown_config(_CONFIG), folder=folder, owner="agent"
        ),
        Parts(ear=machine.ear, runtime=machine.runtime, kubelet=machine, machine=machine.identity),
        Teller(recorder, DiscardedMetrics()),
    )
    async with recorder.running():
        await keeper.run()


async def _furnish(stage: Stage, node: str) -> None:
    important = PriorityClass(metadata=ObjectMeta(name="important"), value=1000)
    await stage.client.of(PriorityClass).create(important)
    for name, priority_class, ends in _PODS:
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "registry.example/main"}]}
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": _NAMESPACE, "annotations": {ANNOTATION_ENDS: ends}},
            "spec": spec | {"priorityClassName": priority_class},
        }
        await stage.client.of(Pod).create(wire.from_dict(Pod, body), namespace=_NAMESPACE)


class _Readiness:
    """Whether the node and its pods are ready, and how often the node was ready again after it was not."""

    def __init__(self, stage: Stage, node: str) -> None:
        self.node = Informer(stage.client.of(Node), field_selector=f"metadata.name={node}")
        self.pods = Informer(stage.client.of(Pod), namespace=_NAMESPACE, field_selector=f"spec.nodeName={node}")
        self.is_ready = False
        self.was_ready_again = 0
        self._went_down = False
        self._changed = asyncio.Event()
        self.node.add_handler(Handler(on_add=self._seen, on_update=lambda _old, new: self._seen(new)))
        self.pods.add_handler(
            Handler(on_add=lambda _new: self._changed.set(), on_update=lambda _old, _new: self._changed.set())
        )

    async def until(self, number: int) -> None:
        """Wait for the node and so many of its pods."""
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


async def _until(stage: Stage, holds: Any) -> None:
    while not holds():  # what a file or another's list holds has no event to wait for
        await stage.clock.sleep(0.02)
