"""KEP-5366, Test Plan, "acquiring and releasing the leader lock multiple times": a thousand times, in one process."""

from __future__ import annotations

import signal
import statistics
import threading
from pathlib import Path

import pytest

from kube_fairlead.base import tasks
from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5366 import loops
from tests.spec.kep5366.components import Replica, until
from tests.spec.kep5366.conftest import StartProcess
from tests.spec.kep5366.loops import Fleet

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

CYCLES = 1000
WARM_UP = 100
SAMPLE = 50
# What allocators make of a thousand TLS contexts: over two thousand terms a process goes up and down by as much.
NOISE_KILOBYTES = 2 * 1024
# Nobody else wants the lease: the shortest of waits before leading again.
HURRIED = "--leader-elect-retry-period=10ms"
GATES_OFF = "--feature-gates=GracefulLeaderTransition=false,ControllerManagerReleaseLeaderElectionLockOnExit=false"


async def cycle(replica: Replica, times: int) -> tuple[int, int, int]:
    """Yield and lead again; memory, threads and descriptors afterwards."""
    for _ in range(times):
        terms = (await replica.shown()).value("fairlead_leader_terms_total")
        replica.send(signal.SIGUSR1)

        async def leads_again(before: float = terms) -> bool:
            seen = await replica.see()
            return seen is not None and seen.value("fairlead_leader_terms_total") > before and seen.loops >= 1

        await until(leads_again, what="it leads again")
    return replica.resident_kilobytes, replica.threads, replica.descriptors


async def test_a_thousand_terms_leave_the_process_as_it_was(start_process: StartProcess) -> None:
    without = start_process("gates-off", GATES_OFF, "--leader-elect-resource-name=gates-off")
    await until(without.leads, what="it leads")
    replica = start_process("a", HURRIED)
    await until(replica.leads, what="it leads")
    assert replica.resident_kilobytes - without.resident_kilobytes < NOISE_KILOBYTES
    await without.stop()
    _, threads, descriptors = await cycle(replica, WARM_UP)
    samples = [await cycle(replica, SAMPLE) for _ in range((CYCLES - WARM_UP) // SAMPLE)]
    # Halves are compared, not moments: now and then the allocator gives back what it kept, and takes it again.
    kilobytes = [sample[0] for sample in samples]
    half = len(kilobytes) // 2
    assert statistics.median(kilobytes[half:]) - statistics.median(kilobytes[:half]) < NOISE_KILOBYTES, kilobytes
    assert samples[-1][1] == threads
    assert samples[-1][2] - descriptors < 8  # those being opened at this moment; a leak would be of hundreds
    seen = await replica.shown()
    assert seen.value("fairlead_leaks_total") == 0
    assert seen.value("fairlead_leader_terms_total") == CYCLES + 1


@pytest.mark.parametrize("fleet", [loops.no_controllers], indirect=True)
async def test_a_thousand_terms_have_one_loop_at_a_time(fleet: Fleet, api: RawApi) -> None:
    path = f"/api/v1/namespaces/{fleet.lock.namespace}/configmaps"
    (await api.post(path, config_map("x"))).expect(201)
    replica = await fleet.start("a", timing=loops.HURRIED)

    async def cycle(until_begun: int) -> tuple[int, int, int]:
        while fleet.loops.begun < until_begun:
            turn = fleet.loops.begun + 1
            replica.manager.step_down()
            await fleet.until(lambda turn=turn: fleet.loops.begun == turn, "it leads again")  # type: ignore[misc]  # bound now
        await fleet.until(lambda: fleet.loops.running == ["a"], "it leads")
        return len(tasks.live_tasks()), threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))

    await fleet.until_leads(replica)
    before = await cycle(WARM_UP)
    after = await cycle(CYCLES)
    assert fleet.loops.most == 1
    assert after[1] == before[1]
    assert abs(after[0] - before[0]) <= 3  # requests that happen to be under way
    assert abs(after[2] - before[2]) <= 2
