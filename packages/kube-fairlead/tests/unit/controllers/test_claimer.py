"""The central claimer on the embedded API server, with a driver inside the process."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from collections.abc import AsyncIterator

import pytest

from kube_fairlead.agent.agent import Agent, AgentOptions
from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.coordination_v1 import Lease, LeaseSpec
from kube_fairlead.api.core_v1 import Namespace
from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleEvent
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import NAMESPACE_NODE_LEASE
from kube_fairlead.base import tasks
from kube_fairlead.base.metrics import DiscardedMetrics
from kube_fairlead.claimant.driver_directory import DriverDirectory, Registration
from kube_fairlead.client import errors as client_errors
from kube_fairlead.client.client import Client
from kube_fairlead.controllers.claimer import ClaimerOptions, claimer
from kube_fairlead.driverapi.memory_channel import MemoryChannel
from kube_fairlead.driverapi.messages import OfferedTransition
from kube_fairlead.drivers.sdk.service import Service
from kube_fairlead.lifecycle.facts import Settings
from tests.unit.claimant.world import Deed, NoChannels
from tests.unit.controllers.stage import a_node, a_transition, an_event, claim, running
from tests.unit.election.world import World

DRIVER = "x.example.com/y"  # of `a_transition`


@dataclasses.dataclass
class Central:
    """A claimer's options and the driver it has."""

    world: World
    driver: Deed = dataclasses.field(default_factory=Deed)
    directory: DriverDirectory = dataclasses.field(default_factory=DriverDirectory)

    def register(self) -> None:
        channel = MemoryChannel(Service(self.driver, self.world.clock))
        offered = OfferedTransition(name="t", start="a", end="b")
        self.directory.add(Registration(driver=DRIVER, endpoint="", owner=0, channel=channel, transitions=(offered,)))

    @property
    def options(self) -> ClaimerOptions:
        settings = Settings(keep_finished=dt.timedelta(seconds=30))
        return ClaimerOptions(registry=None, settings=settings, directory=self.directory)


async def status_of(world: World, name: str) -> str:
    try:
        return (await world.admin.of(LifecycleEvent).get(name)).claim_status
    except api_errors.NotFound:
        return "gone"


async def holder_of(world: World, node: str) -> str | None:
    try:
        lease = await world.admin.of(Lease).get(node, namespace=NAMESPACE_NODE_LEASE)
    except api_errors.NotFound:
        return None
    return lease.spec.holder_identity


@contextlib.asynccontextmanager
async def an_agent(world: World, directory: DriverDirectory) -> AsyncIterator[Client]:
    """The agent of node `n`, while the block lasts."""
    client = world.client("agent")
    options = AgentOptions(node_name="n", identity="n_agent")
    agent = Agent(client, options, NoChannels(), DiscardedMetrics())
    for registration in directory.of_driver(DRIVER):
        agent.directory.add(registration)

    async def run() -> None:
        with contextlib.suppress(client_errors.ClientError):  # one whose power is cut fails in whatever it was doing
            await agent.run()

    async with tasks.TaskScope("agent", on_exit=tasks.OnExit.CANCEL) as scope:
        task = scope.start(run(), name="agent")
        await world.clock.advance(1)
        yield client
        task.cancel()
        while not task.done():
            await world.clock.advance(0.1)


async def test_it_claims_for_nodes_that_have_no_agent(world: World) -> None:
    central = Central(world)
    central.register()
    await a_transition(world)
    for node in ("n", "m"):
        await a_node(world, node)
        await an_event(world, f"on-{node}", node)
    central.driver.hold["end"].clear()
    async with running(world, claimer(central.options)):
        await world.clock.advance(5)
        event = await world.admin.of(LifecycleEvent).get("on-n")
        assert (event.claim_status, event.status.claimed_by) == ("Claimed", "claimer/central")
        assert (await holder_of(world, "n") or "").startswith("claimer/central_")
        central.driver.hold["end"].set()
        await world.clock.advance(5)
        # It holds a node only as long as there is something to do for it: a finished event is only kept.
        assert [await status_of(world, f"on-{node}") for node in ("n", "m")] == ["Succeeded", "Succeeded"]
        assert await holder_of(world, "n") == ""
        await world.clock.advance(60)
        assert [await status_of(world, f"on-{node}") for node in ("n", "m")] == ["gone", "gone"]
        assert await holder_of(world, "n") == ""
    assert sorted(central.driver.effects) == ["end on-m", "end on-n", "start on-m", "start on-n"]


async def test_what_its_drivers_cannot_do_is_not_its_business(world: World) -> None:
    central = Central(world)
    await a_transition(world)
    await a_node(world, "n")
    await an_event(world, "e", "n")
    await an_event(world, "nowhere", "no-such-node")
    async with running(world, claimer(central.options)):
        await world.clock.advance(900)
        assert await status_of(world, "e") == "Pending"
        assert await holder_of(world, "n") is None
        central.register()
        await world.clock.advance(10)
        assert await status_of(world, "e") == "Succeeded"
        assert await status_of(world, "nowhere") == "Pending"


async def test_where_an_agent_holds_the_lease_it_stands_by(world: World) -> None:
    central = Central(world)
    central.register()
    await a_transition(world)
    await a_node(world, "n")
    await world.admin.of(Namespace).create(Namespace(metadata=ObjectMeta(name=NAMESPACE_NODE_LEASE)))
    spec = LeaseSpec(holder_identity="n_agent", lease_duration_seconds=60, renew_time=world.clock.now())
    await world.admin.of(Lease).create(Lease(metadata=ObjectMeta(name="n", namespace=NAMESPACE_NODE_LEASE), spec=spec))
    await an_event(world, "e", "n")
    async with running(world, claimer(central.options)):
        await world.clock.advance(50)
        assert await status_of(world, "e") == "Pending"
        await world.clock.advance(30)  # the agent was not heard of for longer than its Lease lasts
        assert await status_of(world, "e") == "Succeeded"


