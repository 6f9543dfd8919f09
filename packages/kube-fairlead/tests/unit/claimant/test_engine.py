"""One agent against the real API server in process, on virtual time."""

from __future__ import annotations

import dataclasses
import datetime as dt
import pathlib

from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import CONDITION_LIFECYCLE_TRANSITION, FINALIZER_CLAIMED
from kube_fairlead.driverapi.messages import Progress
from kube_fairlead.lifecycle import autoscaler_annotations
from kube_fairlead.lifecycle.facts import Precedence
from tests.unit.claimant.world import NODE, World, a_world

_EVENTS = GroupVersionResource("events.k8s.io", "v1", "events")


async def test_one_event_from_first_to_last(here: World) -> None:
    stored: list[LifecycleEvent] = []
    here.driver.hold["start"].clear()
    here.driver.hold["end"].clear()
    here.start_agent()
    await here.create(annotations={"reboot.example.com/delay": "5s"})
    await here.clock.advance(1)
    # Start runs now, and not before both of these are stored.
    stored.append(await here.events.get("e"))
    assert stored[0].claim_status is ClaimStatus.CLAIMED
    assert FINALIZER_CLAIMED in stored[0].metadata.finalizers
    assert here.driver.calls == ["start e"]
    assert here.driver.works[0].options == {"delay": "5s"}
    assert here.driver.works[0].node_uid == (await here.node()).uid
    assert here.reasons == []
    here.driver.hold["start"].set()
    await here.clock.advance(1)
    assert here.reasons == ["Rebooting"]
    assert (await here.events.get("e")).status.start_time is not None
    node = await here.node()
    assert set(autoscaler_annotations.HOLDS) <= set(node.metadata.annotations)
    here.driver.hold["end"].set()
    await here.clock.advance(1)
    assert here.seen() == ["Pending", "Claimed", "Succeeded", "gone"]
    assert here.reasons == ["Rebooting", "Rebooted"]
    assert here.driver.effects == ["start e", "end e"]
    assert (await here.node()).metadata.annotations == {}


async def test_events_and_metrics_are_recorded(here: World) -> None:
    agent = here.start_agent()
    await here.create()
    await here.clock.advance(1)
    await agent.stop()
    listed = await here.admin.of(_EVENTS).list(namespace="default")
    recorded = {(one["regarding"]["kind"], one["reason"]) for one in listed.items}
    assert recorded >= {
        ("LifecycleEvent", "Claimed"),
        ("LifecycleEvent", "TransitionStarted"),
        ("LifecycleEvent", "TransitionSucceeded"),
        ("Node", "LifecycleClaimed"),
        ("Node", "LifecycleTransitionSucceeded"),
    }


async def test_one_at_a_time_and_in_order(here: World) -> None:
    here.driver.hold["end"].clear()
    here.start_agent()
    for name in ("c", "b", "a"):
        await here.create(name)
        await here.clock.advance(1)
    claimed = [event.name for event in (await here.events.list()).items if event.claim_status is ClaimStatus.CLAIMED]
    assert claimed == ["c"]
    here.driver.hold["end"].set()
    await here.clock.advance(1)
    assert here.driver.effects == [f"{step} {name}" for name in "cba" for step in ("start", "end")]
    terminal = [name for name, what in here.history if what == "Succeeded"]
    assert terminal == ["c", "b", "a"]


async def test_a_refusal_fails_the_event(here: World) -> None:
    here.settings = dataclasses.replace(here.settings, keep_finished=dt.timedelta(hours=1))
    here.driver.refusal["end"] = "PDB shop/web allows none"
    here.start_agent()
    await here.create()
    await here.clock.advance(1)
    event = await here.events.get("e")
    assert (event.claim_status, event.status.message) == (ClaimStatus.FAILED, "PDB shop/web allows none")
    assert event.metadata.finalizers == ()
    condition = (await here.node()).condition(CONDITION_LIFECYCLE_TRANSITION)
    assert condition is not None
    assert condition.reason == "Rebooting"
    assert condition.message == "Lifecycle Transition 'reboot' failed: PDB shop/web allows none"
    await here.clock.advance(3600)
    assert here.seen()[-2:] == ["Failed", "gone"]


