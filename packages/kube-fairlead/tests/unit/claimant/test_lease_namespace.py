"""The namespace of the nodes' Leases: made where that is allowed, and missed aloud where it is not."""

from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator

import pytest

from kube_fairlead.api import errors
from kube_fairlead.api.core_v1 import Namespace
from kube_fairlead.api.events_v1 import Event
from kube_fairlead.api.meta import ObjectMeta
from kube_fairlead.api.reserved import NAMESPACE_NODE_LEASE
from kube_fairlead.base import tasks
from kube_fairlead.claimant.lease_namespace import LeaseNamespace
from kube_fairlead.client.recorder import EventRecorder
from kube_fairlead.client.transport import Request, Response
from tests.unit.election.world import Network, World, a_world


@pytest.fixture
async def world(tmp_path: pathlib.Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as world:
        yield world
    assert tasks.live_tasks() == ()


async def test_it_is_made(world: World) -> None:
    namespace = LeaseNamespace(world.client("a"), EventRecorder(world.client("a"), controller="x", instance="a"))
    await namespace.run()
    assert namespace.verdict().is_ok
    assert (await world.admin.of(Namespace).get(NAMESPACE_NODE_LEASE)).name == NAMESPACE_NODE_LEASE
    await namespace.run()  # it is there: nothing to do


async def test_who_may_not_make_it_says_that_it_is_missing(world: World) -> None:
    client = world.client("a")
    network = world.network_of(client)
    _forbid_creation(network)
    recorder = EventRecorder(client, controller="fairlead.dev/claimer", instance="a")
    namespace = LeaseNamespace(client, recorder)
    async with recorder.running(), tasks.TaskScope("test", on_exit=tasks.OnExit.CANCEL) as scope:
        running = scope.start(namespace.run(), name="namespace")
        await world.clock.advance(60)
        verdict = namespace.verdict()
        assert not verdict.is_ok
        assert verdict.note.startswith(f"namespace {NAMESPACE_NODE_LEASE} is missing and cannot be created: ")
        recorded = [event.reason for event in (await world.admin.of(Event).list()).items]
        assert recorded == ["LeaseNamespaceMissing"]
        await world.admin.of(Namespace).create(Namespace(metadata=ObjectMeta(name=NAMESPACE_NODE_LEASE)))
        await world.until(running.done)
        assert namespace.verdict().is_ok


def _forbid_creation(network: Network) -> None:
    send = network.send

    async def refuse(request: Request) -> Response:
        if request.method == "POST" and request.path == "/api/v1/namespaces":
            raise errors.Forbidden("namespaces is forbidden")
        return await send(request)

    network.send = refuse  # type: ignore[method-assign]  # the one thing that this account may not do
