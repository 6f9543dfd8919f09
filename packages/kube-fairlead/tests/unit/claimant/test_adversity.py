"""What goes wrong around an engine: refusals, drivers that come and go, clocks that are set."""

from __future__ import annotations

import dataclasses
import datetime as dt
import pathlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import msgspec
import pytest

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, LifecycleEvent, LifecycleEventSpec, NodeLifecycleRecord
from kube_fairlead.api.lifecycle_v1alpha1 import Progress as StoredProgress
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.client.transport import Request, Response, StreamedResponse, Transport
from kube_fairlead.driverapi.messages import Progress
from tests.unit.claimant.world import NODE, RunningAgent, World, a_world

Meeting = Callable[[Request], Awaitable[Response | None]]


class Between:
    """A transport between an agent and the server that may answer a request instead of the server."""

    def __init__(self, inner: Transport, meet: Meeting) -> None:
        self._inner = inner
        self._meet = meet

    async def send(self, request: Request) -> Response:
        return await self._meet(request) or await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamedResponse]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


def stand_between(agent: RunningAgent, meet: Meeting) -> None:
    agent.transport.inner = Between(agent.transport.inner, meet)


def answer(error: api_errors.ApiError) -> Response:
    return Response(error.code, {}, msgspec.json.encode(error.to_status()))


@pytest.mark.parametrize(("method", "path"), [("PUT", "/a/status"), ("DELETE", "/a")])
async def test_an_event_that_is_refused_holds_up_no_other(here: World, method: str, path: str) -> None:
    """An admission policy rejects the claim or the deletion of one event."""

    async def meet(request: Request) -> Response | None:
        is_met = request.method == method and request.path.endswith(path)
        return answer(api_errors.Forbidden("not this one")) if is_met else None

    agent = here.start_agent()
    stand_between(agent, meet)
    await here.create("a")
    await here.clock.advance(5)
    await here.create("b")
    await here.clock.advance(5)
    assert here.seen("a") == (["Pending"] if method == "PUT" else ["Pending", "Claimed", "Succeeded"])
    assert here.seen("b") == ["Pending", "Claimed", "Succeeded", "gone"]
    assert isinstance(agent.agent.last_error, api_errors.Forbidden)


@pytest.mark.parametrize("error", [api_errors.Forbidden("no right"), api_errors.ServiceUnavailable("busy")])
async def test_a_record_that_is_refused_holds_its_event_only_for_a_while(
    here: World, error: api_errors.ApiError
) -> None:
    """The kind or the right is missing, as after half an upgrade. A server that is only busy is waited for."""
    refused = True

    async def meet(request: Request) -> Response | None:
        return answer(error) if refused and "/nodelifecyclerecords" in request.path else None

    stand_between(here.start_agent(), meet)
    await here.create("a")
    await here.clock.advance(25)
    assert here.seen("a") == ["Pending", "Claimed", "Succeeded"]
    await here.clock.advance(35)
    is_final = isinstance(error, api_errors.Forbidden)
    assert here.seen("a") == ["Pending", "Claimed", "Succeeded", *(["gone"] if is_final else [])]
    refused = False
    await here.clock.advance(15)
    assert here.seen("a")[-1] == "gone"
    records = (await here.admin.of(NodeLifecycleRecord).list()).items
    assert [entry.event_name for record in records for entry in record.entries] == ([] if is_final else ["a"])


async def test_an_event_that_was_never_claimed_leaves_a_record_too(here: World) -> None:
    here.start_agent()
    await here.events.create(
        LifecycleEvent(
            metadata=ObjectMeta(name="e"), spec=LifecycleEventSpec(transition_name="missing", binding_node="node-1")
        )
    )
    await here.clock.advance(310)
    assert here.seen("e") == ["Pending", "Failed", "gone"]
    record = await here.admin.of(NodeLifecycleRecord).get("node-1")
    assert [(entry.event_name, entry.result) for entry in record.entries] == [("e", "Failed")]
    assert record.entries[0].requested_by is not None
    assert record.entries[0].requested_by.source == "Admission"