async def test_the_deadline_cancels_the_driver(server_folder: pathlib.Path) -> None:
    async with a_world(server_folder, sla="90s") as here:
        here.settings = dataclasses.replace(here.settings, keep_finished=dt.timedelta(hours=1))
        here.driver.hold["end"].clear()
        here.start_agent()
        await here.create()
        await here.clock.advance(80)
        assert here.seen() == ["Pending", "Claimed"]
        await here.clock.advance(15)
        event = await here.events.get("e")
        assert event.claim_status is ClaimStatus.SLA_EXPIRED
        assert event.status.completion_time is not None
        assert event.status.sla is not None
        assert event.status.completion_time - event.status.sla <= dt.timedelta(seconds=1)
        here.driver.hold["end"].set()
        await here.clock.advance(5)
        assert here.driver.effects == ["start e"]
        # The node is free for the next.
        await here.create("f")
        await here.clock.advance(5)
        assert here.seen("f")[-1] == "Succeeded"


async def test_no_driver_for_five_minutes(here: World) -> None:
    here.start_agent(registered=False)
    await here.create()
    await here.clock.advance(1)
    waiting = await here.events.get("e")
    assert waiting.status.message == "waiting: driver example.com/reboot is not registered on node node-1"
    await here.clock.advance(290)
    assert here.seen() == ["Pending"]
    await here.clock.advance(15)
    assert here.seen() == ["Pending", "Failed", "gone"]


async def test_a_driver_that_comes_in_time(here: World) -> None:
    agent = here.start_agent(registered=False)
    await here.create()
    await here.clock.advance(200)
    here.register(agent.agent)
    await here.clock.advance(1)
    assert here.seen()[-2:] == ["Succeeded", "gone"]


async def test_a_transition_that_comes_in_time(here: World) -> None:
    here.start_agent()
    await here.create(transition="later")
    await here.clock.advance(10)
    await here.offer("later")
    await here.clock.advance(1)
    assert here.seen()[-2:] == ["Succeeded", "gone"]


async def test_a_transition_for_other_nodes(here: World) -> None:
    await here.offer("elsewhere", all_nodes=None, node_name="node-2")
    here.start_agent()
    await here.create(transition="elsewhere")
    await here.clock.advance(1)
    assert here.seen() == ["Pending", "Failed", "gone"]


async def test_progress_reaches_the_event(here: World) -> None:
    here.driver.progress = [Progress(done=done, total=9, unit="pods", message=f"pod {done}") for done in range(4)]
    here.driver.hold["end"].clear()
    here.start_agent()
    await here.create()
    await here.clock.advance(3)
    event = await here.events.get("e")
    assert event.status.progress is not None
    assert (event.status.progress.done, event.status.progress.total, event.status.progress.unit) == (3, 9, "pods")
    assert event.status.message == "pod 3"
    writes = [change for change in here.history if change[0] == "e"]
    assert writes[-1] == ("e", "Claimed")


async def test_a_user_who_deletes_a_claimed_event_waits_for_its_end(here: World) -> None:
    here.driver.hold["end"].clear()
    here.start_agent()
    await here.create()
    await here.clock.advance(1)
    await here.events.delete("e")
    await here.clock.advance(1)
    assert here.seen()[-1] == "Claimed"
    here.driver.hold["end"].set()
    await here.clock.advance(1)
    assert here.seen()[-2:] == ["Succeeded", "gone"]


async def test_a_user_who_tears_the_event_away_stops_the_driver(here: World) -> None:
    here.driver.hold["end"].clear()
    here.start_agent()
    created = await here.create()
    await here.clock.advance(1)
    await here.events.delete("e")
    await here.events.modify("e", lambda event: wire.replace_metadata(event, finalizers=()))
    await here.clock.advance(1)
    assert here.seen()[-1] == "gone"
    here.driver.hold["end"].set()
    await here.clock.advance(1)
    assert here.driver.effects == ["start e"]
    # One of the same name is another event.
    again = await here.create()
    await here.clock.advance(1)
    assert again.uid != created.uid
    assert here.driver.effects == ["start e", "start e", "end e"]


async def test_a_node_that_is_created_again_is_another_node(here: World) -> None:
    here.driver.hold["end"].clear()
    here.start_agent()
    await here.create()
    await here.clock.advance(1)
    await here.nodes.delete(NODE)
    await here.nodes.create(Node(metadata=ObjectMeta(name=NODE)))
    await here.clock.advance(1)
    assert here.seen()[-2:] == ["Failed", "gone"]
    assert (await here.node()).status.conditions == ()


async def test_a_node_that_is_gone(here: World) -> None:
    here.start_agent()
    await here.clock.advance(1)
    await here.nodes.delete(NODE)
    await here.create()
    await here.clock.advance(10)
    assert here.seen() == ["Pending"]
    await here.nodes.create(Node(metadata=ObjectMeta(name=NODE)))
    await here.clock.advance(1)
    assert here.seen()[-2:] == ["Succeeded", "gone"]


