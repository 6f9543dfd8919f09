"""A shutdown beside the claims of the same node: one at a time, whatever is under way (invariant 1)."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest

from kube_fairlead.api.core_v1 import Event
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, NodeLifecycleRecord
from kube_fairlead.api.reserved import FINALIZER_CLAIMED, NODE_SHUTDOWN
from kube_fairlead.client import errors
from kube_fairlead.client.transport import Request, Response
from kube_fairlead.lifecycle import autoscaler_annotations
from tests.unit.agent.shutdown.world import NodeWorld
from tests.unit.claimant.world import NODE


async def test_an_event_under_way_fails_before_the_shutdown_is_claimed(here: NodeWorld) -> None:
    await here.pod("low", needs=10)
    agent = here.api.start_agent()
    here.beside(agent.agent)
    here.start()
    await here.clock.advance(1)
    here.api.driver.hold["end"].clear()
    await here.api.create("reboot")
    await here.clock.advance(2)
    assert (await here.api.events.get("reboot")).claim_status is ClaimStatus.CLAIMED
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    claimed: set[str] = set()
    for name, what in here.api.history:
        claimed = claimed | {name} if what == "Claimed" else claimed - {name}
        assert len(claimed) <= 1
    assert here.api.seen("reboot")[:3] == ["Pending", "Claimed", "Failed"]
    (shutdown,) = {name for name, _ in here.api.history if name.startswith("shutdown-")}
    assert here.api.seen(shutdown)[-1] == "Claimed"
    await here.api.create("later")
    await here.clock.advance(5)
    assert here.api.seen("later") == ["Pending"]


async def test_a_claim_on_its_way_is_waited_for(here: NodeWorld) -> None:
    await here.pod("low", needs=10)
    agent = here.api.start_agent()
    here.beside(agent.agent)
    here.start()
    await here.clock.advance(2)
    is_sent, send = asyncio.Event(), agent.transport.send

    async def slowly(request: Request) -> Response:
        if request.path.endswith("/late/status") and not is_sent.is_set():
            is_sent.set()
            await here.clock.sleep(1)
        return await send(request)

    agent.transport.send = slowly  # type: ignore[method-assign]  # the one request that a busy server is slow with
    await here.api.create("late")
    await here.wait(is_sent.is_set)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    await here.clock.advance(5)
    claimed: set[str] = set()
    for name, what in here.api.history:
        claimed = claimed | {name} if what == "Claimed" else claimed - {name}
        assert len(claimed) <= 1
    assert here.api.seen("late")[:3] == ["Pending", "Claimed", "Failed"]
    assert any(name.startswith("shutdown-") for name in claimed)


@pytest.mark.parametrize("off_seconds", [60, 600], ids=["before-the-deadline", "after-the-deadline"])
async def test_after_the_reboot_the_event_is_finished_and_the_next_has_its_turn(
    here: NodeWorld, off_seconds: float
) -> None:
    """The machine went down and is up again. When it boots does not change that."""
    agent = here.api.start_agent()
    here.beside(agent.agent)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    await here.api.create("later")
    await here.clock.advance(1)
    await agent.kill()
    await life.kill()
    await here.clock.advance(off_seconds)
    here.machine.reboot()
    agent = here.api.start_agent()
    here.beside(agent.agent)
    here.start()
    await here.clock.advance(120)
    (shutdown,) = {name for name, _ in here.api.history if name.startswith("shutdown-")}
    assert here.api.seen(shutdown)[-3:] == ["Claimed", "Succeeded", "gone"]
    assert "Succeeded" in here.api.seen("later")


async def test_a_late_boot_is_reported_although_the_results_of_pods_cannot_be_written(here: NodeWorld) -> None:
    """The driver answers before the agent writes anything else, however long that takes."""
    await here.pod("low", needs=1000)
    agent = here.api.start_agent()
    here.beside(agent.agent)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(5)
    await agent.kill()
    await life.kill()
    await here.clock.advance(600)
    here.machine.reboot()
    here.beside(here.api.start_agent().agent)
    life = here.start()
    send = life.transport.send

    async def without_pods(request: Request) -> Response:
        if "/pods" in request.path and request.method != "GET":
            raise errors.ConnectionBroken("no write of a pod gets through")
        return await send(request)

    life.transport.send = without_pods  # type: ignore[method-assign]  # for as long as the test lasts
    await here.clock.advance(120)
    assert (here.folder / "shutdown-state.json").exists()
    (shutdown,) = {name for name, _ in here.api.history if name.startswith("shutdown-")}
    assert here.api.seen(shutdown)[-3:] == ["Claimed", "Succeeded", "gone"]


async def test_a_machine_that_does_not_go_down_in_time_exceeds_the_deadline(here: NodeWorld) -> None:
    agent = here.api.start_agent()
    here.beside(agent.agent)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(600)
    (shutdown,) = {name for name, _ in here.api.history if name.startswith("shutdown-")}
    assert here.api.seen(shutdown)[-3:] == ["Claimed", "SlaExpired", "gone"]
    await here.clock.advance(60)
    assert here.api.seen(shutdown)[-1] == "gone", "an event that has ended is not requested again"


async def test_an_event_of_the_boot_before_succeeds_while_the_next_shutdown_is_under_way(here: NodeWorld) -> None:
    """The machine boots after the deadline, and is shut down again before the agent has finished the first event."""
    agent = here.api.start_agent()
    here.beside(agent.agent)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    await agent.kill()
    await life.kill()
    (first,) = {name for name, _ in here.api.history if name.startswith("shutdown-")}
    await here.clock.advance(600)
    here.machine.reboot()
    here.machine.go_down()
    here.beside(here.api.start_agent().agent)
    here.start()
    await here.wait(lambda: not here.machine.is_held)
    assert here.api.seen(first)[-3:] == ["Claimed", "Succeeded", "gone"]
    (second,) = {name for name, _ in here.api.history if name.startswith("shutdown-")} - {first}
    assert here.api.seen(second)[-1] == "Claimed"


async def test_autoscalers_may_remove_a_node_that_never_returns(here: NodeWorld) -> None:
    """Also where an event held them when the shutdown began."""
    agent = here.api.start_agent()
    here.beside(agent.agent)
    here.start()
    await here.clock.advance(1)
    here.api.driver.hold["end"].clear()
    await here.api.create("reboot")
    await here.clock.advance(2)
    assert autoscaler_annotations.ANNOTATION_HELD in (await here.node()).metadata.annotations
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    left = (await here.node()).metadata.annotations
    assert not {autoscaler_annotations.ANNOTATION_HELD, *autoscaler_annotations.HOLDS} & left.keys()


async def test_an_event_that_is_deleted_before_its_claim_is_requested_again(here: NodeWorld) -> None:
    await here.pod("low", needs=10)
    agent = here.api.start_agent()
    here.beside(agent.agent)
    here.start()
    await here.clock.advance(1)
    is_sent, send = asyncio.Event(), agent.transport.send

    async def after_a_deletion(request: Request) -> Response:
        if request.method == "PUT" and "/shutdown-" in request.path and not is_sent.is_set():
            is_sent.set()
            await here.api.events.delete(request.path.split("/")[-2])
        return await send(request)

    agent.transport.send = after_a_deletion  # type: ignore[method-assign]  # a user deletes it in this moment
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    (shutdown,) = {name for name, _ in here.api.history if name.startswith("shutdown-")}
    assert here.api.seen(shutdown) == ["Pending", "gone", "Pending", "Claimed"]


async def test_after_a_cancelled_shutdown_waiting_events_continue(here: NodeWorld) -> None:
    agent = here.api.start_agent()
    here.beside(agent.agent)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(3)
    await here.api.create("later")
    await here.clock.advance(1)
    assert here.api.seen("later") == ["Pending"]
    here.machine.call_off()
    await here.clock.advance(10)
    assert "Succeeded" in here.api.seen("later")


async def test_the_end_is_published_although_the_event_cannot_be_claimed(here: NodeWorld) -> None:
    here.api.start_agent(identity="twin")
    await here.clock.advance(1)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    assert (await here.conditions())["LifecycleTransition"] == ("True", "shutdown-drain-complete")
    assert not (await here.api.events.list()).items


async def test_no_pending_write_overwrites_the_shutdown(here: NodeWorld) -> None:
    """What the engine decided from an older node must not replace what the shutdown says (invariant 10)."""
    await here.pod("low", needs=10)
    agent = here.api.start_agent()
    here.beside(agent.agent)
    here.start()
    await here.clock.advance(2)
    is_sent, send = asyncio.Event(), agent.transport.send

    async def slowly(request: Request) -> Response:
        if request.method == "PATCH" and b'"Rebooting"' in request.body and not is_sent.is_set():
            is_sent.set()
            await here.clock.sleep(1)
        return await send(request)

    agent.transport.send = slowly  # type: ignore[method-assign]  # the one request that a busy server is slow with
    await here.api.create("late")
    await here.wait(is_sent.is_set)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    await here.clock.advance(5)
    assert here.api.reasons == ["shutdown-drain-started", "shutdown-drain-complete"]


async def test_what_the_next_event_says_is_not_cleared_away(here: NodeWorld) -> None:
    """After the boot the next event has its turn at once, while what the shutdown said is still being cleared."""
    agent = here.api.start_agent()
    here.beside(agent.agent)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    await here.api.create("later")
    await agent.kill()
    await life.kill()
    here.machine.reboot()
    await here.clock.advance(60)
    agent = here.api.start_agent()
    here.beside(agent.agent)
    life = here.start()
    is_sent, send = asyncio.Event(), life.transport.send

    async def slowly(request: Request) -> Response:
        if b'"$patch"' in request.body and not is_sent.is_set():
            is_sent.set()
            await here.clock.sleep(5)
        return await send(request)

    life.transport.send = slowly  # type: ignore[method-assign]  # the one request that a busy server is slow with
    await here.wait(lambda: here.api.seen("later")[-1:] == ["gone"])
    await here.clock.advance(5)
    assert (await here.conditions())["LifecycleTransition"][1] == "Rebooted"


async def test_the_event_is_claimed_and_started_before_the_machine_goes(here: NodeWorld) -> None:
    """By the claimant, as every other: claim, finalizer, start, and a Kubernetes Event for each step."""
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    heard = here.clock.now()
    await here.wait(lambda: not here.machine.is_held)
    event = await here.event()
    assert event is not None
    status = event.status
    assert (status.driver, status.claimed_by) == (NODE_SHUTDOWN.driver, f"node/{NODE}")
    assert FINALIZER_CLAIMED in event.metadata.finalizers
    assert status.start_time is not None
    # Every group's time, and five minutes to be down.
    assert status.sla is not None
    assert dt.timedelta(0) <= status.sla - heard - dt.timedelta(seconds=40, minutes=5) <= dt.timedelta(seconds=1)
    await here.clock.advance(1)
    reasons = {one.reason for one in (await here.api.admin.of(Event).list()).items}
    assert {"Claimed", "TransitionStarted", "LifecycleClaimed", "LifecycleTransitionStarted"} <= reasons


@pytest.mark.parametrize(("boots", "end"), [(True, "Succeeded"), (False, "Failed")])
async def test_its_end_is_stored_and_recorded_before_it_is_gone(here: NodeWorld, boots: bool, end: str) -> None:
    agent = here.api.start_agent()
    here.beside(agent.agent)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    writes = agent.transport.writes
    if boots:
        await agent.kill()
        await life.kill()
        here.machine.reboot()
        agent = here.api.start_agent()
        writes = agent.transport.writes
        here.beside(agent.agent)
        here.start()
    else:
        writes.clear()
        here.machine.call_off()
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())
    await here.clock.advance(2)
    (shutdown,) = {name for name, _ in here.api.history if name.startswith("shutdown-")}
    assert here.api.seen(shutdown)[-3:] == ["Claimed", end, "gone"]
    record = await here.api.admin.of(NodeLifecycleRecord).get(NODE)
    assert [(one.event_name, one.result) for one in record.entries] == [(shutdown, end)]
    steps = [line for line in writes if f"/lifecycleevents/{shutdown}" in line or "/nodelifecyclerecords" in line]
    assert [line.split("/")[-1].split(" ")[0] for line in steps][-4:] == [
        "status",
        "nodelifecyclerecords",
        shutdown,
        shutdown,
    ]
    assert [line.split(" ")[0] for line in steps][-2:] == ["PUT", "DELETE"]


async def test_the_event_of_a_shutdown_that_a_user_makes_shuts_nothing_down(here: NodeWorld) -> None:
    agent = here.api.start_agent()
    here.beside(agent.agent)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(1)
    here.machine.call_off()
    await here.clock.advance(5)
    before = len(here.api.reasons)
    await here.api.create("mine", NODE_SHUTDOWN.name)
    await here.clock.advance(5)
    assert here.api.seen("mine") == ["Pending"]
    assert here.machine.kubelet == "running"
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    assert here.api.seen("mine") == ["Pending", "Claimed", "Failed", "gone"]
    assert here.api.reasons[before:] == ["shutdown-drain-started", "shutdown-drain-complete"]
    assert (await here.conditions())["GracefulNodeShutdownInProgress"] == ("True", "NodeShutdown")
    event = await here.event()
    assert event is not None
    assert event.claim_status is ClaimStatus.CLAIMED


async def test_it_is_claimed_by_the_next_process_where_the_first_died_before(here: NodeWorld) -> None:
    """The event was made, and the agent killed before it claimed it; the machine boots meanwhile."""
    agent = here.api.start_agent(
        fate=lambda request, when: when == "before" and request.method == "PUT" and "/shutdown-" in request.path
    )
    here.beside(agent.agent)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    (shutdown,) = {name for name, _ in here.api.history if name.startswith("shutdown-")}
    assert here.api.seen(shutdown) == ["Pending"]
    await agent.kill()
    await life.kill()
    here.machine.reboot()
    here.beside(here.api.start_agent().agent)
    here.start()
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())
    await here.clock.advance(2)
    assert here.api.seen(shutdown) == ["Pending", "Claimed", "Succeeded", "gone"]
