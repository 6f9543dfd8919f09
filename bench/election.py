"""Handover time: from SIGTERM to the next leader's first write, beside the real kube-controller-manager.

Both on the same kube-apiserver, with upstream's default timing, kube-controller-manager with its release gate on. Two
replicas each; the leader is stopped and started again as a standby, round after round, while there is always an object
to reconcile. A killed leader is measured against the end of its lease.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import os
import pathlib
import signal
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import yaml

from bench.harness import BenchmarkSkipped, Measurement, at_most, benchmark
from kube_fairlead_lab.testing import KubeControlPlane, KubeOptions, components
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.ports import ReservedPort
from kube_fairlead_lab.testing.processes import ManagedProcess, wait_until_ready
from kube_fairlead_lab.testing.rawhttp import RawApi

OUR_ROUNDS = 25
THEIR_ROUNDS = 10
KILL_ROUNDS = 3
BAR_SHARE = 1 / 20
BAR_LATE_SECONDS = 0.5
LEASE_SECONDS = 15
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
EVENTS = "/apis/lifecycle.k8s.io/v1alpha1/lifecycleevents"
CRDS = pathlib.Path(__file__).parents[1] / "deploy/crds/lifecycle.k8s.io"

Json = dict[str, Any]


@benchmark("election")
def measure() -> Iterator[Measurement]:
    binaries = KubeBinaries.find()
    if binaries.missing("etcd", "kube-apiserver", "kube-controller-manager"):
        raise BenchmarkSkipped("real Kubernetes is not built; run: make kube")
    ours, theirs, late = asyncio.run(_measure(binaries))
    their_99 = _p99(theirs)
    note = f"{len(theirs)} rounds, median {statistics.median(theirs):.0f} ms"
    yield Measurement("kube-controller-manager handover, p99", their_99, "ms", None, note)
    note = f"{len(ours)} rounds, median {statistics.median(ours):.0f} ms; a twentieth of kube-controller-manager's"
    yield Measurement(
        "fairlead controller-manager handover, p99", _p99(ours), "ms", at_most(their_99 * BAR_SHARE), note
    )
    note = f"worst of {len(late)} kills, beyond the end of the lease"
    yield Measurement("failover after kill -9", max(late) * 1000, "ms", at_most(BAR_LATE_SECONDS * 1000), note)


def _p99(values: list[float]) -> float:
    return sorted(values)[max(0, round(len(values) * 0.99) - 1)]


async def _measure(binaries: KubeBinaries) -> tuple[list[float], list[float], list[float]]:
    with tempfile.TemporaryDirectory() as folder:
        plane = KubeControlPlane(pathlib.Path(folder), KubeOptions(durable=True), binaries=binaries)
        await plane.start()
        try:
            async with RawApi(plane.access(), timeout_seconds=120) as api:
                await _install(api)
                theirs = await _rounds(_Upstream(plane, api), THEIR_ROUNDS)
                ours = await _rounds(_Fairlead(plane, api), OUR_ROUNDS)
                late = await _kills(_Fairlead(plane, api), KILL_ROUNDS)
        finally:
            await plane.stop()
    return ours, theirs, late


async def _install(api: RawApi) -> None:
    for path in sorted(CRDS.glob("*.yaml")):
        manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
        (await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", manifest)).expect(201)
    await api.poll(EVENTS, lambda got: got.code == 200)
    # kube-apiserver delays the first write to a new definition by two seconds, which is not part of a handover.
    await _make_event(api)


class _Pair(abc.ABC):
    """Two replicas of a manager, and an object that its controller reconciles."""

    lease = ""

    def __init__(self, plane: KubeControlPlane, api: RawApi) -> None:
        self.plane = plane
        self.api = api
        self.made = 0

    @abc.abstractmethod
    async def start(self, name: str) -> ManagedProcess:
        """Start a replica and wait until it leads or is standby."""

    @abc.abstractmethod
    async def make_work(self) -> None:
        """Create an object to reconcile."""

    @abc.abstractmethod
    def work_path(self) -> str:
        """The path of the objects that show the work."""

    @abc.abstractmethod
    def is_done(self, event: Json) -> bool:
        """Whether this watch event shows the work."""


class _Upstream(_Pair):
    """kube-controller-manager: creates the default service account of every namespace."""

    lease = "bench-upstream"

    async def start(self, name: str) -> ManagedProcess:
        folder = self.plane.folder / name
        folder.mkdir(exist_ok=True)
        component = components.controller_manager(
            self.plane.binaries,
            self.plane.kubeconfig_for("system:kube-controller-manager"),
            authority=self.plane.authority,
            root_ca_file=self.plane.ca_file,
            folder=folder,
            controllers=["serviceaccount-controller"],
            flags=[
                "--leader-elect=true",
                f"--leader-elect-resource-name={self.lease}",
                "--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit=true",
            ],
        )
        await component.start()
        return component.process

    async def make_work(self) -> None:
        self.made += 1
        (await self.api.post("/api/v1/namespaces", {"metadata": {"name": f"bench-{self.made}"}})).expect(201)

    def work_path(self) -> str:
        return "/api/v1/serviceaccounts"

    def is_done(self, event: Json) -> bool:
        return bool(event["type"] == "ADDED")


class _Fairlead(_Pair):
    """fairlead controller-manager: collects finished events of nodes that do not exist."""

    lease = "bench-fairlead"

    async def start(self, name: str) -> ManagedProcess:
        reserved = ReservedPort()
        port = reserved.number
        reserved.release()
        command = [
            sys.executable,
            "-m",
            "kube_fairlead.cli",
            "controller-manager",
            f"--kubeconfig={self.plane.kubeconfig}",
            f"--leader-elect-resource-name={self.lease}",
            "--controllers=event-gc",  # one, as on the other side
            f"--secure-port={port}",
        ]
        process = ManagedProcess(f"fairlead-{name}", command, folder=self.plane.folder)
        process.start()
        await wait_until_ready(lambda: self._is_ready(port), [process], what=process.name, timeout_seconds=60)
        return process

    @staticmethod
    async def _is_ready(port: int) -> bool:
        with contextlib.suppress(OSError):
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return b" 200 " in answer.split(b"\r\n", 1)[0]
        return False

    async def make_work(self) -> None:
        await _make_event(self.api)

    def work_path(self) -> str:
        return EVENTS

    def is_done(self, event: Json) -> bool:
        return bool(event["type"] == "DELETED")


async def _make_event(api: RawApi) -> None:
    """A finished event of a node that does not exist: to be collected at once."""
    body = {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": "LifecycleEvent",
        "metadata": {"generateName": "bench-"},
        "spec": {"transitionName": "none", "bindingNode": "none"},
    }
    made = (await api.post(EVENTS, body)).expect(201)
    made["status"] = {"claimStatus": "Failed"}
    (await api.put(f"{EVENTS}/{made['metadata']['name']}/status", made)).expect(200)


@contextlib.asynccontextmanager
async def _going_on(work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Create objects to reconcile, ten times a second."""

    async def go_on() -> None:
        while True:
            await work()
            await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(go_on())
        yield
        task.cancel()


