"""The kubelet after a shutdown that was called off."""

from __future__ import annotations

from tests.unit.agent.shutdown.world import Life, NodeWorld


async def cancelled_shutdown(here: NodeWorld, refusals: int) -> Life:
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
    await cancelled_shutdown(here, 5)
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())
    assert here.machine.kubelet == "running"


async def test_the_node_is_cleared_before_it_runs_and_a_restarted_agent_retries(here: NodeWorld) -> None:
    life = await cancelled_shutdown(here, 1000)
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
    await cancelled_shutdown(here, 1000)
    await here.clock.advance(5)
    here.machine.kubelet_holds = True  # the kubelet appears to be the owner of this shutdown
    here.machine.go_down()
    await here.clock.advance(1)
    here.machine.kubelet_refuses = 0
    here.machine.call_off()
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())
    assert here.machine.kubelet == "running"


async def ended_by_the_kubelet(here: NodeWorld) -> Life:
    """The kubelet ends the pods of a shutdown that is called off in the middle."""
    here.owner = "auto"
    here.machine.kubelet_holds = True
    await here.pod("low", needs=10)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(2)
    here.machine.call_off()
    return life


def end_all(here: NodeWorld) -> None:
    for container in here.machine.containers.values():
        container.code = 0


async def test_one_that_closes_its_new_lock_is_restarted(here: NodeWorld) -> None:
    life = await ended_by_the_kubelet(here)
    await here.clock.advance(10)
    assert here.machine.log == [], "as long as it holds its lock it ends its pods"
    end_all(here)
    here.machine.kubelet_holds = False
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())
    assert [line.partition(" ")[2] for line in here.machine.log] == ["kubelet stopped", "kubelet started"]
    assert life.interruptions[-1] == ""


async def test_a_kubelet_that_replaces_its_lock_is_not_restarted(here: NodeWorld) -> None:
    await ended_by_the_kubelet(here)
    end_all(here)
    here.machine.kubelet_holds = False
    await here.clock.advance(1.5)
    here.machine.kubelet_holds = True
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists(), seconds=15)
    assert here.machine.log == []


async def test_a_kubelet_whose_pods_continue_is_not_watched_forever(here: NodeWorld) -> None:
    life = await ended_by_the_kubelet(here)
    await here.clock.advance(2)
    assert life.interruptions[-1] == "", "meanwhile the node has its other work again"
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists(), seconds=50)
    assert here.machine.log == []


async def test_killed_while_it_is_restarted_it_is_started_by_the_next_process(here: NodeWorld) -> None:
    life = await ended_by_the_kubelet(here)
    end_all(here)
    here.machine.kubelet_holds = False
    here.machine.kubelet_refuses = 1000
    await here.clock.advance(6)
    assert here.machine.kubelet == "stopped"
    await life.kill()
    here.machine.kubelet_refuses = 0
    here.start()
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())
    assert here.machine.kubelet == "running"
