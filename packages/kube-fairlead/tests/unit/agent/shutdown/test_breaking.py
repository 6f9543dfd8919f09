"""Faults beside a kill: disks, a second shutdown before the first is finished, a kubelet that cannot be stopped."""

from __future__ import annotations

import errno
import pathlib
from typing import Any

import msgspec
import pytest

from kube_fairlead.agent.shutdown.pod_runtime import RuntimeFailed
from kube_fairlead.agent.shutdown.state_file import StateFile
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus
from kube_fairlead.base import files
from tests.unit.agent.shutdown.world import NodeWorld


def state_file(here: NodeWorld) -> pathlib.Path:
    return here.folder / "shutdown-state.json"


async def ends(here: NodeWorld) -> list[ClaimStatus]:
    page = await here.api.events.list()
    return [event.claim_status for event in sorted(page.items, key=lambda event: event.name)]


@pytest.mark.parametrize(("boots", "first"), [(False, ClaimStatus.FAILED), (True, ClaimStatus.SUCCEEDED)])
async def test_a_shutdown_before_the_last_one_is_finished_has_its_own_event(
    here: NodeWorld, boots: bool, first: ClaimStatus
) -> None:
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    life.swallow()  # from now on no write succeeds
    if boots:
        await life.kill()
        here.machine.reboot()
        here.machine.is_held = True
        here.start().swallow()
    else:
        here.machine.call_off()
    await here.clock.advance(5)
    assert state_file(here).exists()
    await here.lives[-1].kill()
    here.machine.preparing = True
    here.machine.is_held = True
    here.start()
    await here.wait(lambda: not here.machine.is_held)
    assert await ends(here) == [first, ClaimStatus.CLAIMED]


async def test_an_agent_killed_at_its_first_step_keeps_unwritten_statuses(here: NodeWorld) -> None:
    """The kubelet is stopped and a pod's status not written when the next shutdown begins, and the agent is killed."""
    here.owner = "auto"
    await here.pod("low", needs=1)
    life = here.start()
    await here.clock.advance(1)
    life.swallow()
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    here.machine.kubelet_refuses = 1000
    here.machine.call_off()
    await here.clock.advance(1)
    await life.kill()
    memory = StateFile(here.folder)
    before = memory.load()
    assert before is not None
    memory.save(msgspec.structs.replace(before, owner="", complete_time=None, stage=None))  # as far as it came
    here.machine.kubelet_refuses = 0
    here.machine.kubelet_holds = True
    here.machine.preparing = True
    here.start()
    await here.clock.advance(1)
    here.machine.call_off()
    await here.wait(lambda: not state_file(here).exists())
    assert here.machine.kubelet == "running"
    assert await here.status("low") == "Succeeded"


async def test_with_the_disk_lost_a_kubelet_that_may_have_been_stopped_is_started(here: NodeWorld) -> None:
    here.owner = "auto"
    here.kubelet_is_configured = True
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(1)
    await life.kill()
    state_file(here).unlink()
    here.machine.kubelet = "stopped"
    here.start()
    await here.clock.advance(1)
    here.machine.call_off()
    await here.wait(lambda: not state_file(here).exists())
    assert here.machine.kubelet == "running"


def fail(*_: Any, **__: Any) -> None:
    raise OSError(errno.EROFS, "Read-only file system")


async def test_with_the_disk_lost_a_published_end_stays_published(here: NodeWorld) -> None:
    await here.pod("low", needs=1)
    agent = here.api.start_agent()
    here.beside(agent.agent)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: here.api.reasons[-1:] == ["shutdown-drain-complete"])
    await life.kill()
    (here.folder / "shutdown-state.json").unlink(missing_ok=True)
    here.machine.is_held = True
    here.start()
    await here.wait(lambda: not here.machine.is_held)
    assert here.api.reasons == ["shutdown-drain-started", "shutdown-drain-complete"]


