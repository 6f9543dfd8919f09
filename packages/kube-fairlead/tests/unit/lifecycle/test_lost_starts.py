"""A node that no longer shows its transition: it was down meanwhile, or another client cleared the condition."""

from __future__ import annotations

import pytest

from kube_fairlead.api import wire
from kube_fairlead.api.lifecycle_v1alpha1 import ClaimStatus
from kube_fairlead.api.reserved import NODE_SHUTDOWN
from kube_fairlead.lifecycle import steps as d
from kube_fairlead.lifecycle.facts import DriverTraits, Settings
from tests.unit.lifecycle.world import DRIVER, World, event, transition


def world(name: str = "reboot") -> World:
    made = World(Settings(hold_autoscalers=False, well_known_conditions=False))
    made.transitions[name] = transition(name)
    made.offer(transition(name))
    made.add(event("e", name))
    return made


def lose(here: World, reason: str = "") -> None:
    assert here.node is not None
    left = (wire.replace(here.node.status.conditions[0], reason=reason),) if reason else ()
    here.node = wire.replace(here.node, status=wire.replace(here.node.status, conditions=left))


@pytest.mark.parametrize("left", ["", "Elsewhere"])
@pytest.mark.parametrize("when", ["before the second call", "during it", "after it"])
def test_a_lost_start_is_published_again_before_the_end(left: str, when: str) -> None:
    here = world()
    for _ in range(3):
        here.step("e")
    here.answer("e")
    for _ in range(2 if when == "before the second call" else 3):
        here.step("e")
    if when == "after it":
        here.answer("e")
    # The node shut down without an agent that reports it, and its condition was cleared at the next boot.
    lose(here, left)
    while here.events["e"].claim_status is ClaimStatus.CLAIMED:
        if isinstance(here.step("e"), d.EndDriver | d.Nothing):
            here.answer("e")
    assert here.events["e"].claim_status is ClaimStatus.SUCCEEDED
    assert here.reasons == [("uid-e", "reboot-a"), ("uid-e", "reboot-a"), ("uid-e", "reboot-z")]


@pytest.mark.parametrize("is_there", [True, False])
def test_the_conditions_of_a_shutdown_are_not_published_again(is_there: bool) -> None:
    """Its agent has just taken it back, and its event is still claimed; or the agent looks after shutdowns no more."""
    here = world(NODE_SHUTDOWN.name)
    for _ in range(3):
        here.step("e")
    here.answer("e")
    for _ in range(2):
        here.step("e")
    assert here.events["e"].status.start_time is not None
    lose(here)
    here.runs.clear()
    if is_there:
        here.traits = {DRIVER: DriverTraits(writes_conditions=True)}
    else:
        del here.drivers[DRIVER]
    assert isinstance(here.step("e"), d.EndDriver if is_there else d.NoteDriver)
    said = list(here.reasons)
    here.answer("e")
    here.settle()
    assert here.reasons == said
