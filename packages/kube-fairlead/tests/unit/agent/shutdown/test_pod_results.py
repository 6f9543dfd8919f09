"""Every pod that was asked to end is accounted for: in the API, or on disk and after the next boot."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kube_fairlead.agent.shutdown.pod_runtime import RunningPod, RuntimeFailed
from kube_fairlead.agent.shutdown.state_file import ShutdownState, StateFile
from kube_fairlead.api import wire
from kube_fairlead.api.core_v1 import Event, Pod
from kube_fairlead.lifecycle.shutdown_config import Period, ShutdownConfig
from kube_fairlead.lifecycle.shutdown_status import ContainerEnd
from tests.unit.agent.shutdown.world import NodeWorld

CRITICAL = 2000000000


def on_disk(here: NodeWorld) -> ShutdownState:
    state = StateFile(here.folder).load()
    assert state is not None
    return state


async def the_pod(here: NodeWorld, name: str) -> Pod:
    return await here.api.admin.of(Pod).get(name, namespace="default")


async def reboot(here: NodeWorld, *, forgets: bool = True) -> None:
    await here.lives[-1].kill()
    await here.clock.advance(30)
    here.machine.reboot()
    if not forgets:
        return
    here.start()
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())


def hang(here: NodeWorld, name: str) -> None:
    """No signal ends this one, and the runtime waits for it."""
    end = here.machine.end

    async def hangs(pod: RunningPod, **how: Any) -> Any:
        if pod.name == name:
            await asyncio.Event().wait()
        return await end(pod, **how)

    here.machine.end = hangs  # type: ignore[method-assign]  # a runtime with one pod that hangs


@pytest.mark.parametrize("kill_seconds", [0.6, 2.5])
async def test_pods_that_use_up_their_groups_time_have_their_last_status_in_the_api(
    here: NodeWorld, kill_seconds: float
) -> None:
    """A machine that is busy takes a while to say that a killed container is gone, and longer for its sandbox."""
    here.machine.kill_seconds = kill_seconds
    here.machine.sandbox_seconds = 600
    names = {"low": 0, "also-low": 0, "middle": 1000, "critical": CRITICAL}
    for name, priority in names.items():
        await here.pod(name, priority, needs=999, grace=600)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    asked = [line for line in here.machine.log if "TERM" in line]
    # Every group begins in time and has its full period: a pod that exceeds its group does not shorten the next.
    assert asked == ["0 TERM also-low 20", "0 TERM low 20", "20 TERM middle 10", "30 TERM critical 10"]
    assert {await here.status(name) for name in names} == {"Failed Terminated"}
    for name in names:
        (container,) = (await the_pod(here, name)).status.container_statuses
        assert container.state.terminated is not None
        assert (container.state.terminated.exit_code, container.state.terminated.reason) == (137, "Error")
    assert here.clock.monotonic() - here.machine.began <= here.machine.needed_seconds
    assert on_disk(here).unseen == ()
    assert on_disk(here).outcomes == {"killed": 4}
    assert 'outcome="killed"} 4.0' in life.metrics.exposition().decode()


async def test_a_runtime_that_is_busy_killing_takes_no_time_from_the_next_group(
    here: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which pods run four seconds late from then on; the next group is known, and is not waited for."""
    await here.pod("low", needs=999, grace=600)
    await here.pod("critical", CRITICAL, needs=1)
    running = here.machine.running

    async def slowly() -> Any:
        if here.clock.monotonic() - here.machine.began >= 20:
            await here.clock.sleep(4)
        return await running()

    monkeypatch.setattr(here.machine, "running", slowly)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    assert [line for line in here.machine.log if "TERM" in line] == ["0 TERM low 20", "20 TERM critical 10"]


async def test_an_exit_is_on_disk_before_the_sandbox_is_gone(here: NodeWorld) -> None:
    here.machine.sandbox_seconds = 600
    await here.pod("low", needs=3)
    life = here.start()
    await here.clock.advance(1)
    life.transport.go_down()
    here.machine.go_down()
    await here.clock.advance(3.1)
    (ended,) = on_disk(here).ended
    assert (ended.name, ended.containers["c"].exit_code) == ("low", 0)
    await here.wait(lambda: not here.machine.is_held)
    assert here.machine.torn_down == []


