"""Nodes with pods that really end, agents and drain drivers as processes, and `fairlead drain` beside them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from kube_fairlead.api.reserved import LIFECYCLE_GROUP
from kube_fairlead.base.clock import RealClock
from kube_fairlead_lab.hollow import HollowCluster, HollowOptions, plan_nodes
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.manifests import pod as pod_manifest
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi

__all__ = ["SECONDS", "Fleet", "Running", "fleet_of"]

Json = dict[str, Any]

SECONDS = 90.0
LIFECYCLE = f"/apis/{LIFECYCLE_GROUP}/v1alpha1"


class Running:
    """A `fairlead` command that is under way."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.out = ""
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            self.out += line.decode()

    async def until(self, text: str) -> None:
        """Wait until it has said this."""
        clock = RealClock()
        try:
            async with clock.timeout(SECONDS):
                while text not in self.out:
                    assert not self._reading.done() or text in self.out, self.out
                    await clock.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"never said {text!r}: {self.out}") from None

    def interrupt(self) -> None:
        """As Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    async def ended(self) -> int:
        """Wait for its exit code."""
        async with RealClock().timeout(SECONDS):
            code = await self._process.wait()
            await self._reading
        return code

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._reading


class Fleet:
    """Some nodes, each with an agent and a drain driver."""

    def __init__(
        self, plane: ControlPlane, api: RawApi, folder: Path, nodes: list[str], namespace: str, group: str
    ) -> None:
        self.group = group
        self.plane = plane
        self.api = api
        self.folder = folder
        self.nodes = nodes
        self.namespace = namespace
        self.processes: dict[str, ManagedProcess] = {}
        self._commands: list[Running] = []
        self._owner: Json = {}

    @property
    def node(self) -> str:
        """The first one."""
        return self.nodes[0]

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def start(self, node: str, *parts: str, kubeconfig: Path | None = None) -> None:
        """Start agent and driver of a node, or only one of them; on another way to the API server, if one is named."""
        for part in parts or ("agent", "driver"):
            name = f"{part}-{node}"
            words = ["driver", "drain"] if part == "driver" else ["agent"]
            registry = self.folder / str(self.nodes.index(node)) / "r"
            command = [sys.executable, "-m", "kube_fairlead.cli", *words]
            command += [f"--kubeconfig={kubeconfig or self.plane.kubeconfig}"]
            command += [f"--node-name={node}", f"--registry-dir={registry}", f"--lifecycle-api-group={self.group}"]
            if name not in self.processes:
                self.processes[name] = ManagedProcess(name, command, folder=self.folder)
            self.processes[name].start()

    async def ready(self) -> None:
        """Wait until the transitions are published."""
        published = f"/apis/{self.group}/v1alpha1/lifecycletransitions/node-uncordon"
        await self.api.poll(published, lambda answer: answer.code == 200)

    async def fairlead(self, *words: str, stdin: bool = False) -> Running:
        """Begin a command."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-u",
            "-m",
            "kube_fairlead.cli",
            words[0],
            f"--kubeconfig={self.plane.kubeconfig}",
            *words[1:],
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self.folder,
        )
        self._commands.append(Running(process))
        return self._commands[-1]

    async def said(self, *words: str, code: int = 0) -> str:
        """Run a command to its end; what it said."""
        command = await self.fairlead(*words)
        got = await command.ended()
        assert got == code, f"{command.out}\n{self.last_words()}"
        return command.out

    async def pod(
        self,
        name: str,
        node: str = "",
        *,
        bare: bool = False,
        ends: str = "at-once",
        labels: dict[str, str] | None = None,
        spec: Json | None = None,
        **metadata: Any,
    ) -> Json:
        """A pod that runs and is ready."""
        if not bare:
            metadata["ownerReferences"] = [await self.owner()]
        annotations = {"hollow.fairlead.dev/ends": ends, **metadata.pop("annotations", {})}
        body = pod_manifest(name, node or self.node, spec, labels=labels or {}, annotations=annotations, **metadata)
        made = (await self.api.post(self.pods, body)).expect(201)
        await self.api.poll(f"{self.pods}/{name}", lambda answer: _is_ready(answer.json))
        return made

    async def owner(self) -> Json:
        """The controller that pods say they have."""
        if not self._owner:
            template = {"metadata": {"labels": {"o": "rs"}}, "spec": pod_manifest("x")["spec"]}
            spec = {"selector": {"matchLabels": {"o": "rs"}}, "template": template, "replicas": 0}
            path = f"/apis/apps/v1/namespaces/{self.namespace}/replicasets"
            made = (await self.api.post(path, {"metadata": {"name": "rs"}, "spec": spec})).expect(201)
            identity = {"name": "rs", "uid": made["metadata"]["uid"], "controller": True}
            self._owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", **identity}
        return self._owner

    async def budget(self, name: str, labels: dict[str, str], **spec: Any) -> None:
        """A disruption budget that has been counted."""
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets"
        body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, **spec}}
        (await self.api.post(path, body)).expect(201)
        await self.api.poll(f"{path}/{name}", lambda answer: answer.json.get("status", {}).get("expectedPods", 0) > 0)

    async def left(self, node: str = "") -> list[str]:
        """The pods that are still on a node."""
        page = (await self.api.get(self.pods, fieldSelector=f"spec.nodeName={node or self.node}")).expect(200)
        return sorted(item["metadata"]["name"] for item in page["items"])

    async def node_object(self, node: str = "") -> Json:
        return (await self.api.get(f"/api/v1/nodes/{node or self.node}")).expect(200)

    def last_words(self) -> str:
        return "\n".join(process.last_words() for process in self.processes.values())

    async def end(self) -> None:
        for command in self._commands:
            await command.kill()
        for process in self.processes.values():
            process.kill()


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@contextlib.asynccontextmanager
async def fleet_of(
    plane: ControlPlane,
    api: RawApi,
    folder: Path,
    prefix: str,
    namespace: str,
    count: int = 1,
    *,
    group: str = LIFECYCLE_GROUP,
) -> AsyncIterator[Fleet]:
    """Nodes whose kubelets are hollow; agents and drivers are for the test to start."""
    plans = plan_nodes(count, prefix=f"{prefix}-")
    nodes = [plan.name for plan in plans]
    options = HollowOptions(only_kubelets=True)
    async with plane.client() as client, HollowCluster(client, plans, options).running():
        fleet = Fleet(plane, api, folder, nodes, namespace, group)
        try:
            yield fleet
        finally:
            await fleet.end()
            for node in nodes:
                await api.delete(f"/api/v1/nodes/{node}")
