from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest

from kube_fairlead.agent.shutdown.pod_runtime import RunningPod, RuntimeFailed
from tests.unit.agent.shutdown.world import NodeWorld

CRITICAL = 2000000000


async def hang(*_pod: RunningPod) -> Any:
    await asyncio.Event().wait()


async def go_down(here: NodeWorld) -> None:
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)


async def test_a_runtime_that_hangs_does_not_hold_the_machine_up(
    here: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await here.pod("low")
    monkeypatch.setattr(here.machine, "running", hang)
    monkeypatch.setattr(here.machine, "ended", hang)
    here.start()
    await here.clock.advance(1)
    await go_down(here)
    assert here.clock.monotonic() - here.machine.began <= 45


async def test_an_api_that_swallows_requests_takes_no_time_from_any_group(here: NodeWorld) -> None:
    await here.pod("low", needs=3)
    await here.pod("middle", 1000, needs=5, exits=1)
    await here.pod("critical", CRITICAL, 4, needs=99)
    life = here.start()
    await here.clock.advance(1)
    life.swallow()
    await go_down(here)
    assert here.machine.log == [
        "0 kubelet stopped",
        "0 TERM low 20",
        "3 exit low 0",
        "3 TERM middle 10",
        "8 exit middle 1",
        "8 TERM critical 4",
        "12 exit critical 137",
        "17 released",
    ]


async def test_an_api_known_to_be_out_of_reach_is_not_waited_for_at_all(here: NodeWorld) -> None:
    await here.pod("low", needs=3)
    await here.pod("middle", 1000, needs=5)
    life = here.start()
    await here.clock.advance(1)
    life.transport.go_down()
    await go_down(here)
    asked = {line.split(" ")[2]: float(line.split(" ")[0]) for line in here.machine.log if "TERM" in line}
    ended = {line.split(" ")[2]: float(line.split(" ")[0]) for line in here.machine.log if "exit" in line}
    assert asked["low"] <= 0.2
    assert asked["middle"] == ended["low"]


async def test_a_returned_api_server_is_informed_first_again(here: NodeWorld) -> None:
    await here.pod("low", needs=6)
    await here.pod("middle", 1000, needs=5)
    life = here.start()
    await here.clock.advance(1)
    life.transport.go_down()
    here.machine.go_down()
    await here.clock.advance(2)
    life.transport.is_down = False
    await here.clock.advance(5)
    assert await here.status("low") == "Succeeded"
    seen = [pod for pod in life.manager.cache.current.values() if pod.name == "middle"]
    assert [one.status for one in seen[0].status.conditions if one.type == "DisruptionTarget"] == ["True"]
    await here.wait(lambda: not here.machine.is_held)


async def test_what_follows_the_last_group_has_one_deadline_together(
    here: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime does not say how pods ended, the API takes no status: the lock is released in time all the same."""
    await here.pod("low", needs=99)
    await here.pod("middle", 1000, needs=99)
    await here.pod("critical", CRITICAL, needs=99)
    ended = await here.pod("ended")
    here.machine.containers[ended.uid].code = 0
    monkeypatch.setattr(here.machine, "ended", hang)
    life = here.start()
    await here.clock.advance(1)
    life.swallow()
    await go_down(here)
    released = next(float(line.split(" ")[0]) for line in here.machine.log if line.endswith("released"))
    assert 40 <= released <= here.machine.needed_seconds


async def test_unreported_pods_of_a_kubelet_are_queried_together(
    here: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime that takes half a second for each answer leaves no time to ask for one after the other."""
    here.owner = "auto"
    here.machine.kubelet_holds = True
    names = [f"low-{number}" for number in range(12)]
    for name in names:
        await here.pod(name)
    ended = here.machine.ended

    async def slowly(pod: RunningPod) -> Any:
        await here.clock.sleep(0.5)
        return await ended(pod)

    monkeypatch.setattr(here.machine, "ended", slowly)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(1)
    for container in here.machine.containers.values():
        container.code = 0
    here.machine.kubelet_holds = False
    await here.wait(lambda: not here.machine.is_held)
    assert {await here.status(name) for name in names} == {"Succeeded"}


@pytest.mark.parametrize("conflicts", [1, 2, 3])
async def test_a_status_is_written_after_a_conflict(here: NodeWorld, conflicts: int) -> None:
    """The announcement, the last status, or one after the other: each is written once more."""
    await here.pod("low", needs=3)
    life = here.start()
    await here.clock.advance(1)
    for _ in range(conflicts):
        life.conflict("PATCH", "/pods/low/status")
    await go_down(here)
    assert await here.status("low") == "Succeeded"


async def test_a_runtime_that_is_away_for_a_moment_is_asked_again_how_pods_ended(
    here: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pod ends while no agent is there to see it; the next one has time left to find out."""
    await here.pod("low", needs=3)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: any("TERM low" in line for line in here.machine.log))
    await life.kill()
    for container in here.machine.containers.values():
        container.code = 0
    ended, failures = here.machine.ended, [1, 2]

    async def away(pod: RunningPod) -> Any:
        if failures:
            failures.pop()
            raise RuntimeFailed("connection refused")
        return await ended(pod)

    monkeypatch.setattr(here.machine, "ended", away)
    here.start()
    await here.wait(lambda: not here.machine.is_held)
    assert not failures
    assert await here.status("low") == "Succeeded"


@pytest.mark.parametrize(("failures", "status"), [(3, "Failed Terminated"), (1000, "Running")])
async def test_a_runtime_that_is_away_when_a_pods_time_is_over_is_asked_again(
    here: NodeWorld, monkeypatch: pytest.MonkeyPatch, failures: int, status: str
) -> None:
    """The agent comes back when the pod should have ended: the rest of the whole time is there for it."""
    await here.pod("low", needs=99)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: any("TERM low" in line for line in here.machine.log))
    await life.kill()
    await here.clock.advance(25)
    end, left = here.machine.end, [failures]

    async def away(pod: RunningPod, **how: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise RuntimeFailed("connection refused")
        return await end(pod, **how)

    monkeypatch.setattr(here.machine, "end", away)
    here.start()
    await here.wait(lambda: not here.machine.is_held)
    assert await here.status("low") == status
    assert here.clock.monotonic() - here.machine.began <= 45


async def test_a_late_update_of_the_pod_cache_counts(here: NodeWorld) -> None:
    """Its group was made up before, and is announced: the API takes its time."""
    late = await here.pod("late", grace=5, needs=99)
    container = here.machine.containers[late.uid]
    container.pod = dataclasses.replace(container.pod, grace_seconds=12)  # what the runtime knows of it
    await here.pod("low", needs=1)
    life = here.start()
    await here.clock.advance(1)
    heard = life.manager.cache._pods.pop(late.uid)
    life.swallow()
    here.machine.go_down()
    await here.clock.advance(1)
    life.manager.cache._pods[late.uid] = heard
    await here.wait(lambda: not here.machine.is_held)
    assert "2 TERM late 5" in here.machine.log
