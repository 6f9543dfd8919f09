"""A component that is asked to end does not wait for an API server that is away: its Lease expires by itself."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kube_fairlead.base.clock import RealClock
from kube_fairlead_lab.testing import EmbeddedControlPlane
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi

# To release the Lease and to write the last Events: some seconds each, whatever the Lease's own times are.
WITHIN_SECONDS = 8.0
LEASES = "/apis/coordination.k8s.io/v1/namespaces"
NODE = "node-a"


@pytest.fixture
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedControlPlane]:
    yield from watch_over(request.config, EmbeddedControlPlane(tmp_path))


def agent(folder: Path) -> list[str]:
    return ["agent", f"--node-name={NODE}", f"--registry-dir={folder / 'registry'}"]


def controller_manager(folder: Path) -> list[str]:
    del folder
    return ["controller-manager"]


def cloud_controller_manager(folder: Path) -> list[str]:
    inventory = folder / "inventory.yaml"
    inventory.write_text("platforms: [lab]\ninstances: []\n", encoding="utf-8")
    return ["cloud-controller-manager", "--cloud-provider=static", f"--cloud-config={inventory}"]


@pytest.mark.parametrize("away", ["gone", "silent"])
@pytest.mark.parametrize(
    ("command", "lease"),
    [
        (agent, f"fairlead-node-lease/leases/{NODE}"),
        (controller_manager, "kube-system/leases/fairlead-controller-manager"),
        (cloud_controller_manager, "kube-system/leases/cloud-controller-manager-static-lab"),
    ],
)
async def test_a_component_ends_within_seconds(
    plane: EmbeddedControlPlane, short_path: Path, command: Callable[[Path], list[str]], lease: str, away: str
) -> None:
    clock = RealClock()
    flags = [f"--kubeconfig={plane.kubeconfig}", "--secure-port=0"]
    arguments = [sys.executable, "-m", "kube_fairlead.cli", *command(short_path), *flags]
    process = ManagedProcess("component", arguments, folder=short_path)
    async with RawApi(plane.access()) as api:
        (await api.post("/api/v1/nodes", {"metadata": {"name": NODE}})).expect(201)
        process.start()
        try:
            await api.poll(
                f"{LEASES}/{lease}", lambda answer: answer.code == 200 and answer.json["spec"].get("holderIdentity")
            )
            if away == "gone":
                await plane.stop_server(hard=True)
            else:
                plane.apiserver.freeze()
            begun = clock.monotonic()
            os.kill(process.pid, signal.SIGTERM)
            async with clock.timeout(90):
                while process.running:
                    await clock.sleep(0.05)
            took = clock.monotonic() - begun
        finally:
            if away == "silent":
                plane.apiserver.thaw()
            process.kill()
    assert took < WITHIN_SECONDS, process.last_words()
