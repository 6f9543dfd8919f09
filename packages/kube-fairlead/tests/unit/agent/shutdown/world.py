"""A node that the test shuts down: an API server in process, containers that outlive agents, on virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import pathlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from kube_fairlead.agent.agent import Agent, AgentOptions
from kube_fairlead.agent.shutdown.event_recorder import ShutdownEventRecorder
from kube_fairlead.agent.shutdown.manager import ShutdownDependencies, ShutdownManager, ShutdownOptions
from kube_fairlead.agent.shutdown.pod_runtime import OnExit, RunningPod, RuntimeFailed
from kube_fairlead.agent.shutdown.state_file import Boot
from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node, Pod
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.scheduling_v1 import PriorityClass
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.metrics import DiscardedMetrics, PrometheusMetrics
from kube_fairlead.client import errors
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.client.transport import Request, Response
from kube_fairlead.lifecycle.facts import Precedence, Settings
from kube_fairlead.lifecycle.shutdown_config import Period, ShutdownConfig
from kube_fairlead.lifecycle.shutdown_status import ContainerEnd
from tests.unit.claimant.world import NODE, Mortal, NoChannels, World, a_world

PERIODS = (Period(0, 20), Period(1000, 10), Period(2000000000, 10))


class Machinery:
    """The machine and its containers: what no agent's death changes."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.began = clock.monotonic()
        self.boot = Boot("boot-1", clock.now())
        self.preparing: bool | None = False
        self.announcements: asyncio.Queue[bool] = asyncio.Queue()
        self.is_held = True
        self.containers: dict[str, Container] = {}
        self.log: list[str] = []
        self.kubelet = "running"
        self.kubelet_holds = False
        self.kubelet_refuses = 0  # so many starts fail
        self.problem = ""
        self.kill_seconds = 0.0  # from SIGKILL until the runtime says that a container is gone
        self.sandbox_seconds = 0.0
        self.torn_down: list[str] = []

    def note(self, text: str) -> None:
        self.log.append(f"{self.clock.monotonic() - self.began:g} {text}")

    def go_down(self) -> None:
        self.began = self.clock.monotonic()
        self.preparing = True
        self.announcements.put_nowait(True)

    def call_off(self) -> None:
        self.preparing = False
        self.is_held = True
        self.announcements.put_nowait(False)

    def reboot(self) -> None:
        self.preparing = False
        self.is_held = True
        self.announcements = asyncio.Queue()
        self.boot = Boot("boot-2", self.clock.now())
        self.kubelet = "running"
        self.containers.clear()

    # What an agent sees of it: an ear, a runtime, a kubelet.

    @contextlib.asynccontextmanager
    async def running_ear(self, needed_seconds: float) -> AsyncIterator[None]:
        self.needed_seconds = needed_seconds
        yield

    async def next_announcement(self) -> bool:
        return await self.announcements.get()

    async def release(self) -> None:
        self.is_held = False
        self.note("released")

    async def running(self) -> Sequence[RunningPod]:
        return [container.pod for container in self.containers.values() if container.code is None]

    async def end(
        self, pod: RunningPod, *, grace_seconds: float, hooks: Mapping[str, Mapping[str, Any]], on_exit: OnExit
    ) -> Mapping[str, ContainerEnd]:
        container = self.containers[pod.uid]
        if container.asked is None:
            container.asked = self.clock.monotonic()
            container.given = grace_seconds
            self.note(f"TERM {pod.name} {grace_seconds:g}")
            if hooks:
                self.note(f"preStop {pod.name} {sorted(hooks)}")
        needs = container.needs - (self.clock.monotonic() - container.asked)
        if needs > grace_seconds:
            await self.clock.sleep(grace_seconds)
            await self.clock.sleep(self.kill_seconds)
            container.code = 137
        else:
            await self.clock.sleep(needs)
            container.code = container.exits
        self.note(f"exit {pod.name} {container.code}")
        end = ContainerEnd(container.code, self.clock.now())
        on_exit("c", end)
        return {"c": end}

    async def tear_down(self, pod: RunningPod) -> None:
        await self.clock.sleep(self.sandbox_seconds)
        self.torn_down.append(pod.name)

    async def ended(self, pod: RunningPod) -> Mapping[str, ContainerEnd]:
        container = self.containers.get(pod.uid)
        if container is None or container.code is None:
            return {}
        return {"c": ContainerEnd(container.code, self.clock.now())}

    async def ends_pods(self) -> bool:
        return self.kubelet_holds

    async def stop(self) -> None:
        self.kubelet = "stopped"
        self.note("kubelet stopped")

    async def start(self) -> None:
        if self.kubelet_refuses:
            self.kubelet_refuses -= 1
            raise RuntimeFailed("it does not start")
        self.kubelet = "running"
        self.note("kubelet started")


