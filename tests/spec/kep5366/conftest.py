"""Replicas of managers, in this process and as processes, on both control planes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest

from kube_fairlead.base import tasks
from kube_fairlead.election import Lock
from kube_fairlead_lab.testing import ControlPlane
from tests.spec.kep5366 import loops
from tests.spec.kep5366.components import COMPONENTS, INVENTORY, Replica
from tests.spec.kep5366.loops import Fleet
from tests.spec.kep5683.conftest import install_kinds


@pytest.fixture(
    params=[
        pytest.param(loops.no_controllers, id="bare"),
        pytest.param(loops.controllers_of_the_controller_manager, id="controller-manager", marks=pytest.mark.long),
        pytest.param(loops.controllers_of_the_cloud_controller_manager, id="cloud-manager", marks=pytest.mark.long),
        pytest.param(loops.controllers_of_the_scheduler, id="scheduler", marks=pytest.mark.long),
    ]
)
async def fleet(control_plane: ControlPlane, namespace: str, request: pytest.FixtureRequest) -> AsyncIterator[Fleet]:
    fleet = Fleet(control_plane.kubeconfig, Lock(namespace, "managers"), request.param)
    try:
        yield fleet
    finally:
        await fleet.close()
    assert tasks.live_tasks() == ()


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.long if name == "hollow-scheduler" else ()) for name in COMPONENTS]
)
def component(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


class StartProcess(Protocol):
    """Start one more replica of a component."""

    def __call__(self, name: str, *flags: str) -> Replica: ...


@pytest.fixture
async def start_process(
    control_plane: ControlPlane, namespace: str, component: str, tmp_path: Path
) -> AsyncIterator[StartProcess]:
    await install_kinds(control_plane)  # a manager waits for them before it is a candidate
    flags = [f"--kubeconfig={control_plane.kubeconfig}", f"--leader-elect-resource-namespace={namespace}"]
    if component == "cloud-controller-manager":
        inventory = tmp_path / "inventory.yaml"
        inventory.write_text(INVENTORY, encoding="utf-8")
        flags += ["--cloud-provider=static", f"--cloud-config={inventory}"]
    async with contextlib.AsyncExitStack() as stack:

        def start(name: str, *more: str) -> Replica:
            replica = Replica(component, name, [*flags, *more], tmp_path)
            stack.push_async_callback(replica.stop)
            return replica

        yield start
