"""A countdown that follows its object, against the embedded server in one process, on virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kube_fairlead import grace
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.client.patches import MergePatch
from tests.spec.kep5673.inprocess import GROUP, Cluster, running

Json = dict[str, Any]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running(VirtualClock()) as cluster:
        yield cluster


async def create(cluster: Cluster) -> Json:
    metadata = {"name": "a", "finalizers": ["example.com/x"]}
    made = {"apiVersion": f"{GROUP}/v1", "kind": "Machine", "metadata": metadata}
    return await cluster.machines.create(made, namespace="default")


async def delete(cluster: Cluster, seconds: int | None) -> Json:
    deleted = await cluster.machines.delete("a", namespace="default", grace_period_seconds=seconds)
    assert deleted is not None
    return deleted


async def release(cluster: Cluster) -> None:
    await cluster.machines.patch("a", MergePatch({"metadata": {"finalizers": []}}), namespace="default")


async def test_our_server_is_native(cluster: Cluster) -> None:
    assert await grace.is_native(cluster.client)


async def test_it_hears_of_later_deletes(cluster: Cluster) -> None:
    await create(cluster)
    vm = await delete(cluster, 300)
    async with (
        grace.follow(cluster.machines, vm, native=True) as countdown,
        tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope,
    ):
        waiting = scope.start(countdown.wait(), name="wait")
        await cluster.clock.advance(100)
        assert countdown.remaining == 200
        await delete(cluster, 10)
        await cluster.clock.advance(9)
        assert countdown.remaining == 1
        assert not waiting.done()
        await cluster.clock.advance(1)
        assert waiting.done()


async def test_it_hears_of_force(cluster: Cluster) -> None:
    await create(cluster)
    vm = await delete(cluster, 300)
    async with (
        grace.follow(cluster.machines, vm, native=True) as countdown,
        tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope,
    ):
        waiting = scope.start(countdown.wait(), name="wait")
        await cluster.clock.advance(1)
        await delete(cluster, 0)
        await cluster.clock.settle()
        assert waiting.done()
        assert countdown.is_forced


async def test_it_can_begin_before_any_delete(cluster: Cluster) -> None:
    vm = await create(cluster)
    async with grace.follow(cluster.machines, vm, native=True, default_seconds=30) as countdown:
        await cluster.clock.settle()
        assert (countdown.grace, countdown.remaining) == (None, None)
        await delete(cluster, None)
        await cluster.clock.settle()
        assert countdown.remaining == pytest.approx(30, abs=1)


async def test_it_notices_that_the_object_goes(cluster: Cluster) -> None:
    await create(cluster)
    vm = await delete(cluster, 300)
    async with grace.follow(cluster.machines, vm, native=True) as countdown:
        await cluster.clock.settle()
        await release(cluster)
        await countdown.wait()
        assert countdown.is_gone


async def test_it_notices_that_the_object_has_gone_before(cluster: Cluster) -> None:
    await create(cluster)
    vm = await delete(cluster, 300)
    await release(cluster)
    async with grace.follow(cluster.machines, vm, native=True) as countdown:
        await countdown.wait()
        assert countdown.is_gone


async def test_another_object_of_the_same_name_is_another_object(cluster: Cluster) -> None:
    await create(cluster)
    vm = await delete(cluster, 300)
    await release(cluster)
    await create(cluster)
    async with grace.follow(cluster.machines, vm, native=True) as countdown:
        await countdown.wait()
        assert countdown.is_gone


async def test_nothing_is_left_running(cluster: Cluster) -> None:
    await create(cluster)
    vm = await delete(cluster, 300)
    async with grace.follow(cluster.machines, vm, native=True):
        await cluster.clock.settle()
        assert tasks.live_tasks("grace")
    assert tasks.live_tasks("grace") == ()
