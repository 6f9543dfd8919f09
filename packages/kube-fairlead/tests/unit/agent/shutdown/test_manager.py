from __future__ import annotations

import pytest

from kube_fairlead.agent.shutdown.pod_runtime import RuntimeFailed
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Event, ObjectReference, Pod
from kube_fairlead.api.discovery_v1 import Endpoint, EndpointConditions, EndpointSlice
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.lifecycle.shutdown_config import Period, ShutdownConfig
from tests.unit.agent.shutdown.world import NodeWorld

CRITICAL = 2000000000
DOWN = {
    "LifecycleTransition": ("True", "shutdown-drain-started"),
    "GracefulNodeShutdownInProgress": ("True", "NodeShutdown"),
    "Ready": ("False", "KubeletNotReady"),
}
COMPLETE = {**DOWN, "LifecycleTransition": ("True", "shutdown-drain-complete")}


async def three_groups(here: NodeWorld) -> None:
    await here.pod("low", needs=3)
    await here.pod("middle", 1000, needs=5, exits=1)
    await here.pod("critical", CRITICAL, 4, needs=99)


async def test_pods_end_in_groups_and_the_shutdown_is_released_after_the_last_status(here: NodeWorld) -> None:
    await three_groups(here)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    assert here.machine.needed_seconds == 45.0
    assert here.machine.log == [
        "0 kubelet stopped",
        "0 TERM low 20",
        "3 exit low 0",
        "3 TERM middle 10",
        "8 exit middle 1",
        "8 TERM critical 4",
        "12 exit critical 137",
        "12 released",
    ]
    assert [await here.status(name) for name in ("low", "middle", "critical")] == [
        "Succeeded",
        "Failed Terminated",
        "Failed Terminated",
    ]
    assert await here.conditions() == COMPLETE
    node = await here.node()
    assert node.spec.unschedulable
    assert "shutdown.fairlead.dev/in-progress" in [taint.key for taint in node.spec.taints]
    assert life.interruptions == ["node is shutting down"]
    event = await here.event()
    assert event is not None
    assert event.claim_status is ClaimStatus.CLAIMED  # whether it really went down is for others to say
    assert event.status.claimed_by == "node/node-1"
    exposed = life.metrics.exposition().decode()
    assert 'fairlead_shutdown_pods_total{outcome="ended"} 2.0' in exposed
    assert 'fairlead_shutdown_pods_total{outcome="killed"} 1.0' in exposed


async def test_events_have_the_kubelets_reason(here: NodeWorld) -> None:
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    await here.clock.advance(1)
    recorded = await here.api.admin.of(Event).list()
    assert ("Shutdown", "Shutdown manager detected shutdown event") in [
        (one.reason, one.message) for one in recorded.items
    ]


@pytest.mark.parametrize("moment", [0.5, 1.5, 3.5, 6.0, 8.5, 11.9])
async def test_an_agent_that_is_killed_changes_nothing(here: NodeWorld, moment: float) -> None:
    """In every group: same order, same graces, the node never ready again (kubernetes#122674)."""
    await three_groups(here)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(moment)
    await life.kill()
    await here.clock.advance(0.25)
    assert here.machine.is_held
    assert (await here.conditions())["Ready"] == ("False", "KubeletNotReady")
    here.start()
    await here.wait(lambda: not here.machine.is_held)
    begun = [line.partition(" ")[2].partition(" ")[2] for line in here.machine.log if "TERM" in line]
    assert [words.split(" ")[0] for words in begun] == ["low", "middle", "critical"]
    given = {container.pod.name: container.given for container in here.machine.containers.values()}
    assert given == pytest.approx({"low": 20.0, "middle": 10.0, "critical": 4.0}, abs=0.5)
    assert here.clock.monotonic() - here.machine.began <= 40
    assert await here.conditions() == COMPLETE
    page = await here.api.events.list()
    assert [event.claim_status for event in page.items] == [ClaimStatus.CLAIMED]


