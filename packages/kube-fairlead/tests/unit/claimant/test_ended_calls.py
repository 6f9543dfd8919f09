"""A driver call ends when its event ends, whatever the claimant is doing."""

from __future__ import annotations

import asyncio

from kube_fairlead.api import wire
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus
from kube_fairlead.client.transport import Request, Response
from tests.unit.claimant.world import World


async def test_a_call_ends_with_its_event_while_another_write_has_no_answer(here: World) -> None:
    """A manager fails the event of a node that was created again. A request without an answer takes ten seconds."""
    here.driver.hold["end"].clear()
    agent = here.start_agent()
    await here.create("first")
    await here.clock.advance(1)
    assert here.driver.under_way == 1
    is_sent, send = asyncio.Event(), agent.transport.send

    async def without_answer(request: Request) -> Response:
        if request.path.endswith("/second/status") and not is_sent.is_set():
            is_sent.set()
            await here.clock.sleep(60)
        return await send(request)

    agent.transport.send = without_answer  # type: ignore[method-assign]  # the one request that gets lost
    await here.create("second")
    await here.clock.advance(1)
    assert is_sent.is_set()
    failed = {"claim_status": ClaimStatus.FAILED, "completion_time": here.clock.now().replace(microsecond=0)}
    event = await here.events.get("first")
    await here.events.update_status(wire.replace(event, status=wire.replace(event.status, **failed)))
    await here.clock.advance(1)
    assert here.driver.under_way == 0
    here.driver.hold["end"].set()
    await here.clock.advance(30)
    assert here.seen("first")[-1] == "gone"
    assert here.seen("second")[-1] == "gone"
    assert here.driver.effects == ["start first", "start second", "end second"]
