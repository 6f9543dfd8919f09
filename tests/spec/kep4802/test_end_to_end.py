"""KEP-4802, "e2e tests": the three scenarios, with the agent as a process, a real API server and a container runtime.

The machine is a logind on a bus of the test's own; what the real one does with the same agent is in tests/machine.
"""

from __future__ import annotations

import asyncio
import pathlib
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpclib.server
import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node, Pod
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.client.client import Client
from kube_fairlead_lab.testing import EmbeddedControlPlane
from kube_fairlead_lab.testing.processes import ManagedProcess
from tests.unit.agent.shutdown.cri.fakeruntime import FakeRuntime
from tests.unit.agent.shutdown.fakelogind import FakeLogind, private_bus

NODE = "node-1"
# A preStop hook that the kubelet would run, and a container that does not end by itself.
HOOK = {"preStop": {"exec": {"command": ["say", "goodbye"]}}}


class Site:
    def __init__(self, folder: pathlib.Path, plane: EmbeddedControlPlane, client: Client, logind: FakeLogind) -> None:
        self.folder = folder
        self.plane = plane
        self.client = client
        self.logind = logind
        self.runtime = FakeRuntime()
        self.agent: ManagedProcess | None = None

    def start_agent(self, config: str | None) -> None:
        command = ["env", f"DBUS_SYSTEM_BUS_ADDRESS=unix:path={self.folder / 'bus'}"]
        command += [sys.executable, "-m", "kube_fairlead.cli", "agent", f"--kubeconfig={self.plane.kubeconfig}"]
        command += [f"--node-name={NODE}", f"--registry-dir={self.folder / 'r'}", f"--state-dir={self.folder / 's'}"]
        if config is not None:
            path = self.folder / "agent.yaml"
            path.write_text(f"{config}containerRuntimeEndpoint: unix://{self.folder / 'cri.sock'}\n")
            command += [f"--config={path}", "--shutdown-owner=agent"]
        self.agent = ManagedProcess("agent", command, folder=self.folder)
        self.agent.start()

    async def pod(self, name: str, grace: int) -> None:
        container: dict[str, Any] = {"name": name, "image": "i", "lifecycle": HOOK}
        spec = {"nodeName": NODE, "containers": [container], "terminationGracePeriodSeconds": grace}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        made = await self.client.of(Pod).create(wire.from_dict(Pod, body))
        status = {"name": name, "ready": True, "image": "i", "imageID": "i", "restartCount": 0}
        status["state"] = {"running": {"startedAt": "2026-03-01T12:00:00Z"}}
        tree = wire.to_dict(made) | {"status": {"phase": "Running", "containerStatuses": [status]}}
        await self.client.of(Pod).update_status(wire.from_dict(Pod, tree))
        self.runtime.add(name, made.uid, needs=600, pod=name)

    async def until(self, holds: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + 60
        while not holds():
            words = "" if self.agent is None else self.agent.last_words()
            assert time.monotonic() < deadline, f"{what}: not after a minute\n{words}"
            await asyncio.sleep(0.02)


@pytest.fixture
async def site(short_path: pathlib.Path, fairlead_apiserver: EmbeddedControlPlane) -> AsyncIterator[Site]:
    logind = FakeLogind()
    logind.delay_usec = 60_000_000  # long enough: nothing is written to this machine's own /etc
    with private_bus(short_path) as address:
        async with logind.on(address), fairlead_apiserver.client() as client:
            await client.of(Node).create(Node(metadata=ObjectMeta(name=NODE)))
            made = Site(short_path, fairlead_apiserver, client, logind)
            server = grpclib.server.Server([made.runtime])
            await server.start(path=str(short_path / "cri.sock"))
            try:
                yield made
            finally:
                if made.agent is not None:
                    made.agent.kill()
                server.close()
                await server.wait_closed()
    logind.close()


async def end_one_pod(site: Site, config: str, grace: int) -> float:
    """Shut the node down; how long its pod was given, from the first asking to its end."""
    await site.pod("pod", grace)
    site.start_agent(config)
    await site.until(lambda: site.logind.holders() == ["fairlead-agent"], "the agent holds the machine up")
    await site.until((site.folder / "s/shutdown/pods.json").exists, "the pod is known")
    await site.logind.announce(True)
    await site.until(lambda: site.logind.holders() == [], "the machine is let go")
    assert site.runtime.log[:2] == ["exec pod say goodbye", f"stop pod {site.runtime.log[1].split()[-1]}"]
    assert site.runtime.codes == {"pod": 137}
    status = (await site.client.of(Pod).get("pod", namespace="default")).status
    assert (status.phase, status.reason) == ("Failed", "Terminated")
    return site.runtime.ended["pod"] - site.runtime.asked["pod"]


@pytest.mark.parametrize("config", [None, "", "shutdownGracePeriod: 0s\nshutdownGracePeriodCriticalPods: 0s\n"])
async def test_shutdown_grace_period_unspecified_feature_is_not_active(site: Site, config: str | None) -> None:
    await site.pod("pod", 30)
    site.start_agent(config)
    agent = site.agent
    assert agent is not None
    await site.until(lambda: "fairlead agent runs for" in agent.last_words(), "the agent runs")
    await site.until(lambda: "node lease acquired" in agent.last_words(), "the agent works")
    assert "Inhibit" not in site.logind.calls
    assert site.logind.holders() == []
    await site.logind.announce(True)
    assert site.runtime.log == []


async def test_a_pods_hook_and_signal_get_its_own_grace_period_when_that_is_shorter(site: Site) -> None:
    given = await end_one_pod(site, "shutdownGracePeriod: 20s\nshutdownGracePeriodCriticalPods: 5s\n", grace=2)
    assert given >= 1
    assert timeout_of(site) <= 2


async def test_a_pods_hook_and_signal_get_the_configured_period_when_its_own_is_longer(site: Site) -> None:
    given = await end_one_pod(site, "shutdownGracePeriod: 4s\nshutdownGracePeriodCriticalPods: 1s\n", grace=600)
    assert given >= 1
    assert timeout_of(site) <= 3


def timeout_of(site: Site) -> int:
    """What the runtime was told: after so many whole seconds, SIGKILL."""
    return int(site.runtime.log[1].split()[-1])
