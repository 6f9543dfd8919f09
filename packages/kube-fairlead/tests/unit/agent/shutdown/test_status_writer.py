from __future__ import annotations

import asyncio

import pytest

from kube_fairlead.client.transport import Request, Response
from kube_fairlead.lifecycle.shutdown_events import is_event_name
from tests.unit.agent.shutdown.world import NodeWorld
from tests.unit.claimant.world import NODE

OURS = "drain.fairlead.dev/cordoned-by"


@pytest.mark.parametrize("boots", [False, True])
async def test_a_cordon_whose_answer_was_lost_is_known_for_ours(here: NodeWorld, boots: bool) -> None:
    life = here.start()
    await here.clock.advance(1)
    life.lose_answer("PATCH", "/nodes/node-1")
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    node = await here.node()
    assert node.spec.unschedulable
    event = await here.event()
    assert event is not None
    assert node.metadata.annotations[OURS] == event.name
    if boots:
        await life.kill()
        here.machine.reboot()
        here.start()
    else:
        here.machine.call_off()
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())
    node = await here.node()
    assert not node.spec.unschedulable
    assert OURS not in node.metadata.annotations


async def test_a_cordon_is_known_for_ours_even_when_killed_at_once_and_the_disk_is_lost(here: NodeWorld) -> None:
    life = here.start()
    await here.clock.advance(1)
    life.transport.fate = lambda request, when: (
        when == "after" and request.path.endswith("/nodes/node-1") and (request.method == "PATCH")
    )
    here.machine.go_down()
    await here.clock.advance(1)
    assert (await here.node()).spec.unschedulable
    await life.stop()
    (here.folder / "shutdown-state.json").unlink()
    await here.clock.advance(60)
    here.machine.reboot()
    here.start()
    await here.clock.advance(10)
    assert not (await here.node()).spec.unschedulable


@pytest.mark.parametrize(
    ("cordoned_by", "ours"),
    [
        ("shutdown-20260301-120000-node-1", True),
        ("shutdown-20260301-120000-node-11", False),
        ("shutdown-rack-7", False),
        ("drain-node-1", False),
        ("", False),
    ],
)
def test_whose_cordon_it_is(cordoned_by: str, ours: bool) -> None:
    assert is_event_name(cordoned_by, "node-1") is ours


@pytest.mark.parametrize("subresource", ["/status", ""])
async def test_a_write_that_was_sent_before_the_cancellation_is_rejected(here: NodeWorld, subresource: str) -> None:
    """The agent gave the request up; a busy server stores what it has received, later."""
    before = await here.node()
    life = here.start()
    await here.clock.advance(1)
    on_its_way: list[Request] = []
    send = life.transport.send

    async def busy(request: Request) -> Response:
        if request.method == "PATCH" and request.path.endswith(f"/nodes/{NODE}{subresource}") and not on_its_way:
            on_its_way.append(request)
            await asyncio.Event().wait()
        return await send(request)

    life.transport.send = busy  # type: ignore[method-assign]  # the test stands between
    here.machine.go_down()
    await here.wait(lambda: bool(on_its_way))
    here.machine.call_off()
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())
    late = await send(on_its_way[0])
    assert late.status == 409
    after = await here.node()
    assert (after.spec, after.metadata.annotations) == (before.spec, before.metadata.annotations)
    conditions = await here.conditions()
    assert "LifecycleTransition" not in conditions
    assert conditions.get("GracefulNodeShutdownInProgress", ("False", ""))[0] == "False"


def test_a_long_name_of_a_node_is_no_obstacle() -> None:
    name = "n" * 253
    assert is_event_name(f"shutdown-20260301-120000-{name}"[:253], name)
