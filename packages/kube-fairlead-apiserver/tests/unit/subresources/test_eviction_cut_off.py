"""An eviction is three writes that belong together: the budget is charged, the pod marked, the pod deleted.

Its client hangs up while one of them is on its way to the disk, or the server is stopped then.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.base.tasks import TaskScope, cancel_and_wait
from kube_fairlead_apiserver.attributes import UserInfo
from kube_fairlead_apiserver.http.connection import Connection
from kube_fairlead_apiserver.http.server import HttpServer, listen
from kube_fairlead_apiserver.operations.internal_client import InternalClient
from kube_fairlead_apiserver.server import ApiServer
from kube_fairlead_apiserver.storage import interface
from kube_fairlead_apiserver.storage.memory_log import MemoryLog
from kube_fairlead_lab.testing.manifests import pod
from tests.inprocess import serving

PEOPLE = {"secret": UserInfo(name="admin", groups=("system:masters",))}


class SlowLog(MemoryLog):
    """Holds one write back until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.passes: int | None = None  # so many writes before the one that is held; None: none is
        self.held = asyncio.Event()
        self.go_on = asyncio.Event()

    async def append(self, rows: Sequence[interface.Row]) -> None:
        if self.passes is not None:
            self.passes -= len(rows)
            if self.passes < 0:
                self.passes = None
                self.held.set()
                await self.go_on.wait()
        await super().append(rows)


class World:
    def __init__(self, server: ApiServer, log: SlowLog, clock: VirtualClock) -> None:
        self.server, self.log, self.clock = server, log, clock
        self.client = InternalClient(server.core, "test")
        self.pods = self.client.resource("", "v1", "pods")
        self.budgets = self.client.resource("policy", "v1", "poddisruptionbudgets")
        self.listener = listen("127.0.0.1", 0)
        self.http = HttpServer(server.handle, self.listener, None, clock)

    async def furnish(self) -> None:
        """A pod that runs, and a budget that allows one disruption."""
        made = pod("p", node_name="n", labels={"app": "x"})
        made["metadata"]["namespace"] = "default"
        await self.client.create_own(self.pods, made)

        def run(obj: dict[str, Any]) -> None:
            obj["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}

        await self.client.change(self.pods, "default", "p", run, subresource="status")
        spec = {"minAvailable": 0, "selector": {"matchLabels": {"app": "x"}}}
        budget = {"metadata": {"name": "b", "namespace": "default"}, "spec": spec}
        await self.client.create(self.budgets, budget, namespace="default")
        while self.budget().get("disruptionsAllowed") != 1:
            await self.clock.advance(1)

    def budget(self) -> dict[str, Any]:
        found = self.client.newest(self.budgets, "default", "b")
        assert found is not None
        status: dict[str, Any] = found.get("status") or {}
        return status

    def pod_goes(self) -> bool:
        found = self.client.get(self.pods, "default", "p")
        return found is None or "deletionTimestamp" in found["metadata"]

    async def evict(self) -> asyncio.StreamWriter:
        """Ask for it, and return once the write that is held back has begun."""
        _, writer = await asyncio.open_connection(*self.listener.getsockname())
        body = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}})
        head = "POST /api/v1/namespaces/default/pods/p/eviction HTTP/1.1\r\nhost: h\r\nauthorization: Bearer secret\r\n"
        writer.write(f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
        await self.log.held.wait()
        return writer


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    clock, log = VirtualClock(), SlowLog()
    async with serving(tmp_path, clock, log=log, tokens=PEOPLE) as server:
        made = World(server, log, clock)
        await made.furnish()
        yield made


@pytest.mark.parametrize("write", [0, 1, 2])
async def test_its_client_hangs_up(world: World, write: int) -> None:
    async with TaskScope("test") as scope:
        serving_http = scope.start(world.http.run(), name="http")
        await world.http.wait_started()
        world.log.passes = write
        writer = await world.evict()
        (connection,) = world.http._shared.connections
        assert isinstance(connection, Connection)
        writer.transport.abort()
        while not connection._transport.is_closing():
            await world.clock.advance(0)
        world.log.go_on.set()
        await world.http._shared.empty.wait()
        await cancel_and_wait(serving_http)
    assert world.pod_goes()


@pytest.mark.parametrize("write", [0, 1, 2])
async def test_the_server_is_stopped(world: World, write: int) -> None:
    """The HTTP server ends before the storage does, and only after what has begun to write."""
    async with TaskScope("test") as scope:
        serving_http = scope.start(world.http.run(), name="http")
        await world.http.wait_started()
        world.log.passes = write
        writer = await world.evict()
        serving_http.cancel()
        await world.clock.advance(40)  # its client is not waited for any more
        world.log.go_on.set()
        await asyncio.wait([serving_http])
    assert world.pod_goes()
    writer.close()