async def test_what_need_not_be_kept_is_deleted_at_once(world: World) -> None:
    central = Central(world)
    central.register()
    await a_transition(world)
    await a_node(world, "n")
    await an_event(world, "e", "n")
    async with running(world, claimer(dataclasses.replace(central.options, settings=Settings()))):
        await world.clock.advance(5)
        assert await status_of(world, "e") == "gone"
        assert await holder_of(world, "n") == ""


@pytest.mark.parametrize("end", ["asked to leave", "power cut"])
async def test_an_agent_that_comes_back_finds_the_lease_free_for_its_claim(world: World, end: str) -> None:
    """The claimer could do what comes next, and does not hold the node while the agent's event is under way."""
    central, at_node = Central(world), Central(world)
    central.register()
    at_node.register()
    at_node.driver.hold["end"].clear()
    await a_transition(world)
    await a_node(world, "n")
    async with running(world, claimer(central.options)):
        async with an_agent(world, at_node.directory) as client:
            for name in ("first", "second"):
                await an_event(world, name, "n")
                await world.clock.advance(5)
            if end == "power cut":
                world.network_of(client).cut()
        await world.clock.advance(120)
        assert [await status_of(world, name) for name in ("first", "second")] == ["Claimed", "Pending"]
        assert not (await holder_of(world, "n") or "").startswith("claimer/")
        at_node.driver.hold["end"].set()
        async with an_agent(world, at_node.directory):
            await world.clock.advance(30)
            assert [await status_of(world, name) for name in ("first", "second")] == ["gone", "gone"]
    assert at_node.driver.effects[:2] == ["start first", "end first"]


async def test_an_agent_steps_aside_for_a_claim_of_the_claimer(world: World) -> None:
    """It came while the claimer was away, holds the Lease, and could wait for ever for that claim to end."""
    central, at_node = Central(world), Central(world)
    central.register()
    at_node.register()
    central.driver.hold["end"].clear()
    options = dataclasses.replace(central.options, settings=Settings())
    await a_transition(world)
    await a_node(world, "n")
    await an_event(world, "first", "n")
    async with running(world, claimer(options)):
        await world.clock.advance(5)
        assert await status_of(world, "first") == "Claimed"
    central.driver.hold["end"].set()
    async with an_agent(world, at_node.directory):
        await an_event(world, "second", "n")
        await world.clock.advance(60)
        assert [await status_of(world, name) for name in ("first", "second")] == ["Claimed", "Pending"]
        async with running(world, claimer(options)):
            await world.clock.advance(120)
            assert [await status_of(world, name) for name in ("first", "second")] == ["gone", "gone"]
    assert central.driver.effects[:2] == ["start first", "end first"]


async def test_two_at_once_never_work_on_one_node(world: World) -> None:
    first, second = Central(world), Central(world)
    for central in (first, second):
        central.register()
        central.driver.hold["end"].clear()
    await a_transition(world)
    await a_node(world, "n")
    await an_event(world, "e", "n")
    async with running(world, claimer(first.options)):
        await world.clock.advance(5)
        holder = await holder_of(world, "n")
        async with running(world, claimer(second.options), seed=2):
            await world.clock.advance(300)
            assert await holder_of(world, "n") == holder
            first.driver.hold["end"].set()
            await world.clock.advance(5)
            assert await status_of(world, "e") == "Succeeded"
    assert first.driver.effects == ["start e", "end e"]
    assert second.driver.calls == []


async def test_the_next_term_goes_on_with_the_claims_of_the_last(world: World) -> None:
    central = Central(world)
    central.register()
    central.driver.hold["end"].clear()
    await a_transition(world)
    await a_node(world, "n")
    await an_event(world, "e", "n")
    async with running(world, claimer(central.options)):
        await world.clock.advance(5)
        assert await status_of(world, "e") == "Claimed"
    central.driver.hold["end"].set()
    async with running(world, claimer(central.options)):
        await world.clock.advance(5)
        assert await status_of(world, "e") == "Succeeded"
    assert central.driver.effects == ["start e", "end e"]


@pytest.mark.parametrize(
    ("lock", "expected"),
    [("kube-system/fairlead", "Succeeded"), ("kube-system/another", "Claimed"), ("", "Claimed")],
)
async def test_who_leads_takes_the_leases_of_the_dead_leader_over_at_once(
    world: World, lock: str, expected: str
) -> None:
    """A dead claimer's Leases last another minute. Who holds the manager's own Lease knows that it has ended."""
    central = Central(world)
    central.register()
    await a_transition(world)
    node = await a_node(world, "n")
    await an_event(world, "e", "n", claim(world, node, by="claimer/central"))
    await world.admin.of(Namespace).create(Namespace(metadata=ObjectMeta(name=NAMESPACE_NODE_LEASE)))
    now = world.clock.now()
    dead = LeaseSpec(
        holder_identity="claimer/central_kube-system.fairlead_dead",
        lease_duration_seconds=60,
        acquire_time=now,
        renew_time=now,
    )
    await world.admin.of(Lease).create(Lease(metadata=ObjectMeta(name="n", namespace=NAMESPACE_NODE_LEASE), spec=dead))
    async with running(world, claimer(central.options), lock=lock):
        await world.clock.advance(10)
        assert await status_of(world, "e") == expected
