"""KEP-5366, Test Plan: the eight scenarios, by their own words, on both control planes.

What can be seen only from inside (that there is never a second loop) is seen on managers in this process; what can be
seen only from outside (signals, memory) on the components' processes.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable

import pytest

from kube_fairlead_lab.testing.manifests import config_map
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5366 import loops
from tests.spec.kep5366.components import ALONE, Replica, until
from tests.spec.kep5366.conftest import StartProcess
from tests.spec.kep5366.loops import Fleet


async def until_marked(api: RawApi, fleet: Fleet, name: str, by: str) -> None:
    path = f"/api/v1/namespaces/{fleet.lock.namespace}/configmaps/{name}"
    await api.poll(path, lambda got: got.expect(200)["metadata"].get("labels", {}).get("marked-by") == by)


def opened_no_more_than(leader: Replica, *, by: Replica) -> Callable[[], Awaitable[bool]]:
    async def compare() -> bool:
        return by.descriptors <= leader.descriptors

    return compare


async def make(api: RawApi, fleet: Fleet, name: str) -> None:
    (await api.post(f"/api/v1/namespaces/{fleet.lock.namespace}/configmaps", config_map(name))).expect(201)


async def holder(api: RawApi, fleet: Fleet) -> str:
    lock = fleet.lock
    path = f"/apis/coordination.k8s.io/v1/namespaces/{lock.namespace}/leases/{lock.name}"
    spec = (await api.get(path)).expect(200)["spec"]
    name: str = spec.get("holderIdentity") or ""
    return name


async def test_component_acquires_leader_lock_should_start_its_control_loop(fleet: Fleet, api: RawApi) -> None:
    replica = await fleet.start("a")
    await fleet.until_leads(replica)
    assert await holder(api, fleet) == "a"
    await make(api, fleet, "x")
    await until_marked(api, fleet, "x", "a")


async def test_component_releasing_leader_lock_should_shut_down_its_control_loop(fleet: Fleet, api: RawApi) -> None:
    first = await fleet.start("a")
    await fleet.until_leads(first)
    second = await fleet.start("b")
    await make(api, fleet, "x")
    await until_marked(api, fleet, "x", "a")
    assert first.manager.step_down() == [str(fleet.lock)]
    await fleet.until_leads(second)
    assert fleet.loops.running == ["b"]
    assert not first.task.done()
    await until_marked(api, fleet, "x", "b")


async def test_component_acquiring_and_releasing_the_leader_lock_multiple_times_should_not_leak_memory(
    start_process: StartProcess, component: str
) -> None:
    replica = start_process("a", ALONE)
    await until(replica.leads, what="it leads")

    async def reads_inventory() -> bool:
        return replica.threads >= 3  # the main thread, the watchdog, and the provider's own in each term

    async def cycle(times: int) -> tuple[int, int, int]:
        for _ in range(times):
            terms = (await replica.shown()).value("fairlead_leader_terms_total")
            replica.send(signal.SIGUSR1)

            async def leads_again(before: float = terms) -> bool:
                seen = await replica.see()
                return seen is not None and seen.value("fairlead_leader_terms_total") > before and seen.loops >= 1

            await until(leads_again, what="it leads again")
        if component == "cloud-controller-manager":
            await until(reads_inventory, what="its provider reads the inventory")
        return replica.resident_kilobytes, replica.threads, replica.descriptors

    kilobytes, threads, descriptors = await cycle(4)  # what is loaded and cached only once is there by now
    later = await cycle(8)
    assert later[0] - kilobytes < 3 * 1024
    assert later[1] == threads
    assert later[2] - descriptors < 8  # one left behind by each term would be eight; some are just being opened
    seen = await replica.shown()
    assert seen.value("fairlead_leaks_total") == 0
    assert seen.value("fairlead_leader_terms_total") == 13


async def test_component_acquiring_and_releasing_the_leader_lock_multiple_times_should_have_only_one_control_loop(
    fleet: Fleet,
) -> None:
    replica = await fleet.start("a", timing=loops.ALONE)
    await fleet.until_leads(replica)
    for turn in range(2, 12):
        replica.manager.step_down()
        await fleet.until(lambda turn=turn: fleet.loops.begun == turn, "it leads again")  # type: ignore[misc]  # bound now
    assert fleet.loops.most == 1
    assert fleet.loops.running == ["a"]


async def test_if_kube_apiserver_takes_long_to_release_client_calls_the_graceful_release_waits_for_the_controller(
    fleet: Fleet, api: RawApi
) -> None:
    leader = await fleet.start("a", shutdown_timeout_seconds=30)
    await fleet.until_leads(leader)
    follower = await fleet.start("b")
    leader.gate.resource = "configmaps"
    await make(api, fleet, "x")
    await fleet.until(lambda: leader.gate.waiting > 0, "a call hangs")
    leader.task.cancel()
    renewed = leader.manager.groups[0].candidate.candidacy.renewed
    candidate = leader.manager.groups[0].candidate
    # The call hangs on, the lease is renewed on, and nobody else leads.
    await fleet.until(lambda: (candidate.candidacy.renewed or 0) > (renewed or 0) + 2, "it renews on")
    assert await holder(api, fleet) == "a"
    assert fleet.loops.running == ["a"]
    leader.gate.opened.set()
    await fleet.until_leads(follower)
    await fleet.until(leader.task.cancelled, "the leader has ended")
    assert fleet.loops.most == 1


async def test_calls_that_never_return_end_the_process_instead_of_releasing_early(fleet: Fleet, api: RawApi) -> None:
    """Beyond the scenario: --controller-shutdown-timeout bounds the wait."""
    leader = await fleet.start("a", shutdown_timeout_seconds=1)
    await fleet.until_leads(leader)
    leader.gate.resource = "configmaps"
    await make(api, fleet, "x")
    await fleet.until(lambda: leader.gate.waiting > 0, "a call hangs")
    leader.task.cancel()
    await fleet.until(lambda: bool(leader.overruns), "the process ends")
    assert any("marker" in name for name in leader.overruns[0].running)
    assert await holder(api, fleet) == "a"
    leader.gate.opened.set()
    await fleet.until(leader.task.done, "everything has ended")


async def test_releasing_a_lock_will_stop_the_control_loop(fleet: Fleet, api: RawApi) -> None:
    """And in this order: when the Lease says that nobody holds it, the loop has ended."""
    replica = await fleet.start("a")
    await fleet.until_leads(replica)
    lock = fleet.lock
    path = f"/apis/coordination.k8s.io/v1/namespaces/{lock.namespace}/leases"
    async with api.watch(path, fieldSelector=f"metadata.name={lock.name}", resourceVersion="0") as watch:
        replica.manager.step_down()
        await watch.until(lambda event: not event["object"]["spec"].get("holderIdentity"))
        assert fleet.loops.running == []
    assert not replica.task.done()


async def test_only_one_control_loop_should_be_running_at_all_times(fleet: Fleet, api: RawApi) -> None:
    names = ("a", "b", "c")
    for name in names:
        await fleet.start(name)
    await make(api, fleet, "x")
    for turn in range(1, 13):
        await fleet.until(lambda: len(fleet.loops.running) == 1, "one leads")
        leader = fleet.replicas[fleet.loops.running[0]]
        begun = fleet.loops.begun
        if turn % 4 == 0:
            leader.task.cancel()  # as SIGTERM
            await fleet.until(leader.task.done, "it ended")
            await fleet.start(leader.name)
        else:
            leader.manager.step_down()
        await fleet.until(lambda begun=begun: fleet.loops.begun > begun, "the next leads")  # type: ignore[misc]  # bound now
    assert fleet.loops.most == 1


async def test_components_in_follower_mode_should_not_start_control_loop_or_allocate_unnecessary_memory(
    start_process: StartProcess,
) -> None:
    leader = start_process("a")
    await until(leader.leads, what="a leads")
    follower = start_process("b")
    await until(follower.follows, what="b follows")
    seen = await follower.shown()
    assert seen.loops == 0
    assert "check passed" in seen.health
    assert "follows" in seen.health
    await until(opened_no_more_than(leader, by=follower), what="the leader has its connections")
    assert follower.resident_kilobytes <= leader.resident_kilobytes + 1024
    # And back to that, when a leader becomes a follower again.
    leader.send(signal.SIGUSR1)
    await until(follower.leads, what="b leads")
    await until(leader.follows, what="a follows")
    assert (await leader.shown()).loops == 0
    await until(opened_no_more_than(follower, by=leader), what="the old leader has hung up")


@pytest.mark.parametrize(
    ("gates", "released"), [("", True), ("ControllerManagerReleaseLeaderElectionLockOnExit=false", False)]
)
async def test_the_release_gate(fleet: Fleet, api: RawApi, gates: str, released: bool) -> None:
    """Phase 2: with the gate off the lease is left to expire."""
    replica = await fleet.start("a", gates=gates)
    await fleet.until_leads(replica)
    replica.task.cancel()
    await fleet.until(replica.task.done, "it ended")
    assert (await holder(api, fleet) == "") is released
