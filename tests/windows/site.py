"""A Windows node: the agent as its service, a hollow container runtime on a pipe, a real API server beside it."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import pathlib
import re
import subprocess
import time
from collections.abc import Callable
from typing import Any

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node, Pod
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.scheduling_v1 import PriorityClass
from kube_fairlead.client.client import Client
from kube_fairlead_lab.testing import EmbeddedControlPlane
from tests.windows.wine import REPOSITORY, Wine, windows_path

CRITICAL = 2_000_000_000
HOOK = {"preStop": {"exec": {"command": ["say", "goodbye"]}}}
PATIENCE_SECONDS = 120


class Site:
    def __init__(
        self, machine: Wine, folder: pathlib.Path, plane: EmbeddedControlPlane, client: Client, name: str
    ) -> None:
        self.machine = machine
        self.folder = folder
        self.plane = plane
        self.client = client
        self.node = f"node-{name}"
        self.service = f"agent-{name}"
        self.kubelet = f"kubelet-{name}"
        self.owner = "agent"
        self.pipe = rf"\\.\pipe\cri-{name}"
        self.is_active = True  # the agent is to hear that the machine goes down
        self._containers: list[dict[str, Any]] = []
        self._runtime: subprocess.Popen[str] | None = None

    # The cluster.

    async def register(self) -> None:
        await self.client.of(Node).create(Node(metadata=ObjectMeta(name=self.node)))

    async def pod(self, name: str, priority: int = 0, *, grace: int = 30, needs: float = 0.0) -> None:
        container: dict[str, Any] = {"name": name, "image": "i", "lifecycle": HOOK}
        spec: dict[str, Any] = {
            "nodeName": self.node,
            "containers": [container],
            "terminationGracePeriodSeconds": grace,
        }
        if priority:
            spec["priorityClassName"] = await self._class(priority)
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        made = await self.client.of(Pod).create(wire.from_dict(Pod, body))
        status = {"name": name, "ready": True, "image": "i", "imageID": "i", "restartCount": 0}
        status["state"] = {"running": {"startedAt": "2026-03-01T12:00:00Z"}}
        tree = wire.to_dict(made) | {"status": {"phase": "Running", "containerStatuses": [status]}}
        await self.client.of(Pod).update_status(wire.from_dict(Pod, tree))
        self._containers.append({"name": name, "uid": made.uid, "needs": needs})

    async def _class(self, priority: int) -> str:
        if priority >= CRITICAL:
            return "system-cluster-critical"
        made = PriorityClass(metadata=ObjectMeta(name=f"priority-{priority}"), value=priority)
        with contextlib.suppress(api_errors.AlreadyExists):
            await self.client.of(PriorityClass).create(made)
        return f"priority-{priority}"

    async def phase(self, name: str) -> str:
        status = (await self.client.of(Pod).get(name, namespace="default")).status
        return f"{status.phase} {status.reason}".strip()

    async def conditions(self) -> dict[str, tuple[str, str]]:
        node = await self.client.of(Node).get(self.node)
        return {one.type: (one.status, one.reason) for one in node.status.conditions}

    # The machine.

    async def start_runtime(self) -> None:
        (self.folder / "containers.json").write_text(json.dumps(self._containers))
        self._runtime = self.machine.start("-m", "tests.windows.hollow_runtime", self.pipe, windows_path(self.folder))
        await self.until(lambda: "serves" in self.asked(), "the runtime serves")

    def flags(self, config: str | None) -> list[str]:
        """The agent's own flags."""
        flags = [f"--kubeconfig={windows_path(self.plane.kubeconfig)}", f"--node-name={self.node}"]
        flags += [f"--state-dir={windows_path(self.folder / 'state')}"]
        flags += [f"--log-file={windows_path(self.folder / 'agent.log')}", f"--shutdown-owner={self.owner}"]
        if config is not None:
            path = self.folder / "agent.yaml"
            path.write_text(f"{config}containerRuntimeEndpoint: npipe:////./pipe/{self.pipe.rpartition(chr(92))[2]}\n")
            flags.append(f"--config={windows_path(path)}")
        return flags

    def install(self, config: str | None, *flags: str) -> None:
        """As an administrator would."""
        code, output = self.machine.fairlead(
            "agent", "install-service", "--no-start", f"--name={self.service}", *self.flags(config), *flags
        )
        assert code == 0, output

    def create(self, config: str | None, *, long_drains: bool = False) -> None:
        """What that command does, in less time. For long drains a STOP is the notice that the machine goes down."""
        means_preshutdown = windows_path(REPOSITORY / "tests/windows/stop_means_preshutdown.py")
        program = [means_preshutdown] if long_drains else ["-m", "kube_fairlead.cli"]
        command = [self.machine.python_path, *program, "agent", "--windows-service", *self.flags(config)]
        self.machine.ask("create", self.service, subprocess.list2cmdline(command))

    async def start_kubelet(self, *files: pathlib.Path) -> str:
        """A kubelet with a grace period of its own, as a service or as the child of one; what the agent must know."""
        self.owner = "auto"
        config = self.folder / "kubelet.yaml"
        config.write_text("shutdownGracePeriod: 60s\nshutdownGracePeriodCriticalPods: 20s\n")
        script = windows_path(REPOSITORY / "tests/windows/hollow_kubelet.py")
        command = [self.machine.python_path, script, *map(windows_path, files)]
        self.machine.ask("create", self.kubelet, subprocess.list2cmdline(command))
        await asyncio.to_thread(self.machine.ask, "start", self.kubelet)
        return f"kubeletUnit: {self.kubelet}\nkubeletConfigFile: '{windows_path(config)}'\n"

    async def start_agent(self) -> None:
        """Until it looks after the node, and knows its pods where it is to."""
        await asyncio.to_thread(self.machine.ask, "start", self.service)
        await self.until(lambda: "node lease acquired" in self.log(), "the agent works")
        if self._containers and self.is_active:
            await self.until((self.folder / "state/shutdown/pods.json").exists, "the pods are known")

    async def stop(self) -> list[list[int]]:
        """Stop the service; what another process sees of it: state, checkpoint, hint, exit code."""
        seen: list[list[int]] = await asyncio.to_thread(self.machine.ask, "stop", self.service)
        return seen

    def log(self) -> str:
        path = self.folder / "agent.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else "(no log)"

    def asked(self) -> list[str]:
        """What was asked of the runtime, in order."""
        path = self.folder / "runtime.log"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [line.partition(" ")[2] for line in lines]

    def at(self, line: str) -> float:
        """When it was asked for that."""
        lines = (self.folder / "runtime.log").read_text(encoding="utf-8").splitlines()
        return next(float(one.partition(" ")[0]) for one in lines if one.partition(" ")[2].startswith(line))

    def given(self, name: str) -> tuple[float, float]:
        """When the agent asked a pod to end, and the seconds it gave it."""
        found = re.search(
            rf"^(\S+) .*terminating pod pod=default/{name} grace_seconds=([0-9.]+)", self.log(), re.MULTILINE
        )
        assert found is not None, self.log()
        return dt.datetime.fromisoformat(found[1]).timestamp(), float(found[2])

    async def until(self, holds: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"{what}: never\n{self.log()}"
            await asyncio.sleep(0.05)

    def clean(self) -> None:
        if self._runtime is not None:
            self._runtime.communicate(timeout=PATIENCE_SECONDS)