async def _holder(pair: _Pair) -> str:
    got = await pair.api.get(f"{LEASES}/{pair.lease}")
    return "" if got.code == 404 else got.expect(200)["spec"].get("holderIdentity") or ""


async def _until_led(pair: _Pair, leader: ManagedProcess) -> None:
    async def is_led() -> bool:
        return bool(await _holder(pair))

    await wait_until_ready(is_led, [leader], what="a leader", timeout_seconds=60)


async def _until_ended(process: ManagedProcess) -> None:
    async def has_ended() -> bool:
        return not process.running

    await wait_until_ready(has_ended, [], what="the end of a process", timeout_seconds=60)


async def _rounds(pair: _Pair, rounds: int) -> list[float]:
    """Milliseconds from SIGTERM to the first write of the next leader."""
    leader = await pair.start("a")
    await _until_led(pair, leader)
    follower = await pair.start("b")
    times = []
    for number in range(rounds):
        before = await _holder(pair)
        async with _going_on(pair.make_work):
            times.append(await _handover(pair, leader, before))
        await _until_ended(leader)
        leader, follower = follower, await pair.start(f"r{number}")
    for process in (leader, follower):
        process.kill()
    return times


async def _handover(pair: _Pair, leader: ManagedProcess, before: str) -> float:
    version = (await pair.api.get(pair.work_path())).expect(200)["metadata"]["resourceVersion"]
    lease = {"fieldSelector": f"metadata.name={pair.lease}", "resourceVersion": "0"}
    async with (
        pair.api.watch(LEASES, **lease) as holders,
        pair.api.watch(pair.work_path(), resourceVersion=version) as work,
    ):
        begun = time.monotonic()
        os.kill(leader.pid, signal.SIGTERM)
        changed = await holders.until(
            lambda event: event["object"]["spec"].get("holderIdentity") not in {before, "", None}
        )
        since = int(changed["object"]["metadata"]["resourceVersion"])
        # Revisions are one sequence: a later write is the new leader's.
        await work.until(
            lambda event: pair.is_done(event) and int(event["object"]["metadata"]["resourceVersion"]) > since
        )
        return (time.monotonic() - begun) * 1000


async def _kills(pair: _Pair, rounds: int) -> list[float]:
    """Seconds by which the next leader was later than the end of the killed one's lease."""
    leader, late = await pair.start("a"), []
    await _until_led(pair, leader)
    follower = await pair.start("b")
    for number in range(rounds):
        before = await _holder(pair)
        async with pair.api.watch(LEASES, fieldSelector=f"metadata.name={pair.lease}", resourceVersion="0") as watch:
            await watch.until(lambda event: event["type"] == "MODIFIED")
            renewed = time.monotonic()
            leader.kill()
            async with asyncio.timeout(60):
                while True:
                    event = await watch.next()
                    if event["object"]["spec"].get("holderIdentity") != before:
                        break
                    renewed = time.monotonic()
            late.append(time.monotonic() - renewed - LEASE_SECONDS)
        leader, follower = follower, await pair.start(f"k{number}")
    for process in (leader, follower):
        process.kill()
    return late
