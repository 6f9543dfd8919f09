from __future__ import annotations

import pytest

from fairlead.agent.shutdown.recording import _is_shutdowns
from tests.unit.agent.shutdown.world import NodeWorld

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
    assert _is_shutdowns(cordoned_by, "node-1") is ours


def test_a_long_name_of_a_node_is_no_obstacle() -> None:
    name = "n" * 253
    assert _is_shutdowns(f"shutdown-20260301-120000-{name}"[:253], name)
