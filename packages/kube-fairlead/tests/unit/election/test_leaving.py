"""The request to end for good is heard in every moment of a term, also of one that is ending already."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kube_fairlead.election import Term
from tests.unit.election.stage import Running, Stage
from tests.unit.election.world import World


async def test_leaving_while_a_step_down_winds_down(stage: Stage, world: World) -> None:
    finish = asyncio.Event()

    async def slow(term: Term) -> None:
        await term.stopping.wait()
        await finish.wait()

    running = stage.start("a", slow)
    await running.until_leading()
    running.leadership.step_down()
    await world.clock.settle()
    running.task.cancel()
    await world.clock.settle()
    assert not running.task.done()
    finish.set()
    await running.until_done()
    assert running.task.cancelled()
    assert stage.log == ["a begins 0", "a ends yield"]
    assert (await world.record()).holder == ""
    await stage.close()


async def test_leaving_after_the_release_while_the_work_tidies_up(stage: Stage, world: World) -> None:
    tidied = asyncio.Event()

    async def tidy(term: Term) -> None:
        await term.stopping.wait()
        term.tidy_up()
        await tidied.wait()

    running = stage.start("a", tidy)
    await running.until_leading()
    running.leadership.step_down()
    await world.clock.settle()
    assert (await world.record()).holder == ""
    running.task.cancel()
    await world.clock.settle()
    tidied.set()
    await running.until_done()
    assert stage.log == ["a begins 0", "a ends yield"]
    await stage.close()


async def test_leaving_and_the_lease_is_lost_meanwhile(stage: Stage, world: World) -> None:
    async def slow(term: Term) -> None:
        await term.stopping.wait()
        await asyncio.Event().wait()

    running = stage.start("a", slow)
    await running.until_leading()
    running.network.cut()
    running.task.cancel()
    await running.until_done()
    assert len(stage.log) == 2
    await stage.close()


def _after(turns: int) -> Callable[[Running], None]:
    """Cancel after so many turns of the event loop: wherever that may be in the step-down."""

    def arrange(running: Running) -> None:
        if turns == 0:
            running.task.cancel()
        else:
            asyncio.get_running_loop().call_soon(_after(turns - 1), running)

    return arrange


@pytest.mark.parametrize("turns", range(0, 24, 2))
async def test_leaving_at_any_turn_of_a_step_down(stage: Stage, world: World, turns: int) -> None:
    running = stage.start("a")
    await running.until_leading()
    running.leadership.step_down()
    _after(turns)(running)
    await running.until_done()
    assert (await world.record()).holder == ""
    assert len(stage.log) == 2
    await stage.close()
