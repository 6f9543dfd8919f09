"""A manager of a plug-in's cloud, as a process of its own, and what it asked of that cloud."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

from kube_fairlead.base import files
from kube_fairlead.base.clock import RealClock
from kube_fairlead.cloud.enforcement import Manager, ccm_manifests
from kube_fairlead_lab.testing.control_plane import write_kubeconfig
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5778.cluster import account_access, apply

__all__ = ["Nimbus"]

_PLUGIN = pathlib.Path(__file__).parents[2] / "clouds" / "plugin"
_PERIODS = ("--node-monitor-period=300ms", "--node-status-update-frequency=1s", "--route-reconciliation-period=500ms")


@dataclasses.dataclass
class Nimbus:
    """The cloud, which is a file, and its manager."""

    api: RawApi
    folder: pathlib.Path
    process: ManagedProcess | None = None
    manager: Manager = dataclasses.field(
        default_factory=lambda: Manager(provider="nimbus", platforms=frozenset({"nimbus"}), routes=True)
    )

    @property
    def path(self) -> pathlib.Path:
        return self.folder / "cloud.json"

    def write(self, **changes: Any) -> None:
        """Change the cloud."""
        state: dict[str, Any] = {"machines": {}, "routes": [], "nonsense": {}}
        if self.path.exists():
            state = json.loads(self.path.read_text(encoding="utf-8"))
        files.write_atomically(self.path, json.dumps({**state, **changes}).encode())

    @property
    def routes(self) -> set[tuple[str, str]]:
        return {(cidr, target) for cidr, target in json.loads(self.path.read_text(encoding="utf-8"))["routes"]}

    def calls(self, name: str) -> list[list[str]]:
        """What the manager asked, by the method's name."""
        path = self.path.with_suffix(".calls")
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [call[1:] for call in map(json.loads, lines) if call[0] == name]

    async def start(self, *flags: str) -> None:
        """Start the manager, with the plug-in installed as any package is."""
        await apply(self.api, ccm_manifests(self.manager))
        kubeconfig = write_kubeconfig(self.folder / "nimbus.kubeconfig", await account_access(self.api, self.manager))
        installed = self.folder / "site" / "nimbus_cloud-1.dist-info"
        installed.mkdir(parents=True)
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: nimbus-cloud\nVersion: 1\n", encoding="utf-8")
        entry = "[fairlead.cloud_providers]\nnimbus = nimbus_cloud:provider\n"
        (installed / "entry_points.txt").write_text(entry, encoding="utf-8")
        command = [
            *("env", f"PYTHONPATH={installed.parent}:{_PLUGIN}", sys.executable, "-m", "kube_fairlead.cli"),
            *("cloud-controller-manager", f"--kubeconfig={kubeconfig}", "--cloud-provider=nimbus"),
            *(f"--cloud-config={self.path}", "--secure-port=0", *_PERIODS, *flags),
        ]
        self.process = ManagedProcess("ccm-nimbus", command, folder=self.folder)
        self.process.start()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what the manager is to bring about in the cloud."""
        assert self.process is not None
        clock = RealClock()
        try:
            async with clock.timeout(90):
                while not condition():
                    assert self.process.running, self.process.last_words()
                    await clock.sleep(0.05)
        except TimeoutError:
            raise AssertionError(self.process.last_words()) from None

    async def until_asked(self, name: str, times: int) -> None:
        """Wait until a method has been called so many times more."""
        before = len(self.calls(name))
        await self.until(lambda: len(self.calls(name)) >= before + times)
