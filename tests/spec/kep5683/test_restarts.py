"""The restart cases, on both control planes: whatever the moment, the event ends rightly and nothing happens twice.

Claim and finalizer are stored before a driver starts, in every case (invariant 3); the driver's effects happen once
under one event uid; a watcher sees every state once and in order (invariants 1, 2 and 5).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from kube_fairlead.base.clock import RealClock
from kube_fairlead.client.client import Client
from kube_fairlead_lab.testing import ControlPlane
from tests.spec.kep5683.conftest import install_kinds
from tests.spec.kep5683.fleet import SHORT_LEASE, fleet_on
from tests.unit.claimant.world import Mortal


@pytest.fixture
async def client(lifecycle_plane: ControlPlane) -> AsyncIterator[Client]:
    async with lifecycle_plane.client() as made:
        yield made


async def test_killed_before_and_after_each_single_write(client: Client, unique_name: Callable[[str], str]) -> None:
    async with fleet_on(unique_name("killed"), client, client, SHORT_LEASE) as fleet:
        for outpost in fleet.outposts.values():
            outpost.kill_agent()
            outpost.start_agent(gated=False)
        await fleet.wait_until_over()
        for outpost in fleet.outposts.values():
            outpost.assert_ended_well()


@pytest.mark.parametrize("seconds", [3, pytest.param(30, marks=pytest.mark.long)])
@pytest.mark.timeout(300)
async def test_the_api_server_is_gone_for_a_while_at_each_step(
    isolated_control_plane: ControlPlane, unique_name: Callable[[str], str], seconds: int
) -> None:
    """Killed, and started again on the same data. No agent is: their Leases outlast such an outage."""
    plane = isolated_control_plane
    await install_kinds(plane)
    async with plane.client() as client, fleet_on(unique_name("outage"), client, client) as fleet:
        await plane.stop_server(hard=True)
        for outpost in fleet.outposts.values():
            outpost.gate.go_on()
        await RealClock().sleep(seconds)
        await plane.start_server()
        await fleet.wait_until_over()
        for outpost in fleet.outposts.values():
            outpost.assert_ended_well()
            assert outpost.driver.calls == [f"start {outpost.name}", f"end {outpost.name}"]


async def test_the_api_server_is_out_of_reach_at_each_step(client: Client, unique_name: Callable[[str], str]) -> None:
    """The same for a moment, by a network that loses everything; the server itself goes on."""
    network = Mortal(client.transport, RealClock())  # type: ignore[arg-type] # it only sleeps
    agents = client.with_transport(lambda _inner: network)
    async with fleet_on(unique_name("cut"), client, agents) as fleet:
        network.go_down()
        for outpost in fleet.outposts.values():
            outpost.gate.go_on()
        await RealClock().sleep(1)
        network.is_down = False
        await fleet.wait_until_over()
        for outpost in fleet.outposts.values():
            outpost.assert_ended_well()
            assert outpost.driver.calls == [f"start {outpost.name}", f"end {outpost.name}"]
