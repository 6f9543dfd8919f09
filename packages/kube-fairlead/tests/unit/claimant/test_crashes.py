"""The agent is killed, or loses the API server, before and after each single request that changes something.

Whatever the moment: the event ends as it should, its driver's effects happen once, and Start never runs before claim
and finalizer are stored (invariants 1 to 5).
"""

from __future__ import annotations

import pathlib

import pytest

from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus, NodeLifecycleRecord
from kube_fairlead.api.reserved import FINALIZER_CLAIMED
from kube_fairlead.client.transport import Request
from kube_fairlead.drivers import sdk
from tests.unit.claimant.world import Deed, When, World, a_world

# Requests to the API about the event and its node, in the order of an undisturbed run. The first test holds the list
# against reality, so that no step is left out when one is added.
STEPS = (
    "PUT lifecycleevents/e/status",  # the claim
    "PUT lifecycleevents/e",  # the finalizer
    "PATCH nodes/node-1",  # the annotations for autoscalers are set
    "PATCH nodes/node-1/status",  # the start state
    "PUT lifecycleevents/e/status",  # it is recorded
    "PATCH nodes/node-1/status",  # the end state
    "PUT lifecycleevents/e/status",  # the terminal status
    "PATCH nodes/node-1",  # the annotations for autoscalers are removed
    "POST nodelifecyclerecords",  # what it came to is kept
    "PUT lifecycleevents/e",  # the finalizer goes
    "DELETE lifecycleevents/e",
)


def step_of(request: Request) -> str:
    path = request.path.removeprefix("/api/v1/").removeprefix("/apis/lifecycle.k8s.io/v1alpha1/")
    return f"{request.method} {path}"


def is_step(request: Request) -> bool:
    kinds = ("/lifecycleevents", "/nodes/", "/nodelifecyclerecords")
    return request.method != "GET" and any(kind in request.path for kind in kinds)


class Witness(Deed):
    """Looks at the event through the API before it starts: were claim and finalizer stored?"""

    def __init__(self, here: World) -> None:
        super().__init__()
        self.here = here
        self.broken: list[str] = []

    async def start(self, work: sdk.Work) -> None:
        event = await self.here.events.get(work.event_name)
        if event.claim_status is not ClaimStatus.CLAIMED or FINALIZER_CLAIMED not in event.metadata.finalizers:
            self.broken.append(f"{work.event_name} was {event.claim_status}")
        await super().start(work)


def use_witness(here: World) -> Witness:
    witness = Witness(here)
    here.use(witness)
    return witness


async def test_an_undisturbed_run_takes_these_steps(here: World) -> None:
    steps: list[str] = []

    def note(request: Request, when: When) -> bool:
        if when == "before" and is_step(request):
            steps.append(step_of(request))
        return False

    here.start_agent(fate=note)
    await here.create()
    await here.clock.advance(1)
    assert tuple(steps) == STEPS


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(len(STEPS)))
async def test_killed_at_any_step(server_folder: pathlib.Path, number: int, when: When) -> None:
    async with a_world(server_folder, sla="10m") as here:
        witness = use_witness(here)
        count = 0

        def fate(request: Request, moment: When) -> bool:
            nonlocal count
            if moment != when or not is_step(request):
                return False
            count += 1
            return count == number + 1

        agent = here.start_agent(fate=fate)
        await here.create()
        await here.clock.advance(1)
        assert agent.transport.died.is_set()
        await agent.kill()
        here.start_agent()
        await here.clock.advance(5)
        await assert_ended_well(here, witness)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(len(STEPS)))
async def test_the_api_server_is_gone_for_half_a_minute(server_folder: pathlib.Path, number: int, when: When) -> None:
    """Also the answer to the last request is lost, so that the agent cannot know whether it was heard."""
    async with a_world(server_folder, sla="10m") as here:
        witness = use_witness(here)
        count = 0

        def fate(request: Request, moment: When) -> bool:
            nonlocal count
            if moment == when and is_step(request):
                count += 1
                if count == number + 1:
                    agent.transport.go_down()
            return False

        agent = here.start_agent(fate=fate)
        await here.create()
        await here.clock.advance(30)
        assert agent.transport.is_down
        agent.transport.is_down = False
        await here.clock.advance(40)
        await assert_ended_well(here, witness)
        # No term ended: the Lease outlasts such an outage.
        assert here.driver.calls == ["start e", "end e"]


@pytest.mark.parametrize("step", ["start", "end"])
async def test_killed_while_the_driver_works(server_folder: pathlib.Path, step: str) -> None:
    async with a_world(server_folder, sla="10m") as here:
        witness = use_witness(here)
        here.driver.hold[step].clear()
        agent = here.start_agent()
        await here.create()
        await here.clock.advance(1)
        assert here.driver.calls[-1] == f"{step} e"
        await agent.kill()
        here.driver.hold[step].set()
        here.start_agent()
        await here.clock.advance(5)
        await assert_ended_well(here, witness)


@pytest.mark.parametrize("status", ["Failed", "SlaExpired"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(7))
async def test_killed_on_the_way_to_a_bad_end(
    server_folder: pathlib.Path, number: int, when: When, status: str
) -> None:
    async with a_world(server_folder, sla="10m" if status == "Failed" else "20s") as here:
        witness = use_witness(here)
        if status == "Failed":
            here.driver.refusal["end"] = "disk is full"
        else:
            here.driver.hold["end"].clear()
        count = -5  # the steps up to the record of the start are those of every run

        def fate(request: Request, moment: When) -> bool:
            nonlocal count
            if moment != when or not is_step(request):
                return False
            count += 1
            return count == number + 1

        agent = here.start_agent(fate=fate)
        await here.create()
        await here.clock.advance(1 if status == "Failed" else 25)
        await agent.kill()
        here.start_agent()
        await here.clock.advance(25)
        assert here.seen() == ["Pending", "Claimed", status, "gone"]
        assert here.driver.effects == ["start e"]
        assert witness.broken == []
        assert await recorded(here) == [("e", status)]
        assert here.reasons == ["Rebooting"]
        node = await here.node()
        assert node.metadata.annotations == {}
        assert node.status.conditions[0].message.startswith("Lifecycle Transition 'reboot' ")


async def recorded(here: World) -> list[tuple[str, str]]:
    """What the record of the node says: each event once, however often its claimant was killed."""
    record = await here.admin.of(NodeLifecycleRecord).get("node-1")
    return [(entry.event_name, entry.result) for entry in record.entries]


async def assert_ended_well(here: World, witness: Witness) -> None:
    assert here.seen() == ["Pending", "Claimed", "Succeeded", "gone"]
    assert here.reasons == ["Rebooting", "Rebooted"]
    assert here.driver.effects == ["start e", "end e"]
    assert witness.broken == []
    assert await recorded(here) == [("e", "Succeeded")]


async def test_killed_again_and_again(server_folder: pathlib.Path) -> None:
    """A hundred agents, each killed after at most one more request."""
    async with a_world(server_folder) as here:
        witness = use_witness(here)
        await here.create()
        for _ in range(100):
            left = 1

            def fate(request: Request, moment: When) -> bool:
                nonlocal left
                if moment != "after" or not is_step(request):
                    return False
                left -= 1
                return left <= 0

            agent = here.start_agent(fate=fate)
            await here.clock.advance(1)
            await agent.kill()
            if here.seen()[-1] == "gone":
                break
        await assert_ended_well(here, witness)
        assert len(here.agents) <= len(STEPS) + 2
