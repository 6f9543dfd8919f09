"""One transition, requested and followed, while agents die, users delete events and connections break."""

from __future__ import annotations

import contextlib
import datetime as dt
import pathlib
from collections.abc import AsyncIterator, Callable

import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.lifecycle_v1alpha1 import (
    ClaimStatus,
    LifecycleEvent,
    LifecycleTransition,
    NodeLifecycleRecord,
)
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client.client import Client
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.client.transport import Request, Response, StreamedResponse, Transport
from kube_fairlead.operations import event_requests, event_watch
from kube_fairlead.operations.node_transition import TransitionRequest, run_transition
from kube_fairlead.operations.progress import EventChanged, Operation, OperationProgress, Outcome, Result
from tests.unit.claimant.world import NODE, World, a_world


@pytest.fixture
async def world(tmp_path: pathlib.Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as running:
        yield running


class Reported:
    """The progress that was reported."""

    def __init__(self) -> None:
        self.progress: list[OperationProgress] = []

    def __call__(self, progress: OperationProgress) -> None:
        self.progress.append(progress)

    @property
    def states(self) -> list[tuple[str, str]]:
        """The states of the event, without repetitions."""
        changes = [one for one in self.progress if isinstance(one, EventChanged)]
        states = [(one.summary, one.silence) for one in changes]
        return [state for before, state in zip([None, *states], states, strict=False) if state != before]


class Link:
    """A user's connection: slow, or broken where the test says so."""

    def __init__(self, world: World, *, delay: float = 0, breaks: Callable[[Request], Exception | None]) -> None:
        self._inner: Transport = world.admin.transport
        self._clock = world.clock
        self._delay = delay
        self._breaks = breaks

    async def send(self, request: Request) -> Response:
        await self._clock.sleep(self._delay)
        if error := self._breaks(request):
            raise error
        answer = await self._inner.send(request)
        await self._clock.sleep(self._delay)
        return answer

    def stream(self, request: Request) -> contextlib.AbstractAsyncContextManager[StreamedResponse]:
        if error := self._breaks(request):
            raise error
        return self._inner.stream(request)

    async def close(self) -> None:
        pass


class Run:
    """`run_transition` in a task of its own."""

    def __init__(self, world: World, client: Client, *, transition: LifecycleTransition, timeout: float = 0) -> None:
        request = TransitionRequest(
            operation=Operation.DRAIN, transition=transition, timeout=dt.timedelta(seconds=timeout)
        )
        self.reported = Reported()
        self.task = world.scope.start(run_transition(client, request, NODE, self.reported), name="run")

    @property
    def outcome(self) -> Outcome:
        assert self.task.done()
        return self.task.result()


def is_watch(request: Request) -> bool:
    return any(name == "watch" for name, _ in request.query)


async def reboot(world: World) -> LifecycleTransition:
    return await world.admin.of(LifecycleTransition).get("reboot")


async def test_a_deleted_event_is_a_failure(world: World) -> None:
    run = Run(world, world.admin, transition=await reboot(world))
    await world.clock.advance(1)
    (event,) = (await world.events.list()).items
    await world.events.delete(event.name)
    await world.clock.advance(1)
    assert run.outcome.failed
    assert f"event {event.name} was deleted before it was claimed" in run.outcome.message


async def test_an_earlier_success_is_not_taken_for_this_one(world: World) -> None:
    """The event is refused and gone before a slow link has brought the first answer."""
    world.start_agent()
    await world.create("old")
    await world.clock.advance(2)
    await world.clock.advance(86400)
    world.driver.refusal["start"] = "cannot delete Pods that declare no controller"
    far = world.client(Link(world, delay=0.1, breaks=lambda _: None))
    run = Run(world, far, transition=await reboot(world))
    await world.clock.advance(30)
    assert run.outcome.failed
    assert "cannot delete Pods that declare no controller" in run.outcome.message


@pytest.mark.parametrize("error", [api_errors.InternalError("etcdserver: request timed out"), None])
async def test_what_time_heals_does_not_end_the_following(world: World, error: Exception | None) -> None:
    failing = 3

    def breaks(request: Request) -> Exception | None:
        nonlocal failing
        if is_watch(request) and failing:
            failing -= 1
            return error or client_errors.ConnectionBroken("reset by peer")
        return None

    run = Run(world, world.client(Link(world, breaks=breaks)), transition=await reboot(world))
    await world.clock.advance(10)
    assert not run.task.done()
    world.start_agent()
    await world.clock.advance(60)
    assert (failing, run.outcome.result) == (0, Result.SUCCEEDED)


async def test_an_event_that_is_not_claimed_in_time_is_deleted(world: World) -> None:
    run = Run(world, world.admin, transition=await reboot(world), timeout=9)
    await world.clock.advance(8)
    assert not run.task.done()
    await world.clock.advance(2)
    assert run.outcome.failed
    assert run.outcome.message.endswith("not claimed within 9s, so the event was deleted")
    assert (await world.events.list()).items == []
    # It has no result, so there is nothing to record.
    assert (await world.admin.of(NodeLifecycleRecord).list()).items == []


async def test_an_unclaimed_event_of_another_user_stays(world: World) -> None:
    await world.create("alices")
    run = Run(world, world.admin, transition=await reboot(world), timeout=9)
    await world.clock.advance(20)
    assert run.outcome.failed
    assert run.outcome.message.endswith("the event existed before, so it stays")
    assert [event.name for event in (await world.events.list()).items] == ["alices"]


async def test_what_is_claimed_at_the_last_moment_is_followed_to_its_end(world: World) -> None:
    """The claim's news is late: the limit is over when it is there, and nothing is taken back."""
    waiting = dt.timedelta(seconds=9)

    def breaks(request: Request) -> Exception | None:
        late = world.clock.now() - begun < waiting + dt.timedelta(seconds=3)
        return client_errors.ConnectionBroken("reset") if is_watch(request) and late else None

    begun = world.clock.now()
    transition = await reboot(world)
    world.driver.hold["end"].clear()
    run = Run(world, world.client(Link(world, breaks=breaks)), transition=transition, timeout=9)
    await world.clock.advance(0.1)
    world.start_agent()
    await world.clock.advance(20)
    (event,) = (await world.events.list()).items
    assert (event.claim_status, run.task.done()) == (ClaimStatus.CLAIMED, False)
    world.driver.hold["end"].set()
    await world.clock.advance(20)
    assert not run.outcome.failed


async def test_the_timeout_ends_the_command_when_the_driver_is_dead(world: World) -> None:
    world.driver.hold["end"].clear()
    world.start_agent()
    run = Run(world, world.admin, transition=await reboot(world), timeout=10)
    await world.clock.advance(1)
    world.channel.break_off()
    await world.clock.advance(13)
    assert not run.task.done()
    assert any(
        "driver example.com/reboot unreachable since 2026-03-01T12:00:01Z" in one for one, _ in run.reported.states
    )
    await world.clock.advance(2)
    assert run.outcome.failed
    said = run.outcome.message
    (event,) = (await world.events.list()).items
    assert event.claim_status is ClaimStatus.CLAIMED
    assert "it did not end within 10s of the claim" in said
    assert "driver example.com/reboot unreachable since 2026-03-01T12:00:01Z" in said
    assert run.outcome.open_event == event.name


async def test_the_timeout_ends_the_command_when_agent_and_driver_are_dead(world: World) -> None:
    world.driver.hold["end"].clear()
    agent = world.start_agent()
    run = Run(world, world.admin, transition=await reboot(world), timeout=70)
    await world.clock.advance(1)
    world.channel.break_off()
    await agent.kill()
    await world.clock.advance(75)
    assert run.outcome.failed
    assert "agent does not renew its Lease fairlead-node-lease/node-1, last renewed at" in run.outcome.message


async def test_the_timeout_counts_from_when_an_event_that_was_claimed_before_is_followed(world: World) -> None:
    world.driver.hold["end"].clear()
    world.start_agent()
    await world.create("alices")
    await world.clock.advance(60)
    run = Run(world, world.admin, transition=await reboot(world), timeout=10)
    await world.clock.advance(14)
    assert not run.task.done()
    await world.clock.advance(2)
    assert run.outcome.failed
    assert "its claimant last renewed its Lease at" in run.outcome.message


async def test_the_timeout_ends_the_command_when_the_api_server_is_gone(world: World) -> None:
    gone = False

    def breaks(_request: Request) -> Exception | None:
        return client_errors.ServerUnreachable("connection refused") if gone else None

    world.driver.hold["end"].clear()
    world.start_agent()
    run = Run(world, world.client(Link(world, breaks=breaks)), transition=await reboot(world), timeout=10)
    await world.clock.advance(1)
    gone = True
    await world.clock.advance(20)
    assert run.outcome.failed
    assert "it did not end within 10s of the claim" in run.outcome.message


async def test_a_claimant_that_is_silent_is_shown_and_one_that_is_back_too(world: World) -> None:
    world.driver.hold["end"].clear()
    agent = world.start_agent()
    run = Run(world, world.admin, transition=await reboot(world))
    await world.clock.advance(1)
    before = len(run.reported.states)
    await agent.kill()
    await world.clock.advance(200)
    ((state, silence),) = run.reported.states[before:]
    assert silence.startswith("agent does not renew its Lease fairlead-node-lease/node-1, last renewed at")
    assert state == "claimed"
    world.start_agent()
    await world.clock.advance(10)
    assert run.reported.states[-1] == ("claimed", "")


async def test_a_user_who_may_not_read_leases_follows_without_them(world: World) -> None:
    looks = 0

    def breaks(request: Request) -> Exception | None:
        nonlocal looks
        if "/leases/" not in request.path:
            return None
        looks += 1
        return api_errors.Forbidden("leases is forbidden")

    world.driver.hold["end"].clear()
    world.start_agent()
    run = Run(world, world.client(Link(world, breaks=breaks)), transition=await reboot(world))
    await world.clock.advance(60)
    assert looks == 1
    world.driver.hold["end"].set()
    await world.clock.advance(5)
    assert not run.outcome.failed


async def test_a_reason_that_cannot_be_read_is_no_failure(world: World) -> None:
    def breaks(request: Request) -> Exception | None:
        return client_errors.ConnectionBroken("reset") if request.path.endswith(f"/nodes/{NODE}") else None

    run = Run(world, world.client(Link(world, breaks=breaks)), transition=await reboot(world))
    await world.clock.advance(60)
    assert not run.task.done()
    world.start_agent()
    await world.clock.advance(5)
    assert not run.outcome.failed


@pytest.mark.parametrize(
    ("busy", "said"),
    [(True, "event first is carried out on the node first"), (False, "is `fairlead agent` running on the node?")],
)
async def test_why_an_event_is_unclaimed(world: World, busy: bool, said: str) -> None:
    await world.offer("drain")
    if busy:
        world.driver.hold["end"].clear()
        world.start_agent()
        await world.create("first")
        await world.clock.advance(2)
    transition = await world.admin.of(LifecycleTransition).get("drain")
    requested = await event_requests.request_event(world.admin, transition, NODE, {})
    why = await event_watch.why_pending(world.admin, requested.event)
    assert why.endswith(said)
    assert ("is `fairlead agent` running" in why) is not busy


async def test_why_an_event_of_a_node_that_is_not_ready_is_unclaimed(world: World) -> None:
    silent = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    since = {"lastTransitionTime": "2020-03-01T11:00:00Z"}
    await world.nodes.patch(NODE, MergePatch({"status": {"conditions": [{**silent, **since}]}}), subresource="status")
    event: LifecycleEvent = await world.create("e")
    why = await event_watch.why_pending(world.admin, event)
    assert why.startswith("the node is not ready since 2020-03-01T11:00:00Z (NodeStatusUnknown)")