async def test_anothers_claim_is_left_alone(here: World) -> None:
    created = await here.create()
    status = wire.replace(created.status, claim_status="Claimed", claimed_by="claimer/central")
    await here.events.update_status(wire.replace(created, status=status))
    here.start_agent()
    await here.create("f")
    await here.clock.advance(600)
    assert here.seen() == ["Pending", "Claimed"]
    assert here.seen("f") == ["Pending"]
    assert here.driver.calls == []


async def test_a_claim_that_does_not_say_whose_it_is_is_anothers(here: World) -> None:
    """Who claims by the proposal alone writes its three status fields, and neither `claimedBy` nor our finalizer."""
    await here.create("a")
    await here.create("b")
    taken = await here.events.get("a")
    status = wire.replace(taken.status, claim_status=ClaimStatus.CLAIMED, driver="other.example.com/x")
    taken = await here.events.update_status(wire.replace(taken, status=status))
    here.start_agent()
    await here.clock.advance(600)
    assert await here.events.get("a") == taken
    assert here.seen("b") == ["Pending"]
    status = wire.replace(status, claim_status=ClaimStatus.SUCCEEDED)
    taken = await here.events.update_status(wire.replace(taken, status=status))
    await here.clock.advance(600)
    assert await here.events.get("a") == taken, "it is its claimant's to delete"
    assert here.seen("b")[-2:] == ["Succeeded", "gone"]


async def test_why_it_waits_is_true_all_the_while(here: World) -> None:
    async def message() -> str:
        return (await here.events.get("later")).status.message

    here.driver.hold["end"].clear()
    agent = here.start_agent(registered=False)
    await here.create("later", transition="later")
    await here.clock.advance(1)
    assert await message() == "waiting: there is no LifecycleTransition later"
    await here.offer("later")
    await here.clock.advance(1)
    assert await message() == "waiting: driver example.com/reboot is not registered on node node-1"
    seen = (await here.events.get("later")).status.first_seen_time
    here.register(agent.agent)
    await here.clock.advance(1)
    assert here.seen("later") == ["Pending", "Claimed"]
    assert await message() == ""
    assert (await here.events.get("later")).status.first_seen_time == seen
    await here.create("queued")
    await here.clock.advance(1)
    queued = await here.events.get("queued")
    assert queued.status.message == "waiting: another event of the node goes first"
    assert queued.status.first_seen_time is None, "it does not wait for its driver"
    recorded = {event["reason"] for event in (await here.admin.of(_EVENTS).list(namespace="default")).items}
    assert {"WaitingForDriver", "WaitingForTurn"} <= recorded


async def test_the_same_state_again_is_a_new_one(here: World) -> None:
    here.driver.refusal["end"] = "no"
    here.start_agent()
    await here.create("a")
    await here.clock.advance(5)
    failed = (await here.node()).condition(CONDITION_LIFECYCLE_TRANSITION)
    await here.clock.advance(60)
    here.driver.refusal.clear()
    here.driver.hold["end"].clear()
    await here.create("b")
    await here.clock.advance(5)
    again = (await here.node()).condition(CONDITION_LIFECYCLE_TRANSITION)
    assert failed is not None
    assert again is not None
    assert (failed.reason, failed.message) == (again.reason, "Lifecycle Transition 'reboot' failed: no")
    assert again.last_transition_time == here.clock.now() - dt.timedelta(seconds=5)


async def test_another_client_writes_the_event_meanwhile(here: World) -> None:
    here.driver.hold["start"].clear()
    agent = here.start_agent()
    await here.create()
    await here.clock.advance(1)
    for number in range(3):
        await here.events.modify(
            "e",
            lambda event, n=number: wire.replace_metadata(event, labels={"n": str(n)}),  # type: ignore[misc]  # a default argument
        )
    here.driver.hold["start"].set()
    await here.clock.advance(1)
    assert here.seen()[-2:] == ["Succeeded", "gone"]
    assert agent.agent.last_error is None


async def test_a_driver_that_unregisters_and_registers_again(here: World) -> None:
    here.driver.hold["end"].clear()
    agent = here.start_agent()
    await here.create()
    await here.clock.advance(1)
    here.channel.connected = False
    # Its call ends with the driver; the next calls find no driver.
    await agent.stop()
    here.start_agent()
    await here.clock.advance(20)
    assert here.seen()[-1] == "Claimed"
    here.channel.connected = True
    here.driver.hold["end"].set()
    await here.clock.advance(10)
    assert here.seen()[-2:] == ["Succeeded", "gone"]
    assert here.driver.effects == ["start e", "end e"]


