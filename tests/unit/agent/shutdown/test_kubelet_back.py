"""The kubelet after a shutdown that was called off."""

from __future__ import annotations

from tests.unit.agent.shutdown.world import Life, NodeWorld


async def called_off(here: NodeWorld, refusals: int) -> Life:
    await here.pod("low", needs=10)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(1)
    assert here.machine.kubelet == "stopped"
    here.machine.kubelet_refuses = refusals
    here.machine.call_off()
    return life


async def test_it_is_started_until_it_runs(here: NodeWorld) -> None:
    await called_off(here, 5)
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())
    assert here.machine.kubelet == "running"


async def test_the_node_is_cleared_before_it_runs_and_another_process_goes_on_trying(here: NodeWorld) -> None:
    life = await called_off(here, 1000)
    await here.clock.advance(5)
    assert not (await here.node()).spec.unschedulable
    assert (here.folder / "shutdown-state.json").exists()
    await life.kill()
    here.machine.kubelet_refuses = 2
    here.start()
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())
    assert here.machine.kubelet == "running"


async def test_a_shutdown_that_comes_before_it_runs_remembers_to_start_it(here: NodeWorld) -> None:
    here.owner = "auto"
    await called_off(here, 1000)
    await here.clock.advance(5)
    here.machine.kubelet_holds = True  # of this shutdown it is the owner, as far as anybody can see
    here.machine.go_down()
    await here.clock.advance(1)
    here.machine.kubelet_refuses = 0
    here.machine.call_off()
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())
    assert here.machine.kubelet == "running"