@dataclasses.dataclass(eq=False)
class Container:
    pod: RunningPod
    needs: float
    exits: int
    code: int | None = None
    asked: float | None = None
    given: float | None = None


class FakeListener:
    """The machine's ear; its `running` is another thing than the runtime's."""

    def __init__(self, machine: Machinery) -> None:
        self._machine = machine
        self.running = machine.running_ear
        self.next_announcement = machine.next_announcement
        self.release = machine.release

    @property
    def preparing(self) -> bool | None:
        return self._machine.preparing

    @property
    def problem(self) -> str:
        return self._machine.problem


@dataclasses.dataclass(eq=False)
class Life:
    """One life of a manager."""

    manager: ShutdownManager
    transport: Mortal
    task: asyncio.Task[None]
    metrics: PrometheusMetrics
    interruptions: list[str]

    def swallow(self) -> None:
        """From now on the API server takes requests and never answers."""

        async def send(request: Request) -> Response:
            del request
            await asyncio.Event().wait()
            raise AssertionError("no test sets it")

        self.transport.send = send  # type: ignore[method-assign]  # a server that swallows

    def lose_answer(self, method: str, path: str) -> None:
        """The next such request is done, and its answer is lost."""
        send, left = self.transport.send, [True]

        async def lose(request: Request) -> Response:
            response = await send(request)
            if left and request.method == method and request.path.endswith(path):
                left.clear()
                raise errors.ConnectionBroken("the answer is lost")
            return response

        self.transport.send = lose  # type: ignore[method-assign]  # a connection that breaks

    def conflict(self, method: str, path: str) -> None:
        """The next such request conflicts with another client's write."""
        send, left = self.transport.send, [True]

        async def meet(request: Request) -> Response:
            if left and request.method == method and request.path.endswith(path):
                left.clear()
                raise api_errors.Conflict("the object has been modified")
            return await send(request)

        self.transport.send = meet  # type: ignore[method-assign]  # a server that is asked by others too

    async def kill(self) -> None:
        self.transport.died.set()
        await self.stop()

    async def stop(self) -> None:
        self.task.cancel()
        while not self.task.done():
            await self.transport.clock.advance(0.001)


