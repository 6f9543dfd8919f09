"""Waiting for a resource version that the server has not reached yet."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kube_fairlead.api import errors
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.tasks import TaskScope
from kube_fairlead_apiserver.verbs.resource_versions import wait_for_version


class Store:
    """Reaches a version, while the request that waits for it has no turn to go on."""

    def __init__(self, reaches: int) -> None:
        self.revision = 1
        self._reaches = reaches

    async def wait_revision(self, revision: int) -> None:
        assert revision > self.revision
        self.revision = self._reaches
        await asyncio.Event().wait()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


async def wait(clock: VirtualClock, store: Store) -> int:
    core: Any = SimpleNamespace(clock=clock, store=store)
    return await wait_for_version(core, "5")


async def test_a_version_that_is_there_counts_however_late_the_request_goes_on(clock: VirtualClock) -> None:
    """The requests of a user who sends too many wait for their turns; that is no fault of the version."""
    async with TaskScope("test") as scope:
        waiting = scope.start(wait(clock, Store(5)), name="wait")
        await clock.advance(10)
        assert await waiting == 5


async def test_a_version_that_is_not_there_in_time(clock: VirtualClock) -> None:
    failures: list[BaseException] = []

    async def fail() -> None:
        try:
            await wait(clock, Store(4))
        except errors.Timeout as error:
            failures.append(error)

    async with TaskScope("test") as scope:
        waiting = scope.start(fail(), name="wait")
        await clock.advance(2.9)
        assert not waiting.done()
        await clock.advance(0.2)
        await waiting
    assert "Too large resource version: 5, current: 4" in str(failures[0])
