from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator

import pytest
from tests.unit.claimant.world import DRIVER, NODE, OFFERED, World, a_world

from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleTransition
from kube_fairlead.cli.nodes import asking
from kube_fairlead.lifecycle.drain.options import KUBECTL, spell

PREFIX = "reboot.example.com/"


@pytest.fixture
async def world(tmp_path: pathlib.Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as running:
        yield running


async def test_a_transition_that_is_not_there_says_which_are(world: World) -> None:
    with pytest.raises(asking.AskError, match=r"there is no LifecycleTransition nope: .*; these are there: reboot$"):
        await asking.check_transition(world.admin, "nope")
    await world.admin.of(LifecycleTransition).delete(OFFERED.name)
    with pytest.raises(asking.AskError, match=r"no LifecycleTransition nope: .*, and none has yet$"):
        await asking.check_transition(world.admin, "nope")
    with pytest.raises(asking.AskError, match=r"so no drain driver runs anywhere yet"):
        await asking.check_transition(world.admin, "node-drain")


@pytest.mark.parametrize(
    ("annotations", "changes", "differs"),
    [
        ({}, {}, ""),
        ({}, {"force": "true"}, "force is left to the driver, not true"),
        ({"force": "true"}, {}, "force=true instead of false"),
        ({"force": "true", "timeout": "0s"}, {"force": "true"}, ""),
    ],
)
async def test_only_what_differs_is_told_of_a_request_that_is_under_way(
    world: World, annotations: dict[str, str], changes: dict[str, str], differs: str
) -> None:
    await world.create(annotations={f"{PREFIX}{name}": value for name, value in annotations.items()})
    transition = await asking.check_transition(world.admin, OFFERED.name)
    assert transition.spec.driver == DRIVER
    asked = await asking.ask(world.admin, transition, NODE, {**spell(KUBECTL), **changes})
    assert (asked.is_new, asked.differs) == (False, differs)
