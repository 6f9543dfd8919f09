"""Candidates in two languages as processes, each in a pod of its own as far as its token says, on one Lease."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.identity import RandomIds
from kube_fairlead.base.randomness import SystemRandomness
from kube_fairlead_lab.testing import Access
from kube_fairlead_lab.testing.control_plane import write_kubeconfig
from kube_fairlead_lab.testing.manifests import config_map, pod
from kube_fairlead_lab.testing.processes import ManagedProcess
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.goprograms import go_program

Json = dict[str, Any]
GO_SOURCES = Path(__file__).with_name("gocandidate")
PYTHON_SOURCE = Path(__file__).with_name("pycandidate.py")
LEASE = "shared"
ACCOUNT = "candidates"
WRITES = 5
PATIENCE_SECONDS = 60
POLL_SECONDS = 0.05


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Ask until it is so: nothing announces what other processes do."""
    clock = RealClock()
    async with clock.timeout(PATIENCE_SECONDS):
        while not await condition():
            await clock.sleep(POLL_SECONDS)


@dataclasses.dataclass(frozen=True)
class Timing:
    """The same for all candidates. Short, so that a crash costs seconds."""

    lease_duration: int = 4
    renew_deadline: float = 2.5
    retry_period: float = 0.5


class Candidate:
    """One process at a time: killed or ended, it is started again under a new identity, in the same pod."""

    def __init__(self, name: str, uid: str, command: Callable[[str], list[str]], folder: Path) -> None:
        self.name = name
        self._uid = uid
        self._command = command
        self._folder = folder
        self._ids = RandomIds(SystemRandomness())
        self.identity = ""
        self._process: ManagedProcess | None = None
        self.start()

    def start(self) -> None:
        """A new process, with a name of its own for the Lease."""
        self.identity = f"{self.name}_{self._uid}_{self._ids.name_suffix()}"
        self._process = ManagedProcess(self.identity, self._command(self.identity), folder=self._folder)
        self._process.start()

    @property
    def process(self) -> ManagedProcess:
        assert self._process is not None
        return self._process

    def told(self) -> list[Json]:
        """What it said so far."""
        lines = self.process.log.read_text(encoding="utf-8").splitlines() if self.process.log.exists() else []
        return [json.loads(line) for line in lines if line.startswith('{"event"')]

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    async def ensure_running(self) -> None:
        """Start it again when it has ended, as a kubelet would."""
        if not self.process.running:
            self.process.kill()
            self.start()

    def end(self) -> None:
        if self.process.running:
            self.process.thaw()
        self.process.kill()


class Fleet:
    """Two candidates in Python and one in Go, unless others are named."""

    def __init__(self, api: RawApi, namespace: str, folder: Path, timing: Timing, *, check: bool) -> None:
        self.api = api
        self.namespace = namespace
        self._folder = folder
        self._timing = timing
        self._check = check
        self.candidates: dict[str, Candidate] = {}

    @property
    def lease_path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{LEASE}"

    async def start(self, *names: str) -> None:
        await self._furnish()
        for name in names or ("python-1", "python-2", "go"):
            uid, kubeconfig = await self._pod(name)
            self.candidates[name] = Candidate(name, uid, self._command_of(name, kubeconfig), self._folder)

    def end(self) -> None:
        for candidate in self.candidates.values():
            candidate.end()

    async def holder(self) -> str:
        got = await self.api.get(self.lease_path)
        if got.code == 404:
            return ""
        identity: str = got.expect(200)["spec"].get("holderIdentity") or ""
        return identity

    async def leader(self) -> Candidate:
        """Whoever holds the Lease."""
        holder = await self.holder()
        return next(one for one in self.candidates.values() if one.identity == holder)

    async def wait_for_writes(self, *, by_other_than: str = "") -> None:
        """Wait until the holder of the Lease, another than this one, has written a few times."""
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/written"

        async def has_written() -> bool:
            holder = await self.holder()
            if holder in {"", by_other_than} or holder not in {one.identity for one in self.candidates.values()}:
                return False
            written = (await self.api.get(path)).expect(200).get("data") or {}
            return written.get("by") == holder and int(written["count"]) >= WRITES

        await until(has_written)

    async def wait_told(self, candidate: Candidate, count: int) -> None:
        """Wait until a process has told more than that, or ended."""

        async def has_told() -> bool:
            return len(candidate.told()) > count or not candidate.process.running

        await until(has_told)

    async def wait_ended(self, candidate: Candidate) -> None:
        """Wait until a process has ended by itself."""

        async def has_ended() -> bool:
            return not candidate.process.running

        await until(has_ended)

    def _command_of(self, name: str, kubeconfig: Path) -> Callable[[str], list[str]]:
        timing = self._timing
        if name == "go":
            binary = go_program(GO_SOURCES)
            return lambda identity: [
                str(binary),
                f"-kubeconfig={kubeconfig}",
                f"-namespace={self.namespace}",
                f"-lease={LEASE}",
                f"-identity={identity}",
                f"-lease-duration={timing.lease_duration}s",
                f"-renew-deadline={timing.renew_deadline}s",
                f"-retry-period={timing.retry_period}s",
            ]
        return lambda identity: [
            sys.executable,
            str(PYTHON_SOURCE),
            f"--kubeconfig={kubeconfig}",
            f"--namespace={self.namespace}",
            f"--lease={LEASE}",
            f"--identity={identity}",
            f"--lease-duration={timing.lease_duration}",
            f"--renew-deadline={timing.renew_deadline}",
            f"--retry-period={timing.retry_period}",
            *([] if self._check else ["--no-check"]),
        ]

    async def _furnish(self) -> None:
        core = f"/api/v1/namespaces/{self.namespace}"
        (await self.api.post(f"{core}/configmaps", config_map("written"))).expect(201)
        (await self.api.post(f"{core}/serviceaccounts", {"metadata": {"name": ACCOUNT}})).expect(201)
        binding = {
            "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "namespace": self.namespace, "name": ACCOUNT}],
        }
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace}/rolebindings"
        (await self.api.post(path, binding)).expect(201)

    async def _pod(self, name: str) -> tuple[str, Path]:
        core = f"/api/v1/namespaces/{self.namespace}"
        made = (await self.api.post(f"{core}/pods", pod(name, spec={"serviceAccountName": ACCOUNT}))).expect(201)
        uid: str = made["metadata"]["uid"]
        reference = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}
        asked = {"spec": {"boundObjectRef": reference, "expirationSeconds": 7200}}
        token = (await self.api.post(f"{core}/serviceaccounts/{ACCOUNT}/token", asked)).expect(201)["status"]["token"]
        access = Access(url=self.api.access.url, ca_file=self.api.access.ca_file, user=name, token=token)
        return uid, write_kubeconfig(self._folder / f"{name}.kubeconfig", access)