async def test_time_that_passed_without_an_agent_counts(here: NodeWorld) -> None:
    await here.pod("low", needs=99)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(5)
    await life.kill()
    await here.clock.advance(10)
    here.start()
    await here.wait(lambda: not here.machine.is_held)
    (exit_line,) = [line for line in here.machine.log if line.startswith("2") and "exit" in line]
    assert float(exit_line.split(" ")[0]) == pytest.approx(20, abs=0.2)


async def test_without_the_api_server_pods_end_and_their_status_is_written_later(here: NodeWorld) -> None:
    await three_groups(here)
    life = here.start()
    await here.clock.advance(1)
    life.transport.go_down()
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    assert [line.split(" ")[2] for line in here.machine.log if "TERM" in line] == ["low", "middle", "critical"]
    assert here.clock.monotonic() - here.machine.began <= 42
    assert await here.status("low") == "Running"
    await life.kill()
    here.machine.reboot()
    here.start()
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())
    assert [await here.status(name) for name in ("low", "middle", "critical")] == [
        "Succeeded",
        "Failed Terminated",
        "Failed Terminated",
    ]


async def test_killed_and_started_again_with_the_api_out_of_reach_the_disk_is_enough(here: NodeWorld) -> None:
    await three_groups(here)
    life = here.start()
    await here.clock.advance(1)
    life.transport.go_down()
    here.machine.go_down()
    await here.clock.advance(6)
    await life.kill()
    second = here.start()
    second.transport.go_down()
    await here.wait(lambda: not here.machine.is_held)
    order = [line.split(" ")[2] for line in here.machine.log if "TERM" in line]
    assert order == ["low", "middle", "critical"]
    assert here.clock.monotonic() - here.machine.began <= 42


async def test_with_the_disk_lost_the_api_remembers(here: NodeWorld) -> None:
    await here.pod("low", needs=99)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(5)
    await life.kill()
    (here.folder / "shutdown-state.json").unlink()
    here.start()
    await here.wait(lambda: not here.machine.is_held)
    assert here.clock.monotonic() - here.machine.began <= 42
    assert len((await here.api.events.list()).items) == 1


async def test_a_shutdown_that_was_announced_without_an_agent_is_begun(here: NodeWorld) -> None:
    await here.pod("low", needs=3)
    here.machine.preparing = True
    here.start()
    await here.wait(lambda: not here.machine.is_held)
    assert await here.status("low") == "Succeeded"


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_cancelled_shutdown_is_reverted(here: NodeWorld, restarts: bool) -> None:
    await three_groups(here)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(4)
    if restarts:
        await life.kill()
        here.machine.preparing = False
        life = here.start()
    else:
        here.machine.call_off()
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())
    assert here.machine.kubelet == "running"
    assert here.machine.is_held
    node = await here.node()
    assert not node.spec.unschedulable
    assert "shutdown.fairlead.dev/in-progress" not in [taint.key for taint in node.spec.taints]
    conditions = await here.conditions()
    assert "LifecycleTransition" not in conditions
    assert conditions["GracefulNodeShutdownInProgress"] == ("False", "ShutdownCancelled")
    event = await here.event()
    assert event is not None
    assert (event.claim_status, event.status.message) == (ClaimStatus.FAILED, "the shutdown of the node was cancelled")
    assert life.interruptions[-1] == ""
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    assert (await here.conditions())["Ready"] == ("False", "KubeletNotReady")


async def test_a_cordon_that_was_there_before_stays(here: NodeWorld) -> None:
    node = await here.node()
    await here.api.nodes.update(wire.replace(node, spec=wire.replace(node.spec, unschedulable=True)))
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(2)
    here.machine.call_off()
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())
    assert (await here.node()).spec.unschedulable


async def test_after_the_reboot_what_is_stale_is_cleared_and_reported(here: NodeWorld) -> None:
    await three_groups(here)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    await life.kill()
    await here.clock.advance(60)
    here.machine.reboot()
    here.start()
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())
    assert not (await here.node()).spec.unschedulable
    conditions = await here.conditions()
    assert "LifecycleTransition" not in conditions
    assert conditions["GracefulNodeShutdownInProgress"] == ("False", "NodeStarted")
    event = await here.event()
    assert event is not None
    assert event.claim_status is ClaimStatus.SUCCEEDED
    await here.clock.advance(2)
    notes = [one.message for one in (await here.api.admin.of(Event).list()).items]
    assert any("pod termination finished: 2 ended, 1 killed" in note for note in notes)


