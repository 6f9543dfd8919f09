from __future__ import annotations

from tests.unit.agent.shutdown.test_manager import COMPLETE
from tests.unit.agent.shutdown.world import NodeWorld

CRITICAL = 2000000000


async def test_a_kubelet_that_ends_its_pods_is_left_to_it(here: NodeWorld) -> None:
    here.owner = "auto"
    here.machine.kubelet_holds = True
    await here.pod("low", needs=3)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(2)
    assert here.machine.is_held
    assert "Ready" not in await here.conditions()  # the kubelet's own to say
    for container in here.machine.containers.values():
        container.code = 0
    here.machine.kubelet_holds = False
    await here.wait(lambda: not here.machine.is_held)
    assert here.machine.log == [here.machine.log[-1]]  # released, and nothing else
    assert (await here.conditions())["LifecycleTransition"] == ("True", "shutdown-drain-complete")


async def test_a_kubelet_whose_own_time_is_longer_is_left_to_its_pods(here: NodeWorld) -> None:
    """It still holds its lock when the agent's time is over: the agent kills no pod that it terminates."""
    here.owner = "auto"
    here.machine.kubelet_holds = True
    await here.pod("low", needs=60)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    assert here.machine.kubelet == "running"
    assert here.machine.log == [here.machine.log[-1]]  # released, and nothing else
    assert await here.status("low") == "Running"


async def test_a_kubelet_that_forgets_is_taken_over_from(here: NodeWorld) -> None:
    here.owner = "auto"
    here.machine.kubelet_holds = True
    await here.pod("low", needs=3)
    await here.pod("critical", CRITICAL, needs=1)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(2)
    here.machine.kubelet_holds = False  # killed: its lock is gone with it, its pods are not
    await here.wait(lambda: not here.machine.is_held)
    assert here.machine.kubelet == "stopped"
    assert [line.split(" ")[2] for line in here.machine.log if "TERM" in line] == ["low", "critical"]
    assert await here.conditions() == COMPLETE