async def test_a_pod_that_no_signal_ends_is_on_disk_and_its_account_is_finished_after_the_boot(here: NodeWorld) -> None:
    here.config = ShutdownConfig((Period(0, 2), Period(CRITICAL, 3)))
    stuck = await here.pod("stuck")
    await here.pod("critical", CRITICAL, needs=1)
    hang(here, "stuck")
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    # It may run still: the API does not say that it has ended.
    assert await here.status("stuck") == "Running"
    (unseen,) = on_disk(here).unseen
    assert (unseen.uid, unseen.problem) == (
        stuck.uid,
        "it was killed when its grace period was over, and has not ended",
    )
    assert on_disk(here).outcomes == {"abandoned": 1, "ended": 1}
    await reboot(here)
    assert await here.status("stuck") == "Failed Terminated"
    (container,) = (await the_pod(here, "stuck")).status.container_statuses
    assert container.state.terminated is not None
    assert container.state.terminated.reason == "ContainerStatusUnknown"
    assert "It was asked to end at 20" in container.state.terminated.message
    assert "it was killed when its grace period was over, and has not ended" in container.state.terminated.message
    await here.clock.advance(2)
    notes = [one.message for one in (await here.api.admin.of(Event).list()).items]
    assert any("1 abandoned, 1 ended; end not observed: default/stuck" in note for note in notes), notes


async def test_a_machine_that_loses_power_in_the_middle_has_its_pods_on_disk(here: NodeWorld) -> None:
    """Asked to end, and nothing was heard of it: the next boot knows that it has ended, and not how."""
    await here.pod("low", needs=15)
    await here.pod("waits", CRITICAL, needs=1)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(5)
    assert [pod.name for pod in on_disk(here).unseen] == ["low"]
    await reboot(here)
    assert await here.status("low") == "Failed Terminated"
    assert await here.status("waits") == "Running"  # never asked: the kubelet starts it again
    (container,) = (await the_pod(here, "low")).status.container_statuses
    assert container.state.terminated is not None
    assert "the node shut down before the agent observed its end" in container.state.terminated.message


async def test_what_the_runtime_knows_after_the_boot_is_part_of_the_account(
    here: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await here.pod("low", needs=15)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(5)
    failures = [RuntimeFailed("it is starting"), RuntimeFailed("it is starting")]

    async def ended(pod: RunningPod) -> Any:
        del pod
        if failures:
            raise failures.pop()
        return {"c": ContainerEnd(255, here.clock.now(), "Unknown")}

    monkeypatch.setattr(here.machine, "ended", ended)
    await reboot(here)
    (container,) = (await the_pod(here, "low")).status.container_statuses
    assert container.state.terminated is not None
    assert (container.state.terminated.exit_code, container.state.terminated.reason) == (255, "Unknown")


@pytest.mark.parametrize("seen", ["by the runtime", "in the API"])
async def test_a_pod_that_runs_again_after_the_boot_keeps_its_status(here: NodeWorld, seen: str) -> None:
    """The kubelet was faster: what has begun a new life is not said to have ended."""
    made = await here.pod("low", needs=15)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(5)
    container = here.machine.containers[made.uid]
    await reboot(here, forgets=False)
    if seen == "by the runtime":
        container.code = None
        here.machine.containers[made.uid] = container
    else:
        tree = wire.to_dict(await the_pod(here, "low"))
        since = here.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        tree["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": since}}
        await here.api.admin.of(Pod).update_status(wire.from_dict(Pod, tree))
    here.start()
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())
    assert await here.status("low") == "Running"


async def test_a_cancelled_shutdown_leaves_a_running_pod_to_the_kubelet(here: NodeWorld) -> None:
    await here.pod("low", needs=15)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(5)
    here.machine.call_off()
    await here.wait(lambda: not (here.folder / "shutdown-state.json").exists())
    assert await here.status("low") == "Running"


async def test_an_agent_that_restarts_late_finds_the_terminating_pods(here: NodeWorld) -> None:
    """The pod is gone from the API's list of pods by then; the runtime says how it ended."""
    made = await here.pod("low", needs=99)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(3)
    await life.kill()
    here.machine.containers[made.uid].code = 3
    (here.folder / "pods.json").unlink()
    here.start()
    await here.wait(lambda: not here.machine.is_held)
    assert await here.status("low") == "Failed Terminated"
    assert on_disk(here).unseen == ()


async def test_a_runtime_that_never_answers_leaves_every_pod_on_disk(
    here: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await here.pod("low")

    async def never(*_pod: RunningPod) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(here.machine, "running", never)
    monkeypatch.setattr(here.machine, "ended", never)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    assert [(pod.name, pod.problem) for pod in on_disk(here).unseen] == [
        ("low", "the container runtime did not answer")
    ]


async def test_an_announcement_that_arrives_late_does_not_take_the_last_status_back(here: NodeWorld) -> None:
    """The pod ends at once, and the request that says it is a target of a disruption is still on its way."""
    await here.pod("low", needs=0.1)
    life = here.start()
    await here.clock.advance(1)
    send, held = life.transport.send, asyncio.Event()

    async def late(request: Any) -> Any:
        if request.method == "PATCH" and request.path.endswith("/pods/low/status") and not held.is_set():
            held.set()
            await here.clock.sleep(1)
        return await send(request)

    life.transport.send = late  # type: ignore[method-assign]  # a network that holds one request up
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    await here.clock.advance(3)
    assert await here.status("low") == "Succeeded"