async def test_a_busy_server_does_not_change_the_order(here: World) -> None:
    busy = [answer(api_errors.ServiceUnavailable("busy")) for _ in range(3)]

    async def meet(request: Request) -> Response | None:
        return busy.pop() if request.method == "PUT" and request.path.endswith("/a/status") and busy else None

    stand_between(here.start_agent(), meet)
    await here.create("a")
    await here.create("b")
    await here.clock.advance(30)
    assert here.driver.effects == ["start a", "end a", "start b", "end b"]


@pytest.mark.parametrize("mishap", ["conflict", "broken connection", "answer lost"])
async def test_progress_is_stored_whatever_happens_to_the_write(here: World, mishap: str) -> None:
    here.driver.hold["end"].clear()
    here.driver.progress = [Progress(done=1, total=9, unit="pods", message="blocked by budget shop/web")]
    befallen: list[Request] = []
    agent = here.start_agent()
    inner = agent.transport.inner

    async def meet(request: Request) -> Response | None:
        if befallen or request.method != "PUT" or b"blocked by budget" not in (request.body or b""):
            return None
        befallen.append(request)
        if mishap == "conflict":
            await here.events.patch("e", MergePatch({"metadata": {"annotations": {"somebody": "else"}}}))
            return None
        if mishap == "answer lost":
            await inner.send(request)
        raise client_errors.ConnectionBroken("cut")

    stand_between(agent, meet)
    await here.create()
    await here.clock.advance(30)
    assert befallen
    status = (await here.events.get("e")).status
    assert (status.message, status.progress) == (
        "blocked by budget shop/web",
        StoredProgress(done=1, total=9, unit="pods"),
    )
    here.driver.hold["end"].set()
    await here.clock.advance(5)
    assert here.seen()[-2:] == ["Succeeded", "gone"]


async def test_a_node_that_refuses_every_write_as_outdated_costs_few_requests(here: World) -> None:
    asked: list[Request] = []

    async def meet(request: Request) -> Response | None:
        asked.append(request)
        is_met = request.method == "PATCH" and "/nodes/" in request.path
        return answer(api_errors.Conflict("the object has been modified")) if is_met else None

    agent = here.start_agent()
    stand_between(agent, meet)
    await here.create()
    await here.clock.advance(60)
    assert len(asked) < 100
    assert isinstance(agent.agent.last_error, api_errors.Conflict)


async def cancelled_event(here: World, name: str) -> None:
    """By an administrator, who writes the terminal status and says no more."""
    event = await here.events.get(name)
    status = wire.replace(event.status, claim_status=ClaimStatus.FAILED, message="called off")
    await here.events.update_status(wire.replace(event, status=status))


async def torn_away(here: World, name: str) -> None:
    await here.events.delete(name)
    await here.events.patch(name, MergePatch({"metadata": {"finalizers": None}}))


@pytest.mark.parametrize("interfere", [cancelled_event, torn_away])
@pytest.mark.parametrize("ttl", [dt.timedelta(0), dt.timedelta(hours=1)])
async def test_a_driver_stops_before_the_next_event_starts_one(
    here: World, interfere: Callable[[World, str], Awaitable[None]], ttl: dt.timedelta
) -> None:
    here.settings = dataclasses.replace(here.settings, keep_finished=ttl)
    here.driver.hold["end"].clear()
    here.start_agent()
    await here.create("a")
    await here.clock.advance(1)
    await here.create("b")
    await here.clock.advance(1)
    assert here.driver.calls == ["start a", "end a"]
    await interfere(here, "a")
    await here.clock.advance(5)
    assert here.driver.calls == ["start a", "end a", "start b", "end b"]
    assert (here.driver.under_way, here.driver.most_at_once) == (1, 1)