async def test_a_disk_that_can_only_be_read_stops_nothing(here: NodeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await here.pod("low", needs=1)
    life = here.start()
    await here.clock.advance(1)
    monkeypatch.setattr(files, "write_atomically", fail)
    monkeypatch.setattr(pathlib.Path, "unlink", fail)
    life.swallow()
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    assert not state_file(here).exists()
    del life.transport.send  # the API is back
    here.machine.call_off()
    await here.wait(lambda: "" in life.interruptions)
    assert here.machine.kubelet == "running"
    assert await here.status("low") == "Succeeded"


async def test_a_disk_that_cannot_be_read_is_no_reason_not_to_start(
    here: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await here.pod("low", needs=1)
    with monkeypatch.context() as broken:
        broken.setattr(pathlib.Path, "read_bytes", fail)
        here.start()
        await here.clock.advance(1)
        here.machine.go_down()
        await here.wait(lambda: not here.machine.is_held)
    assert await here.status("low") == "Succeeded"


async def test_a_pod_is_counted_once_however_often_the_agent_is_killed(here: NodeWorld) -> None:
    await here.pod("low", needs=1)
    await here.pod("middle", 1000, needs=5)
    life = here.start()
    await here.clock.advance(1)
    life.swallow()
    here.machine.go_down()
    await here.clock.advance(5)
    await life.kill()
    here.start().swallow()
    await here.wait(lambda: not here.machine.is_held)
    state = StateFile(here.folder).load()
    assert state is not None
    assert sorted(pod.name for pod in state.ended) == ["low", "middle"]
    assert state.outcomes == {"ended": 2}


async def test_a_kubelet_that_cannot_be_stopped_does_not_keep_the_machine_up(
    here: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It restarts every ended pod; when the time is over, the agent does not terminate them again."""
    await here.pod("low", needs=0.5)
    end = here.machine.end

    async def stop() -> None:
        raise RuntimeFailed("it is not allowed")

    async def end_for_a_moment(pod: Any, **how: Any) -> Any:
        ends = await end(pod, **how)
        container = here.machine.containers[pod.uid]
        container.code = container.asked = None
        return ends

    monkeypatch.setattr(here.machine, "stop", stop)
    monkeypatch.setattr(here.machine, "end", end_for_a_moment)
    here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    assert here.clock.monotonic() - here.machine.began <= 42
    assert (await here.conditions())["LifecycleTransition"] == ("True", "shutdown-drain-complete")


async def test_a_pod_that_an_agent_did_not_live_to_ask_has_all_its_time(here: NodeWorld) -> None:
    """The agent is killed while the pod waits for traffic to leave it, and the time of its group passes."""
    await here.pod("critical", 2000000000, needs=4)
    life = here.start()
    await here.clock.advance(1)
    life.swallow()
    here.machine.go_down()
    await here.clock.advance(1)
    assert "kubelet stopped" in here.machine.log[-1]
    await life.kill()
    await here.clock.advance(15)
    here.start()
    await here.wait(lambda: not here.machine.is_held)
    assert [line.split(" ", 1)[1] for line in here.machine.log[2:4]] == ["TERM critical 10", "exit critical 0"]


async def test_a_machine_that_turns_out_not_to_go_down_has_its_pods_left(here: NodeWorld) -> None:
    """The disk says that a shutdown is under way; logind, out of reach at first, says that it is not."""
    await here.pod("low", needs=30)
    life = here.start()
    await here.clock.advance(1)
    here.machine.go_down()
    await here.clock.advance(0.1)
    await life.kill()
    here.machine.preparing = None
    here.start()
    await here.clock.advance(0.1)
    here.machine.announcements.put_nowait(False)
    await here.wait(lambda: not state_file(here).exists())
    assert here.machine.kubelet == "running"
    assert not (await here.node()).spec.unschedulable


async def test_many_pods_wait_for_the_disk_once_each(here: NodeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A written status is noted on disk with the next change; if that is lost, the status is only written again."""
    for number in range(30):
        await here.pod(f"pod-{number}", needs=1 + number / 100)
    here.start()
    await here.clock.advance(1)
    written: list[pathlib.Path] = []
    write = files.write_atomically

    def count(path: pathlib.Path, content: bytes, **how: Any) -> None:
        written.append(path)
        write(path, content, **how)

    monkeypatch.setattr(files, "write_atomically", count)
    here.machine.go_down()
    await here.wait(lambda: not here.machine.is_held)
    state = StateFile(here.folder).load()
    assert state is not None
    assert state.ended == ()
    assert sum(path == state_file(here) for path in written) <= 30 + 7
