from __future__ import annotations

import pytest

from kube_fairlead.agent.shutdown.pod_runtime import RuntimeFailed
from kube_fairlead.agent.shutdown.windows_kubelet import WindowsKubelet
from kube_fairlead.agent.windows.control import Accept, ServiceState
from kube_fairlead.base.clock import RealClock, VirtualClock
from tests.unit.agent.windows.fakemanager import FakeManager, FakeProcesses, a_service

RUNNING, STOPPED, STOP_PENDING = ServiceState.RUNNING, ServiceState.STOPPED, ServiceState.STOP_PENDING
HEARS = Accept.STOP | Accept.PRESHUTDOWN


@pytest.fixture
def manager() -> FakeManager:
    return FakeManager()


def a_kubelet(
    manager: FakeManager, processes: FakeProcesses | None = None, *, is_configured: bool = True
) -> WindowsKubelet:
    return WindowsKubelet(RealClock(), manager, processes or FakeProcesses(), is_configured=is_configured)


@pytest.mark.parametrize(
    ("state", "accepts", "is_configured", "expected"),
    [
        (RUNNING, HEARS, True, True),
        (RUNNING, HEARS, False, False),  # its gate is on and its grace period is 0
        (RUNNING, Accept.STOP, True, False),  # its gate is off
        (STOP_PENDING, Accept.NONE, True, True),  # it is ending them
        (STOPPED, Accept.NONE, True, False),
    ],
)
async def test_whether_it_ends_pods(
    manager: FakeManager, state: ServiceState, accepts: Accept, is_configured: bool, expected: bool
) -> None:
    manager.services["kubelet"] = a_service(state, accepts)
    assert await a_kubelet(manager, is_configured=is_configured).ends_pods() is expected


async def test_one_that_is_not_there_ends_nothing_and_needs_no_stopping(manager: FakeManager) -> None:
    kubelet = a_kubelet(manager)
    assert not await kubelet.ends_pods()
    await kubelet.stop()
    await kubelet.start()
    assert manager.log == []


async def test_it_is_stopped_and_started(manager: FakeManager) -> None:
    manager.services["kubelet"] = a_service(RUNNING, HEARS, 7)
    kubelet = a_kubelet(manager)
    await kubelet.start()  # it runs
    await kubelet.stop()
    await kubelet.stop()  # it has stopped
    await kubelet.start()
    assert manager.log == ["stop kubelet", "start kubelet"]


async def test_one_that_runs_on_was_not_notified(manager: FakeManager) -> None:
    """It comes after us in PreshutdownOrder, and hears nothing before we have stopped: waiting for it is in vain."""
    manager.services["kubelet"] = a_service(RUNNING, HEARS)
    clock = VirtualClock()
    kubelet = WindowsKubelet(clock, manager, FakeProcesses(), is_configured=True)
    assert await kubelet.ends_pods()
    await clock.advance(1.9)
    assert await kubelet.ends_pods()  # others are notified in the same moment, and need theirs
    await clock.advance(0.2)
    assert not await kubelet.ends_pods()
    manager.services["kubelet"] = a_service(STOP_PENDING)
    assert await kubelet.ends_pods()


@pytest.mark.parametrize("refusal", ["stop", "ignores"])
async def test_one_that_does_not_stop_is_ended(
    manager: FakeManager, refusal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kube_fairlead.agent.shutdown.windows_kubelet._STOP_SECONDS", 0.1)
    manager.services["kubelet"] = a_service(RUNNING, HEARS, 7)
    manager.refuses = {refusal}
    processes = FakeProcesses(kubelet=(7, 1), plugin=(9, 7), other=(8, 1))
    await a_kubelet(manager, processes).stop()
    assert processes.ended == ["kubelet", "plugin"]


@pytest.mark.parametrize("refusal", ["stop", "ignores", ""])
async def test_under_a_wrapper_the_wrapper_ends_first_and_then_the_kubelet(
    manager: FakeManager, refusal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nssm starts its child again when that ends; and one that has stopped may have left its child behind."""
    monkeypatch.setattr("kube_fairlead.agent.shutdown.windows_kubelet._STOP_SECONDS", 0.1)
    manager.services["kubelet"] = a_service(RUNNING, Accept.STOP, 7)
    manager.refuses = {refusal}
    processes = FakeProcesses(kubelet=(9, 7), nssm=(7, 1), containerd=(8, 1))
    await a_kubelet(manager, processes).stop()
    assert processes.ended == ["nssm", "kubelet"]
    assert [one.name for one in processes.alive.values()] == ["containerd"]


async def test_one_that_cannot_be_ended_is_a_failure(manager: FakeManager) -> None:
    manager.services["kubelet"] = a_service(RUNNING, HEARS, 7)
    manager.refuses = {"stop"}
    processes = FakeProcesses(kubelet=(7, 1))
    processes.refuses = True
    with pytest.raises(RuntimeFailed, match="process 7 kubelet cannot be ended: no"):
        await a_kubelet(manager, processes).stop()


async def test_a_manager_that_refuses_is_a_failure(manager: FakeManager) -> None:
    manager.services["kubelet"] = a_service(STOPPED)
    manager.refuses = {"start"}
    with pytest.raises(RuntimeFailed, match="Access is denied"):
        await a_kubelet(manager).start()