async def test_a_driver_stops_before_a_cancelled_event_is_finished(here: World) -> None:
    """Also when the agent hears of it by a conflict, in the middle of its steps."""
    here.driver.hold["end"].clear()
    here.driver.progress = [Progress(done=1, total=9, unit="pods", message="at work")]
    off: list[str] = []
    at_release: list[int] = []

    async def meet(request: Request) -> Response | None:
        if request.method == "PUT" and b"at work" in (request.body or b"") and not off:
            off.append("e")
            await cancelled_event(here, "e")
        if request.method == "PUT" and request.path.endswith("/e") and b"Failed" in (request.body or b""):
            at_release.append(here.driver.under_way)
        return None

    stand_between(here.start_agent(), meet)
    await here.create()
    await here.clock.advance(5)
    assert here.seen()[-2:] == ["Failed", "gone"]
    assert at_release == [0], "the finalizer goes when the driver has stopped"


async def test_drivers_get_time_to_register_again_after_a_restart(here: World) -> None:
    here.driver.hold["end"].clear()
    agent = here.start_agent()
    await here.create("a")
    await here.create("b")
    await here.clock.advance(2)
    for pause in (400, 5):
        # Each time the driver comes a moment after the agent, and the first time `b` is seen without one.
        await agent.stop()
        agent = here.start_agent(registered=False)
        await here.clock.advance(1)
        here.register(agent.agent)
        await here.clock.advance(pause)
    assert here.seen("b") == ["Pending"]
    here.driver.hold["end"].set()
    await here.clock.advance(5)
    assert here.seen("b")[-2:] == ["Succeeded", "gone"]


async def test_a_driver_that_is_replaced_is_waited_for(here: World) -> None:
    agent = here.start_agent(registered=False)
    await here.create()
    await here.clock.advance(299)
    registration = here.register(agent.agent)
    here.driver.hold["start"].clear()
    await here.create("later")
    await here.clock.advance(1)
    agent.agent.directory.remove(registration)
    await here.clock.advance(10)
    here.register(agent.agent)
    here.driver.hold["start"].set()
    await here.clock.advance(10)
    assert here.seen("e")[-2:] == here.seen("later")[-2:] == ["Succeeded", "gone"]


async def test_a_clock_that_is_set_back_in_the_middle_leaves_nothing_hanging(tmp_path: pathlib.Path) -> None:
    async with a_world(tmp_path, sla="60s") as world:
        world.driver.hold["end"].clear()
        world.start_agent()
        await world.create()
        await world.clock.advance(5)
        world.clock.set_back(dt.timedelta(hours=1))
        await world.clock.advance(600)
        assert world.seen() == ["Pending", "Claimed"]
        world.driver.hold["end"].set()
        await world.clock.advance(15)
        assert world.seen()[-2:] == ["Succeeded", "gone"]


async def test_a_clock_that_was_ahead_when_the_agent_began_prolongs_no_wait(here: World) -> None:
    here.clock.set_back(dt.timedelta(hours=-1))
    here.start_agent(registered=False)
    await here.clock.advance(5)
    here.clock.set_back(dt.timedelta(hours=1))
    await here.create()
    await here.clock.advance(320)
    assert here.seen()[-2:] == ["Failed", "gone"]


async def test_a_clock_that_is_set_forward_ends_what_is_due(tmp_path: pathlib.Path) -> None:
    async with a_world(tmp_path, sla="1h") as world:
        world.driver.hold["end"].clear()
        world.start_agent()
        await world.create()
        await world.clock.advance(5)
        world.clock.set_back(dt.timedelta(hours=-2))
        await world.clock.advance(15)
        assert world.seen()[-2:] == ["SlaExpired", "gone"]


async def test_a_claimant_detects_that_its_node_is_missing(here: World) -> None:
    await here.nodes.delete(NODE)
    agent = here.start_agent().agent
    seen = [agent.node_is_missing]  # unknown so far
    await here.clock.advance(1)
    seen.append(agent.node_is_missing)
    await here.nodes.create(Node(metadata=ObjectMeta(name=NODE)))
    await here.clock.settle()
    assert [*seen, agent.node_is_missing] == [False, True, False]
