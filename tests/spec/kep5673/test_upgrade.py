"""Upgrade, downgrade and upgrade again, on one data folder; and two servers of different age in front of one store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kube_fairlead_lab.testing import EmbeddedControlPlane
from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.spec.kep5673.objects import FINALIZER, Deadline, Kind, define, near

OLDER = str(Path(__file__).with_name("older_server.py"))


class Cluster:
    """One data folder under servers of either age."""

    def __init__(self, plane: EmbeddedControlPlane) -> None:
        self._plane = plane
        self._newer = list(plane.apiserver.command)
        assert self._newer[1:3] == ["-m", "kube_fairlead.cli"]

    async def downgrade(self) -> None:
        await self._plane.stop_server()
        self._plane.apiserver.command = [self._newer[0], OLDER, *self._newer[3:]]
        await self._plane.start_server()

    async def upgrade(self) -> None:
        await self._plane.stop_server()
        self._plane.apiserver.command = self._newer
        await self._plane.start_server()


@pytest.fixture
def cluster(fairlead_apiserver: EmbeddedControlPlane) -> Cluster:
    return Cluster(fairlead_apiserver)


@pytest.fixture
async def kind(fairlead_apiserver: EmbeddedControlPlane) -> AsyncIterator[Kind]:
    async with RawApi(fairlead_apiserver.access()) as api:
        yield await define(api, "upgrades.example.com", "default")


async def test_upgrade_downgrade_upgrade(cluster: Cluster, kind: Kind) -> None:
    # An older server: the grace period is dropped, what is stored is 0 for everybody.
    await cluster.downgrade()
    for name in ("before", "before-2"):
        await kind.create(name, FINALIZER)
    (await kind.delete("before", 300)).expect(200)
    old = await kind.deadline("before")
    assert old == Deadline(near(), 0)

    # Upgrade: deletions from before complete, new ones have their grace.
    await cluster.upgrade()
    assert await kind.deadline("before") == old
    (await kind.delete("before", 300)).expect(200)  # row 9: its time was over before it began
    assert await kind.deadline("before") == old
    await kind.set_finalizers("before")
    assert await kind.is_gone("before")
    await kind.create("during", FINALIZER)
    (await kind.delete("before-2", 300)).expect(200)
    (await kind.delete("during", 900)).expect(200)
    graceful = await kind.deadline("during")
    assert graceful == Deadline(near(900), 900)

    # Downgrade: what is under way keeps its fields, which nobody reads, and goes with its last finalizer.
    await cluster.downgrade()
    assert await kind.deadline("during") == graceful
    await kind.set_finalizers("during")
    assert await kind.is_gone("during")
    assert await kind.deadline("before-2") == Deadline(near(300, tolerance=60), 300)

    # Upgrade again: the deadline that was set before the downgrade still holds, and still only moves earlier.
    await cluster.upgrade()
    (await kind.delete("before-2", 300)).expect(200)
    assert await kind.deadline("before-2") == Deadline(near(300, tolerance=60), 300)
    (await kind.delete("before-2", 10)).expect(200)
    assert await kind.deadline("before-2") == Deadline(near(10), 10)
    await kind.set_finalizers("before-2")
    assert await kind.is_gone("before-2")


async def test_a_delete_on_an_older_server_hastens_and_never_prolongs(cluster: Cluster, kind: Kind) -> None:
    """During skew any server may be asked. The older one forces, which is what it has always done."""
    await kind.create("a", FINALIZER)
    (await kind.delete("a", 300)).expect(200)
    await cluster.downgrade()
    (await kind.delete("a", 600)).expect(200)
    forced = await kind.deadline("a")
    assert forced == Deadline(near(), 0)
    await cluster.upgrade()
    (await kind.delete("a", 600)).expect(200)
    assert await kind.deadline("a") == forced
    await kind.set_finalizers("a")
    assert await kind.is_gone("a")
