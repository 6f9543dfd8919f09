"""Two candidates in Python and one on client-go share a Lease of the real kube-apiserver, through everything."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from kube_fairlead.election import Lock
from kube_fairlead.election.fence import fence_manifests
from kube_fairlead_lab.testing import KubeControlPlane, KubeOptions, require_real
from kube_fairlead_lab.testing.binaries import KubeBinaries
from kube_fairlead_lab.testing.components import EMBEDDED_CONTROLLERS
from kube_fairlead_lab.testing.plugin import watch_over
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.interop.election.fleet import ACCOUNT, LEASE, WRITES, Fleet, Timing
from tests.interop.election.judging import judge, read

pytestmark = [pytest.mark.kube, pytest.mark.xdist_group("shared-lease")]

TIMING = Timing()
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "RequestResponse",
            "verbs": ["create", "update", "patch"],
            "resources": [
                {"group": "coordination.k8s.io", "resources": ["leases"]},
                {"group": "", "resources": ["configmaps"]},
            ],
        },
        {"level": "None"},
    ],
}


@pytest.fixture
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeControlPlane]:
    binaries = KubeBinaries.find()
    missing = binaries.missing("etcd", "kube-apiserver", "kube-controller-manager")
    require_real("real Kubernetes", present=not missing, remedy="run: make kube")
    # Small batches: the log must be complete soon after the last write.
    flags = ["--audit-log-mode=blocking"]
    options = KubeOptions(controllers=EMBEDDED_CONTROLLERS, audit_policy=AUDIT, apiserver_flags=flags)
    plane = KubeControlPlane(tmp_path_factory.mktemp("shared-lease"), options, binaries=binaries)
    yield from watch_over(request.config, plane)


@pytest.fixture
async def api(plane: KubeControlPlane) -> AsyncIterator[RawApi]:
    async with RawApi(plane.access()) as session:
        yield session


@pytest.fixture
async def namespace(api: RawApi, unique_name: Callable[[str], str]) -> str:
    name = unique_name("shared")
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).expect(201)
    await api.poll(f"/api/v1/namespaces/{name}/serviceaccounts/default", lambda got: got.code == 200)
    return name


async def fence(api: RawApi, namespace: str) -> None:
    resources = {
        "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
        "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    }
    for manifest in fence_manifests(Lock(namespace, LEASE), service_accounts=[(namespace, ACCOUNT)]):
        path = f"/apis/admissionregistration.k8s.io/v1/{resources[manifest['kind']]}"
        (await api.post(path, manifest)).expect(201)


class Rounds:
    """Ways to part a leader from its Lease. Each ends when another, or the same one anew, leads and writes."""

    def __init__(self, fleet: Fleet, plane: KubeControlPlane) -> None:
        self.fleet = fleet
        self.plane = plane
        self.python_was_frozen = False

    async def kill(self) -> None:
        leader = await self.fleet.leader()
        gone = leader.identity
        leader.process.kill()
        await self.fleet.wait_for_writes(by_other_than=gone)
        leader.start()

    async def terminate(self) -> None:
        leader = await self.fleet.leader()
        gone = leader.identity
        leader.send(signal.SIGTERM)
        await self.fleet.wait_for_writes(by_other_than=gone)
        await self.fleet.wait_ended(leader)
        assert {"event": "stopped", "why": ""} in leader.told()
        await leader.ensure_running()

    async def freeze(self) -> None:
        leader = await self.fleet.leader()
        gone = leader.identity
        before = len(leader.told())
        leader.process.freeze()
        await self.fleet.wait_for_writes(by_other_than=gone)
        leader.process.thaw()
        # It wakes in the middle of its work: it is refused, or notices by itself that it leads no more.
        await self.fleet.wait_told(leader, before)
        self.python_was_frozen |= leader.name != "go"
        await leader.ensure_running()

    async def outage(self) -> None:
        await self.plane.stop_server(hard=True)
        await asyncio.sleep(TIMING.lease_duration)  # that long it lasts; nothing announces its end
        await self.plane.start_server()
        for candidate in self.fleet.candidates.values():
            await candidate.ensure_running()
        await self.fleet.wait_for_writes()


async def play(rounds: Rounds, script: list[str], plane: KubeControlPlane) -> None:
    fleet = rounds.fleet
    try:
        await fleet.start()
        await fleet.wait_for_writes()
        for deed in script:
            await getattr(rounds, deed)()
    finally:
        fleet.end()
    assert plane.audit_log is not None
    verdict = judge(*read(plane.audit_log, fleet.namespace, LEASE))
    assert verdict.faults == ()
    # After an outage the same candidate may take its own lease up again, which is no new term.
    assert verdict.terms >= sum(deed != "outage" for deed in script)
    assert verdict.writes >= WRITES * len(script)
    if rounds.python_was_frozen:
        assert verdict.refused > 0


def script(seed: int, length: int, deeds: list[str]) -> list[str]:
    """Every deed at least once, in any order."""
    chance = random.Random(seed)
    chosen = [*deeds, *chance.choices(deeds, k=max(0, length - len(deeds)))]
    chance.shuffle(chosen)
    return chosen


async def test_killed_terminated_or_cut_off(
    plane: KubeControlPlane, api: RawApi, namespace: str, tmp_path: Path
) -> None:
    """Without a fence: the candidates' own rules are enough while their processes run."""
    rounds = Rounds(Fleet(api, namespace, tmp_path, TIMING, check=True), plane)
    await play(rounds, script(1, 4, ["kill", "terminate", "outage"]), plane)


async def test_frozen_leaders_are_stopped_by_the_fence(
    plane: KubeControlPlane, api: RawApi, namespace: str, tmp_path: Path
) -> None:
    """With the check before each write switched off, so that it is the fence that is tested."""
    await fence(api, namespace)
    rounds = Rounds(Fleet(api, namespace, tmp_path, TIMING, check=False), plane)
    await play(rounds, script(2, 4, ["freeze", "freeze", "terminate"]), plane)


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_a_hundred_handovers(plane: KubeControlPlane, api: RawApi, namespace: str, tmp_path: Path) -> None:
    await fence(api, namespace)
    rounds = Rounds(Fleet(api, namespace, tmp_path, TIMING, check=False), plane)
    await play(rounds, script(3, 100, ["kill", "terminate", "freeze", "outage"]), plane)
