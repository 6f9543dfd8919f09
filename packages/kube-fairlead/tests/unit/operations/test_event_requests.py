from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator

import pytest

from kube_fairlead.api.lifecycle_v1alpha1 import LifecycleTransition
from kube_fairlead.lifecycle.drain.options import KUBECTL, spell
from kube_fairlead.operations import event_requests
from tests.unit.claimant.world import DRIVER, NODE, OFFERED, World, a_world

PREFIX = "reboot.example.com/"


@pytest.fixture
async def world(tmp_path: pathlib.Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as running:
        yield running


async def test_a_missing_transition_is_reported_with_the_existing_ones(world: World) -> None:
    with pytest.raises(
        event_requests.RequestFailed, match=r"there is no LifecycleTransition nope: .*; existing: reboot$"
    ):
        await event_requests.find_transition(world.admin, "nope")
    await world.admin.of(LifecycleTransition).delete(OFFERED.name)
    with pytest.raises(
        event_requests.RequestFailed, match=r"no LifecycleTransition nope: .*, and none has registered yet$"
    ):
        await event_requests.find_transition(world.admin, "nope")
    with pytest.raises(event_requests.RequestFailed, match=r"so no drain driver has registered yet"):
        await event_requests.find_transition(world.admin, "node-drain")


@pytest.mark.parametrize(
    ("annotations", "changes", "differences"),
    [
        ({}, {}, ""),
        ({}, {"force": "true"}, "force is the driver's default instead of true"),
        ({"force": "true"}, {}, "force=true instead of false"),
        ({"force": "true", "timeout": "0s"}, {"force": "true"}, ""),
    ],
)
async def test_an_unfinished_event_is_joined_and_only_differing_options_are_named(
    world: World, annotations: dict[str, str], changes: dict[str, str], differences: str
) -> None:
    await world.create(annotations={f"{PREFIX}{name}": value for name, value in annotations.items()})
    transition = await event_requests.find_transition(world.admin, OFFERED.name)
    assert transition.spec.driver == DRIVER
    requested = await event_requests.request_event(world.admin, transition, NODE, {**spell(KUBECTL), **changes})
    assert (requested.is_new, requested.differences) == (False, differences)