class NodeWorld:
    def __init__(self, world: World, folder: pathlib.Path) -> None:
        self.api = world
        self.clock = world.clock
        self.folder = folder
        self.machine = Machinery(world.clock)
        self.lives: list[Life] = []
        self.owner = "agent"
        self.kubelet_is_configured = False
        self.config = ShutdownConfig(PERIODS)
        self.own_pods: frozenset[str] = frozenset()
        self.agent: Agent | None = None  # beside the keepers; None: each brings its own

    async def pod(
        self,
        name: str,
        priority: int | None = None,
        grace: int | None = None,
        *,
        needs: float = 0.0,
        exits: int = 0,
        owner: str = "",
        runs: bool = True,
        **spec: Any,
    ) -> Pod:
        owners = [await self._owner(owner)] if owner else []
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "ownerReferences": owners},
            "spec": {"nodeName": NODE, "containers": [{"name": "c", "image": "i", **spec}]},
        }
        if priority is not None:
            body["spec"]["priorityClassName"] = await self._class(priority)
        if grace is not None:
            body["spec"]["terminationGracePeriodSeconds"] = grace
        pods = self.api.admin.of(Pod)
        made = await pods.create(wire.from_dict(Pod, body))
        if runs:
            container = {"name": "c", "ready": True, "image": "i", "imageID": "i", "restartCount": 0}
            container["state"] = {"running": {"startedAt": "2026-03-01T12:00:00Z"}}
            ready = {"type": "Ready", "status": "True"}
            tree = wire.to_dict(made)
            tree["status"] = {"phase": "Running", "conditions": [ready], "containerStatuses": [container]}
            made = await pods.update_status(wire.from_dict(Pod, tree))
            running = RunningPod(uid=made.uid, namespace="default", name=name)
            self.machine.containers[made.uid] = Container(running, needs, exits)
        return made

    async def _owner(self, kind: str) -> dict[str, Any]:
        """One that exists: the garbage collector looks."""
        labels = {"app": "a"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        body = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": "o", "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }
        kinds = self.api.admin.of(GroupVersionResource("apps", "v1", f"{kind.lower()}s"))
        made = await kinds.create(body, namespace="default")
        return {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": made["metadata"]["uid"], "controller": True}

    async def _class(self, priority: int) -> str:
        """Admission takes a pod's priority from its class."""
        if priority >= 2000000000:
            return "system-cluster-critical"
        name = f"priority-{priority}"
        with contextlib.suppress(api_errors.AlreadyExists):
            made = PriorityClass(metadata=ObjectMeta(name=name), value=priority)
            await self.api.admin.of(PriorityClass).create(made)
        return name

    def beside(self, agent: Agent) -> None:
        """The keepers and this agent are one process."""
        self.agent = agent

    def start(self) -> Life:
        transport = Mortal(self.api._in_process("agent", "system:masters"), self.clock)
        client = self.api.client(transport)
        metrics = PrometheusMetrics()
        recorder = EventRecorder(client, controller="fairlead.dev/agent", instance=NODE)

        # What has finished stays to be looked at.
        settings = Settings(keep_finished=dt.timedelta(hours=1))
        options = AgentOptions(node_name=NODE, identity="agent", settings=settings)
        agent = self.agent or Agent(client, options, NoChannels(), DiscardedMetrics())
        interruptions: list[str] = []
        give_precedence = agent.give_precedence

        def noted(precedence: Precedence | None) -> None:
            interruptions.append("" if precedence is None else precedence.why)
            give_precedence(precedence)

        agent.give_precedence = noted  # type: ignore[method-assign]  # the test looks on
        manager = ShutdownManager(
            client,
            ShutdownOptions(
                node_name=NODE,
                config=self.config,
                folder=self.folder,
                owner=self.owner,
                kubelet_is_configured=self.kubelet_is_configured,
                own_pods=self.own_pods,
            ),
            ShutdownDependencies(
                listener=FakeListener(self.machine),
                runtime=self.machine,
                kubelet=self.machine,
                boot=self.machine.boot,
                agent=agent,
            ),
            ShutdownEventRecorder(recorder, metrics),
        )
        own = None if self.agent is not None else agent
        task = self.api.scope.start(_alive(manager, recorder, own), name=f"manager-{len(self.lives)}")
        self.lives.append(Life(manager, transport, task, metrics, interruptions))
        return self.lives[-1]

    async def status(self, name: str) -> str:
        page = await self.api.admin.of(Pod).list(namespace="default", field_selector=f"metadata.name={name}")
        if not page.items:
            return "gone"
        pod = page.items[0]
        return f"{pod.status.phase} {pod.status.reason}".strip() + (" deleting" if pod.deleting else "")

    async def node(self) -> Node:
        return await self.api.nodes.get(NODE)

    async def conditions(self) -> dict[str, tuple[str, str]]:
        return {one.type: (one.status, one.reason) for one in (await self.node()).status.conditions}

    async def event(self) -> LifecycleEvent | None:
        page = await self.api.events.list()
        return page.items[0] if page.items else None

    async def wait(self, holds: Any, *, seconds: float = 120.0, step: float = 0.05) -> None:
        """Let time pass until something is so."""
        passed = 0.0
        while not holds():
            assert passed < seconds, "it never came to be"
            for life in self.lives:
                if life.task.done() and not life.task.cancelled():
                    life.task.result()
            await self.clock.advance(step)
            passed += step


async def _alive(manager: ShutdownManager, recorder: EventRecorder, agent: Agent | None) -> None:
    with contextlib.suppress(errors.ClientError):
        async with recorder.running(), tasks.TaskScope("process", on_exit=tasks.OnExit.CANCEL) as scope:
            if agent is not None:
                scope.start(agent.run(), name="agent")
            await manager.run()


@contextlib.asynccontextmanager
async def a_node(server_folder: pathlib.Path, folder: pathlib.Path) -> AsyncIterator[NodeWorld]:
    async with a_world(server_folder) as world:
        made = NodeWorld(world, folder)
        try:
            yield made
        finally:
            for life in made.lives:
                await life.stop()