async def test_the_api_out_of_reach_at_the_start_is_asked_when_it_is_back(here: NodeWorld) -> None:
    """A node that lost its disk with the reboot still clears what the API says of it."""
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    await life.kill()
    (here.folder / "shutdown-state.json").unlink()
    await here.clock.advance(60)
    here.machine.reboot()
    second = here.start()
    second.transport.go_down()
    await here.clock.advance(10)
    assert "LifecycleTransition" in await here.conditions()
    second.transport.is_down = False
    await here.clock.advance(10)
    assert "LifecycleTransition" not in await here.conditions()


async def test_pods_that_come_up_again_elsewhere_are_deleted_and_others_left(here: NodeWorld) -> None:
    await here.pod("moves", owner="ReplicaSet", needs=3)
    await here.pod("daemon", owner="DaemonSet", needs=3)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(1)
    assert await here.status("moves") == "Running deleting"
    assert await here.status("daemon") == "Running"
    await here.wait(lambda: not here.machine.is_held)
    assert await here.status("moves") == "gone"
    assert await here.status("daemon") == "Succeeded"


async def test_pods_are_not_ready_before_their_containers_are_stopped(here: NodeWorld) -> None:
    pod = await here.pod("web", grace=10, needs=3)
    pieces = here.api.admin.of(EndpointSlice)
    target = ObjectReference(kind="Pod", name="web", namespace="default", uid=pod.uid)
    listed = EndpointSlice(
        metadata=ObjectMeta(name="web", namespace="default"),
        address_type="IPv4",
        endpoints=(Endpoint(addresses=("10.0.0.1",), target_ref=target, conditions=EndpointConditions(ready=True)),),
    )
    await pieces.create(listed)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(0.5)
    seen = await here.api.admin.of(Pod).get("web", namespace="default")
    assert {one.type: one.status for one in seen.status.conditions}["Ready"] == "False"
    assert not [line for line in here.machine.log if "TERM" in line]
    await pieces.delete("web", namespace="default")
    await here.clock.advance(0.5)
    assert [line for line in here.machine.log if "TERM" in line]
    await here.wait(lambda: not here.machine.is_held)


@pytest.mark.parametrize(
    ("grace", "asked"), [(10, "2 TERM web 10"), (19, "1 TERM web 19"), (20, "0 TERM web 20"), (600, "0 TERM web 20")]
)
async def test_traffic_that_does_not_leave_is_waited_for_only_in_time_that_the_pod_can_spare(
    here: NodeWorld, grace: int, asked: str
) -> None:
    """The group has 20 s, and every pod gets all it may have: a wait is never taken from that."""
    pod = await here.pod("web", grace=grace, needs=3)
    target = ObjectReference(kind="Pod", name="web", namespace="default", uid=pod.uid)
    listed = EndpointSlice(
        metadata=ObjectMeta(name="web", namespace="default"),
        address_type="IPv4",
        endpoints=(Endpoint(addresses=("10.0.0.1",), target_ref=target),),
    )
    await here.api.admin.of(EndpointSlice).create(listed)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    assert here.machine.log[1] == asked
    seen = await here.api.admin.of(Pod).get("web", namespace="default")
    assert "DisruptionTarget" in [one.type for one in seen.status.conditions]


async def test_a_pod_that_arrives_is_rejected_with_the_kubelets_message(here: NodeWorld) -> None:
    await here.pod("low", needs=10)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(1)
    await here.pod("late", runs=False)
    await here.clock.advance(2)
    assert await here.status("late") == "Failed NodeShutdown"
    await here.wait(lambda: not here.machine.is_held)


async def test_the_agents_own_pod_is_never_ended(here: NodeWorld) -> None:
    own = await here.pod("agent", CRITICAL, needs=1)
    here.own_pods = frozenset({own.uid})
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    assert await here.status("agent") == "Running"


