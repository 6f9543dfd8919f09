from __future__ import annotations

import pytest

from fairlead.agent.shutdown.ending import RuntimeFailed
from fairlead.agent.shutdown.kubelet_service import KubeletService
from fairlead.agent.windows.control import Accept, ServiceState
from fairlead.base.clock import RealClock
from tests.unit.agent.windows.fakemanager import FakeManager, a_service

RUNNING, STOPPED, STOP_PENDING = ServiceState.RUNNING, ServiceState.STOPPED, ServiceState.STOP_PENDING
HEARS = Accept.STOP | Accept.PRESHUTDOWN


@pytest.fixture
def manager() -> FakeManager:
    return FakeManager()


def a_kubelet(manager: FakeManager, *, is_configured: bool = True, ended: list[int] | None = None) -> KubeletService:
    def terminate(process_id: int) -> None:
        if ended is None:
            raise PermissionError("no")
        ended.append(process_id)

    return KubeletService(RealClock(), manager, is_configured=is_configured, terminate=terminate)


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


@pytest.mark.parametrize("refusal", ["stop", "ignores"])
async def test_one_that_does_not_stop_is_ended(
    manager: FakeManager, refusal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.agent.shutdown.kubelet_service._STOP_SECONDS", 0.1)
    manager.services["kubelet"] = a_service(RUNNING, HEARS, 7)
    manager.refuses = {refusal}
    ended: list[int] = []
    await a_kubelet(manager, ended=ended).stop()
    assert ended == [7]


async def test_one_that_cannot_be_ended_is_a_failure(manager: FakeManager) -> None:
    manager.services["kubelet"] = a_service(RUNNING, HEARS, 7)
    manager.refuses = {"stop"}
    with pytest.raises(RuntimeFailed, match="process 7 cannot be ended: no"):
        await a_kubelet(manager).stop()


async def test_a_manager_that_refuses_is_a_failure(manager: FakeManager) -> None:
    manager.services["kubelet"] = a_service(STOPPED)
    manager.refuses = {"start"}
    with pytest.raises(RuntimeFailed, match="Access is denied"):
        await a_kubelet(manager).start()
