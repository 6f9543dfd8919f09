from __future__ import annotations

import os

import pytest

from kube_fairlead.agent.shutdown.pod_runtime import RuntimeFailed
from kube_fairlead.agent.shutdown.systemd_kubelet import SystemdKubelet
from kube_fairlead.base.clock import RealClock
from tests.unit.agent.shutdown.fakelogind import FakeLogind


async def test_the_unit_is_stopped_and_started(bus: str, logind: FakeLogind) -> None:
    kubelet = SystemdKubelet(RealClock(), bus_address=bus)
    logind.units["kubelet.service"] = "active"
    await kubelet.stop()
    assert logind.units == {"kubelet.service": "inactive"}
    await kubelet.start()
    assert logind.units == {"kubelet.service": "active"}


async def test_one_that_is_started_and_does_not_run_is_not_taken_for_running(
    bus: str, logind: FakeLogind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kube_fairlead.agent.shutdown.systemd_kubelet._START_SECONDS", 0.1)
    kubelet = SystemdKubelet(RealClock(), bus_address=bus)
    logind.units["kubelet.service"] = "inactive"
    logind.slow_units.add("kubelet.service")
    with pytest.raises(RuntimeFailed, match=r"kubelet\.service does not run"):
        await kubelet.start()


async def test_a_node_without_a_kubelet_is_fine(bus: str, logind: FakeLogind) -> None:
    kubelet = SystemdKubelet(RealClock(), bus_address=bus)
    await kubelet.stop()
    await kubelet.start()
    assert "StopUnit" not in logind.calls
    assert "StartUnit" not in logind.calls


async def test_one_that_holds_a_lock_ends_pods_itself(bus: str, logind: FakeLogind) -> None:
    kubelet = SystemdKubelet(RealClock(), bus_address=bus)
    assert not await kubelet.ends_pods()
    reading, writing = os.pipe()
    logind.locks.append(("kubelet", reading))
    assert await kubelet.ends_pods()
    os.close(writing)
    assert not await kubelet.ends_pods()


async def test_a_missing_bus_is_an_error() -> None:
    with pytest.raises(RuntimeFailed, match="cannot reach the system bus"):
        await SystemdKubelet(RealClock(), bus_address="unix:path=/nowhere").ends_pods()
