"""One node with its agent and its driver as processes, seen as a user sees them: through the API, and by signals."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp

from kube_fairlead.base.clock import RealClock
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.ports import ReservedPort
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5683 import ledger_driver

__all__ = ["EVENTS", "NODES", "Site", "condition", "until"]

Json = dict[str, Any]

LIFECYCLE = "/apis/lifecycle.k8s.io/v1alpha1"
EVENTS = f"{LIFECYCLE}/lifecycleevents"
NODES = "/api/v1/nodes"
# What a busy machine may take for anything that happens at once on an idle one.
SECONDS = 60.0


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what another process does and nobody announces, such as a line in its file."""
    clock = RealClock()
    async with clock.timeout(SECONDS):
        while not holds():
            await clock.sleep(0.02)


def condition(node: Json, kind: str = "LifecycleTransition") -> Json:
    """One condition of a node, {} when it has none."""
    found = [one for one in node.get("status", {}).get("conditions", []) if one["type"] == kind]
    return found[0] if found else {}


class Site:
    """A node, and what runs on it. `folder` is short enough for sockets."""

    def __init__(self, plane: ControlPlane, folder: Path, node: str) -> None:
        self.plane = plane
        self.folder = folder
        self.node = node
        self.ledger = folder / "ledger"
        self._port = ReservedPort()
        self._processes: list[ManagedProcess] = []

    @property
    def node_path(self) -> str:
        return f"{NODES}/{self.node}"

    def start_agent(
        self, name: str = "agent", *flags: str, port: bool = False, kubeconfig: Path | None = None
    ) -> ManagedProcess:
        """`fairlead agent` for this node."""
        way = kubeconfig or self.plane.kubeconfig
        command = [sys.executable, "-m", "kube_fairlead.cli", "agent", f"--kubeconfig={way}"]
        command += [f"--node-name={self.node}", f"--registry-dir={self.folder / 'registry'}"]
        if port:
            self._port.release()
            command += [f"--secure-port={self._port.number}", "--authorization-always-allow-paths=*"]
        return self._start(name, [*command, *flags])

    def start_driver(self, name: str = "driver", *flags: str) -> ManagedProcess:
        """The driver of these tests."""
        program = [sys.executable, "-m", ledger_driver.__name__, f"--ledger={self.ledger}"]
        where = [f"--kubeconfig={self.plane.kubeconfig}", f"--registry-dir={self.folder / 'registry'}"]
        return self._start(name, [*program, *where, *flags])

    def start_drain_driver(self, *flags: str) -> ManagedProcess:
        """The driver that is installed on every node."""
        program = [sys.executable, "-m", "kube_fairlead.cli", "driver", "drain", f"--node-name={self.node}"]
        where = [f"--kubeconfig={self.plane.kubeconfig}", f"--registry-dir={self.folder / 'registry'}"]
        return self._start("drain-driver", [*program, *where, *flags])

    def _start(self, name: str, command: list[str]) -> ManagedProcess:
        # Modules of the tests are found from the root of the repository.
        root = Path(__file__).parents[3]
        process = ManagedProcess(name, ["/usr/bin/env", "-C", str(root), *command], folder=self.folder)
        process.start()
        self._processes.append(process)
        return process

    def end(self) -> None:
        """No process outlives its test."""
        for process in self._processes:
            process.kill()
        self._port.release()

    def last_words(self) -> str:
        return "\n".join(process.last_words() for process in self._processes)

    async def scrape(self, page: str) -> str:
        """A page that the agent serves for machines."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"https://127.0.0.1:{self._port.number}{page}", ssl=False) as got,
        ):
            return await got.text()

    async def metric(self, name: str) -> float:
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", await self.scrape("/metrics"), re.MULTILINE)
        return sum(float(number) for number in found)

    def release(self, event: str) -> None:
        """Let a driver that waits for this go on."""
        (self.folder / f"go-{event}").touch()

    def effects(self, uid: str) -> list[str]:
        """What the driver has done for an event, in order."""
        return [line.split()[0] for line in ledger_driver.lines(self.ledger) if line.split()[1] == uid]

    async def ask(
        self,
        api: RawApi,
        name: str,
        transition: str = "ledger",
        *,
        annotations: dict[str, str] | None = None,
        **options: str,
    ) -> Json:
        """Create an event; options for the driver of these tests become annotations."""
        told = {f"{ledger_driver.OPTION}{option}": value for option, value in options.items()}
        body = {
            "apiVersion": "lifecycle.k8s.io/v1alpha1",
            "kind": "LifecycleEvent",
            "metadata": {"name": name, "annotations": told | (annotations or {})},
            "spec": {"transitionName": transition, "bindingNode": self.node},
        }
        return (await api.post(EVENTS, body)).expect(201)

    @contextlib.asynccontextmanager
    async def watching(self, api: RawApi) -> AsyncIterator[Story]:
        """Follow the events of this node from now on."""
        version = (await api.get(EVENTS)).expect(200)["metadata"]["resourceVersion"]
        async with api.watch(
            EVENTS, fieldSelector=f"spec.bindingNode={self.node}", resourceVersion=version, timeoutSeconds=120
        ) as watch:
            yield Story(watch, self.last_words)


class Story:
    """What a watcher sees of the events of one node."""

    def __init__(self, watch: Any, last_words: Callable[[], str]) -> None:
        self._watch = watch
        self._last_words = last_words
        self.seen: dict[str, list[str]] = {}  # by event, each state once
        self.last: dict[str, Json] = {}

    async def until(self, name: str, state: str) -> Json:
        """Read on until an event is in that state: a claim status, `held` (the finalizer is there) or `gone`."""
        clock = RealClock()
        try:
            async with clock.timeout(SECONDS):
                while state not in self.seen.get(name, []):
                    self._note(await self._watch.next())
        except TimeoutError:
            raise AssertionError(f"{name} never was {state}: {self.seen}\n{self._last_words()}") from None
        return self.last[name]

    async def next(self, name: str) -> Json:
        """Read one change of any event; this one as it was last seen."""
        async with RealClock().timeout(SECONDS):
            self._note(await self._watch.next())
        return self.last.get(name, {})

    async def until_all_gone(self, names: list[str]) -> None:
        for name in names:
            await self.until(name, "gone")

    def _note(self, change: Json) -> None:
        item = change["object"]
        assert change["type"] in {"ADDED", "MODIFIED", "DELETED"}, change
        name = item["metadata"]["name"]
        states = [item.get("status", {}).get("claimStatus") or "Pending"]
        if change["type"] == "DELETED":
            states = ["gone"]
        elif "lifecycle.k8s.io/claimed" in item["metadata"].get("finalizers", []):
            states.append("held")
        told = self.seen.setdefault(name, [])
        told.extend(state for state in states if state not in told)
        self.last[name] = item
