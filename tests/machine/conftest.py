from __future__ import annotations

import asyncio
import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import grpclib.server
import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node, Pod
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.scheduling_v1 import PriorityClass
from kube_fairlead.client.client import Client
from kube_fairlead_lab.testing import EmbeddedControlPlane
from kube_fairlead_lab.testing.plugin import watch_over
from tests.machine.machine import Machine, a_machine
from tests.unit.agent.shutdown.cri.fakeruntime import FakeRuntime

_UNIT = """[Unit]
After=systemd-logind.service
StartLimitIntervalSec=0
[Service]
ExecStart={python} -m kube_fairlead.cli agent --kubeconfig=/share/kubeconfig --node-name=node-1 \\
  --config=/share/agent.yaml --registry-dir=/share/registry --state-dir=/share/state --v=4
Restart=always
RestartSec=100ms
NotifyAccess=main
FileDescriptorStoreMax=1
StandardOutput=append:/share/agent.log
StandardError=append:/share/agent.log
"""
# Long enough for a machine that is busy with other tests; pods that end early cost no more than they need.
_PRIORITIES = """shutdownGracePeriodByPodPriority:
- {priority: 0, shutdownGracePeriodSeconds: 60}
- {priority: 1000, shutdownGracePeriodSeconds: 60}
- {priority: 2000000000, shutdownGracePeriodSeconds: 30}
containerRuntimeEndpoint: unix:///share/cri.sock
"""


class RealNode:
    """A node whose systemd, logind, agent and API server are real; its containers are played."""

    def __init__(self, machine: Machine, plane: EmbeddedControlPlane, client: Client, runtime: FakeRuntime) -> None:
        self.machine = machine
        self.plane = plane
        self.client = client
        self.runtime = runtime
        self.began = 0.0

    async def boot(self) -> None:
        await asyncio.to_thread(self.machine.boot)

    async def start_agent(self) -> None:
        """Until it has its lock, logind waits long enough, and which pods there are is written down."""
        await self.inside("systemctl", "start", "fairlead-agent")
        await self.until(lambda: "shutdown lock acquired" in self.agent_log(), "the agent has its lock")
        await self.until(lambda: "InhibitDelayMaxSec raised" in self.agent_log(), "logind waits long enough")
        await self.until((self.machine.share / "state/shutdown/pods.json").exists, "pods are written down")

    async def kill_agent(self) -> None:
        """kill -9; systemd starts it again."""
        began = self.agent_log().count("fairlead agent runs for")
        await self.inside("systemctl", "kill", "--signal=SIGKILL", "--kill-who=main", "fairlead-agent")
        await self.until(lambda: self.agent_log().count("fairlead agent runs for") > began, "it is started again")

    def agent_log(self) -> str:
        path = self.machine.share / "agent.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def state(self) -> str:
        """What the node remembers of its shutdown."""
        path = self.machine.share / "state/shutdown/shutdown-state.json"
        return path.read_text() if path.exists() else ""

    def cached_pods(self) -> str:
        """What the node remembers of its pods."""
        path = self.machine.share / "state/shutdown/pods.json"
        return path.read_text() if path.exists() else ""

    async def inside(self, *command: str, check: bool = True) -> str:
        done = await asyncio.to_thread(self.machine.run, *command, check=check)
        return done.stdout

    async def poweroff(self) -> None:
        self.began = time.monotonic()
        await self.inside("systemctl", "poweroff")

    async def pod(self, name: str, priority: int = 0, needs: float = 0.0, grace: int = 60) -> None:
        """One whose container is played: it takes that long to end."""
        self.runtime.add(name, await self.running_pod(name, priority, grace), needs=needs, pod=name)

    async def running_pod(self, name: str, priority: int, grace: int, hook: dict[str, Any] | None = None) -> str:
        """One that runs, as far as the API knows; its uid."""
        classes = {0: "", 1000: "middle", 2000000000: "system-cluster-critical"}
        spec: dict[str, Any] = {"nodeName": "node-1", "containers": [{"name": name, "image": "i"}]}
        if hook is not None:
            spec["containers"][0]["lifecycle"] = {"preStop": hook}
        spec |= {"priorityClassName": classes[priority], "terminationGracePeriodSeconds": grace}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        pods = self.client.of(Pod)
        made = await pods.create(wire.from_dict(Pod, body))
        tree = wire.to_dict(made)
        container = {"name": name, "ready": True, "image": "i", "imageID": "i", "restartCount": 0}
        container["state"] = {"running": {"startedAt": "2026-03-01T12:00:00Z"}}
        tree["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        tree["status"]["containerStatuses"] = [container]
        await pods.update_status(wire.from_dict(Pod, tree))
        return made.uid

    async def phase(self, name: str) -> str:
        status = (await self.client.of(Pod).get(name, namespace="default")).status
        return f"{status.phase} {status.reason}".strip()

    async def exit_code(self, name: str) -> int | None:
        (container,) = (await self.client.of(Pod).get(name, namespace="default")).status.container_statuses
        return None if container.state.terminated is None else container.state.terminated.exit_code

    async def node(self) -> Node:
        return await self.client.of(Node).get("node-1")

    async def events(self) -> list[LifecycleEvent]:
        return list((await self.client.of(LifecycleEvent).list()).items)

    def asked(self, name: str) -> float:
        """When a container was asked to end, in seconds since the machine was told to go down."""
        return self.runtime.asked[name] - self.began

    async def until(self, holds: Callable[[], object], what: str, timeout_seconds: float = 120) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not holds():
            assert time.monotonic() < deadline, f"{what}: not after {timeout_seconds:g} s\n{self.machine.console()}"
            await asyncio.sleep(0.02)

    async def wait_off(self) -> float:
        """Wait until the machine is down; how long that took."""
        await self.until(lambda: not self.machine.is_up, "the machine is down")
        return time.monotonic() - self.began


@pytest.fixture
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedControlPlane]:
    yield from watch_over(request.config, EmbeddedControlPlane(tmp_path_factory.mktemp("apiserver")))


@pytest.fixture
def machine() -> Iterator[Machine]:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fl-"))
    with a_machine(folder) as made:
        yield made
        print(made.console())  # noqa: T201 - pytest shows it beside a failure
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def node(machine: Machine, plane: EmbeddedControlPlane) -> AsyncIterator[RealNode]:
    (machine.share / "agent.yaml").write_text(_PRIORITIES)
    (machine.share / "kubeconfig").write_text(plane.kubeconfig.read_text())
    machine.unit("fairlead-agent.service", _UNIT.format(python=sys.executable))
    runtime = FakeRuntime()
    server = grpclib.server.Server([runtime])
    await server.start(path=str(machine.share / "cri.sock"))
    async with plane.client() as client:
        await client.of(Node).create(Node(metadata=ObjectMeta(name="node-1")))
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
        await client.of(PriorityClass).create(wire.from_dict(PriorityClass, body | {"metadata": {"name": "middle"}}))
        yield RealNode(machine, plane, client, runtime)
    server.close()
    await server.wait_closed()