async def test_hooks_reach_the_runtime_and_static_pods_are_known_by_their_hash(here: NodeWorld) -> None:
    await here.pod("hooked", lifecycle={"preStop": {"sleep": {"seconds": 1}}})
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    assert "0 preStop hooked ['c']" in here.machine.log


async def test_a_machine_that_may_not_wait_is_an_event(here: NodeWorld) -> None:
    here.machine.problem = "the preshutdown timeout cannot be raised to 45000 ms: Access is denied."
    here.start()
    await here.clock.advance(2)

    async def recorded() -> list[tuple[str, str, str]]:
        events = (await here.api.admin.of(Event).list()).items
        return [(one.type, one.reason, one.message) for one in events if one.reason.startswith("Graceful")]

    note = (
        "The node may shut down before its pods end: "
        "the preshutdown timeout cannot be raised to 45000 ms: Access is denied."
    )
    assert await recorded() == [("Warning", "GracefulShutdownAtRisk", note)]
    here.machine.problem = ""
    await here.clock.advance(10)
    assert min(await recorded()) == (
        "Normal",
        "GracefulShutdownReady",
        "The node waits for its pods before it shuts down",
    )


async def test_a_pod_that_does_not_end_even_when_killed_does_not_hold_the_others_up(here: NodeWorld) -> None:
    here.config = ShutdownConfig((Period(0, 2), Period(CRITICAL, 3)))
    await here.pod("stuck")
    await here.pod("critical", CRITICAL, needs=1)
    ends = here.machine.end

    async def end(pod, **how):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN003, ANN202 - as the one it wraps
        if pod.name == "stuck":
            await here.clock.sleep(1000)
        return await ends(pod, **how)

    here.machine.end = end  # type: ignore[method-assign]  # a runtime with one pod that hangs
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    assert "exit critical 0" in " ".join(here.machine.log)
    assert here.clock.monotonic() - here.machine.began <= 5 + 5
    assert 'outcome="abandoned"} 1.0' in life.metrics.exposition().decode()


async def test_a_runtime_that_is_being_restarted_gets_another_chance(here: NodeWorld) -> None:
    await here.pod("low", needs=1)
    ends, refusals = here.machine.end, [RuntimeFailed("no shim"), RuntimeFailed("no shim")]

    async def end(pod, **how):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN003, ANN202 - as the one it wraps
        if refusals:
            raise refusals.pop()
        return await ends(pod, **how)

    here.machine.end = end  # type: ignore[method-assign]  # a runtime that fails twice
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    assert await here.status("low") == "Succeeded"


async def test_a_node_whose_pods_have_ended_does_not_go_back_to_ending_them(here: NodeWorld) -> None:
    """Invariant 2: killed after the end state was published, the next process does not publish the start again."""
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    reasons = list(here.api.reasons)
    await life.kill()
    here.start()
    await here.clock.advance(5)
    assert here.api.reasons == reasons == ["shutdown-drain-started", "shutdown-drain-complete"]


async def test_a_pod_that_ended_without_an_agent_gets_its_status_too(here: NodeWorld) -> None:
    ending = await here.pod("low", needs=3)
    await here.pod("moves", owner="ReplicaSet", needs=3)
    await here.pod("critical", CRITICAL, needs=1)
    before = await here.pod("before")
    here.machine.containers[before.uid].code = 0
    finished = wire.replace(before, status=wire.replace(before.status, phase="Succeeded"))
    await here.api.admin.of(Pod).update_status(finished)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(1)
    await life.kill()
    for container in here.machine.containers.values():  # it takes no agent to end what was asked to end
        if container.asked is not None:
            container.code = 0
    assert here.machine.containers[ending.uid].code == 0
    await here.clock.advance(5)
    here.start()
    await here.wait(lambda: not here.machine.is_held)
    names = ("low", "moves", "critical", "before")
    assert [await here.status(name) for name in names] == ["Succeeded", "gone", "Succeeded", "Succeeded"]
