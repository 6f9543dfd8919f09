"""What goes wrong around an engine: refusals, drivers that come and go, clocks that are set."""

from __future__ import annotations

import datetime as dt
import pathlib
from contextlib import AbstractAsyncContextManager

from fairlead.api import errors as api_errors
from fairlead.client.transport import Request, Response, StreamedResponse, Transport
from tests.unit.claimant.world import World, a_world


class Refusing:
    """Between an agent and the server: somebody who protects one event from being deleted."""

    def __init__(self, inner: Transport, name: str) -> None:
        self._inner = inner
        self._name = name

    async def send(self, request: Request) -> Response:
        if request.method == "DELETE" and request.path.endswith(f"/{self._name}"):
            return Response(403, {}, b'{"kind":"Status","apiVersion":"v1","code":403,"reason":"Forbidden"}')
        return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamedResponse]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


async def test_an_event_that_is_refused_holds_up_no_other(here: World) -> None:
    agent = here.start_agent()
    agent.transport.inner = Refusing(agent.transport.inner, "a")
    await here.create("a")
    await here.clock.advance(5)
    await here.create("b")
    await here.clock.advance(5)
    assert here.seen("a") == ["Pending", "Claimed", "Succeeded"]
    assert here.seen("b") == ["Pending", "Claimed", "Succeeded", "gone"]
    assert isinstance(agent.agent.last_error, api_errors.Forbidden)


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


async def test_a_clock_that_is_set_forward_ends_what_is_due(tmp_path: pathlib.Path) -> None:
    async with a_world(tmp_path, sla="1h") as world:
        world.driver.hold["end"].clear()
        world.start_agent()
        await world.create()
        await world.clock.advance(5)
        world.clock.set_back(dt.timedelta(hours=-2))
        await world.clock.advance(15)
        assert world.seen()[-2:] == ["SlaExpired", "gone"]