async def test_a_driver_that_lies_is_not_believed(here: World) -> None:
    class Liar:
        def __getattr__(self, name: str) -> object:
            return getattr(here.service, name)

        async def start(self, work: object) -> object:
            del work
            from kube_fairlead.driverapi.messages import Reached

            return Reached(state="Rebooted", node_name="node-2")

    here.settings = dataclasses.replace(here.settings, keep_finished=dt.timedelta(hours=1))
    here.channel._service = Liar()  # type: ignore[assignment]  # a driver that answers what it was not asked
    here.start_agent()
    await here.create()
    await here.clock.advance(1)
    event = await here.events.get("e")
    assert event.claim_status is ClaimStatus.FAILED
    assert "which was not requested" in event.status.message
    assert here.reasons == []


async def test_a_shutdown_interrupts(here: World) -> None:
    here.driver.hold["end"].clear()
    agent = here.start_agent()
    await here.create()
    await here.clock.advance(1)
    agent.agent.give_precedence(Precedence(driver="example.com/first", why="node is shutting down"))
    await here.create("f")
    await here.clock.advance(5)
    assert here.seen()[-2:] == ["Failed", "gone"]
    assert here.seen("f") == ["Pending"]
    agent.agent.give_precedence(None)
    here.driver.hold["end"].set()
    await here.clock.advance(5)
    assert here.seen("f")[-1] == "gone"


async def test_annotations_of_a_dead_agent_are_removed(here: World) -> None:
    held = {key: value for key, value in autoscaler_annotations.hold({}).items() if value is not None}
    await here.nodes.modify(NODE, lambda node: wire.replace_metadata(node, annotations={**held, "mine": "1"}))
    here.start_agent()
    await here.clock.advance(1)
    assert (await here.node()).metadata.annotations == {"mine": "1"}


async def test_a_second_agent_waits_for_the_lease(here: World) -> None:
    first = here.start_agent(identity="first")
    await here.clock.advance(1)
    second = here.start_agent(identity="second")
    await here.clock.advance(30)
    assert (first.agent.holds_lease, second.agent.holds_lease) == (True, False)
    here.driver.hold["end"].clear()
    await here.create()
    await here.clock.advance(1)
    assert here.driver.calls == ["start e", "end e"]
    await first.kill()
    await here.clock.advance(30)
    assert here.seen() == ["Pending", "Claimed"]
    here.driver.hold["end"].set()
    await here.clock.advance(60)
    assert second.agent.holds_lease
    assert here.seen()[-2:] == ["Succeeded", "gone"]
    assert here.driver.effects == ["start e", "end e"]


async def test_an_agent_that_stops_hands_over_at_once(here: World) -> None:
    first = here.start_agent(identity="first")
    await here.clock.advance(1)
    second = here.start_agent(identity="second")
    here.driver.hold["end"].clear()
    await here.create()
    await here.clock.advance(1)
    await first.stop()
    here.driver.hold["end"].set()
    await here.clock.advance(1)
    assert second.agent.holds_lease
    assert here.seen()[-2:] == ["Succeeded", "gone"]


async def test_a_claimant_that_is_cut_off_ends_its_call_before_another_may_make_it(here: World) -> None:
    """It cannot know whether the API server is gone for all, or only for itself."""
    first = here.start_agent(identity="first")
    await here.clock.advance(1)
    second = here.start_agent(identity="second")
    here.driver.hold["end"].clear()
    await here.create()
    await here.clock.advance(1)
    first.transport.is_down = True
    await here.clock.advance(30)
    assert here.driver.under_way == 1, "the call outlives the server while no other claimant can hold the Lease"
    await here.clock.advance(60)
    assert second.agent.holds_lease
    assert here.driver.calls == ["start e", "end e", "end e"]
    assert here.driver.most_at_once == 1
    here.driver.hold["end"].set()
    await here.clock.advance(1)
    assert here.seen()[-2:] == ["Succeeded", "gone"]


async def test_a_server_that_comes_later_is_waited_for(here: World) -> None:
    agent = here.start_agent()
    agent.transport.is_down = True
    await here.clock.advance(20)
    assert not agent.agent.holds_lease
    agent.transport.is_down = False
    await here.create()
    await here.clock.advance(60)
    assert here.seen()[-2:] == ["Succeeded", "gone"]
