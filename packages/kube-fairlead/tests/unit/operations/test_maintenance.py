"""Maintenance on virtual time: drained, worked on, Ready again, uncordoned; what fails leaves the node drained."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import pathlib
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from kube_fairlead import operations
from kube_fairlead.api.core_v1 import Node
from kube_fairlead.base.environment import Environment
from kube_fairlead.cli.nodes.console import PlainConsole
from kube_fairlead.cli.nodes.maintenance_command import MaintenanceCommand
from kube_fairlead.cli.nodes.progress_printer import MaintenancePrinter
from kube_fairlead.client.client import Client
from kube_fairlead.client.patches import MergePatch
from kube_fairlead.client.transport import Request, Response, StreamedResponse, Transport
from kube_fairlead.operations import MaintenanceStage, Outcome, Result, StageReached
from tests.unit.claimant.world import NODE, World, a_world

REQUEST = operations.MaintenanceRequest(
    transition="reboot", min_ready=dt.timedelta(seconds=10), ready_timeout=dt.timedelta(minutes=5)
)


@pytest.fixture
async def world(tmp_path: pathlib.Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as running:
        running.start_agent()
        await running.nodes.patch(NODE, MergePatch({"spec": {"unschedulable": True}}))
        await running.offer("node-uncordon", start="Uncordoning", end="MaintenanceComplete")
        yield running


class Maintained:
    """`maintain` in a task of its own."""

    def __init__(self, world: World, work: operations.Work, client: Client | None = None) -> None:
        self.progress: list[operations.OperationProgress] = []
        self.task = world.scope.start(self._run(client or world.admin, work), name="maintain")

    async def _run(self, client: Client, work: operations.Work) -> dict[str, Outcome]:
        nodes = await operations.select_nodes(client, [NODE])
        return await operations.maintain(client, nodes, work, REQUEST, report=self.progress.append)

    def stages(self) -> list[MaintenanceStage]:
        return [one.stage for one in self.progress if isinstance(one, StageReached)]


async def ready(world: World, status: str) -> None:
    condition = {"type": "Ready", "status": status}
    await world.nodes.patch(NODE, MergePatch({"status": {"conditions": [condition]}}), subresource="status")


async def nothing(_node: str) -> None:
    pass


async def test_a_node_is_uncordoned_only_after_it_was_ready_for_long_enough(world: World) -> None:
    await ready(world, "False")
    maintained = Maintained(world, nothing)
    await world.clock.advance(20)
    assert operations.AwaitingReady(NODE) in maintained.progress
    await ready(world, "True")
    await world.clock.advance(9)
    assert maintained.stages() == [MaintenanceStage.DRAINING, MaintenanceStage.DRAINED]
    await ready(world, "False")
    await ready(world, "True")
    await world.clock.advance(9)
    assert maintained.stages()[-1] == MaintenanceStage.DRAINED
    await world.clock.advance(2)
    uncordoning = [one for one in maintained.progress if isinstance(one, StageReached)][-1]
    assert uncordoning.stage is MaintenanceStage.UNCORDONING
    assert uncordoning.observed_at is not None
    assert uncordoning.observed_at >= world.clock.now() - dt.timedelta(seconds=2)
    assert isinstance(maintained.progress[-1], operations.EventChanged)
    assert maintained.progress[-1].operation is operations.Operation.UNCORDON


class Behind:
    """A connection whose watches of nodes are behind: they are open, and bring nothing."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, request: Request) -> Response:
        return await self._inner.send(request)

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamedResponse]:
        async with self._inner.stream(request) as response:
            yield Silent(response) if request.path.endswith("/nodes") else response

    async def close(self) -> None:
        pass


class Silent:
    """An answer whose body does not arrive."""

    def __init__(self, inner: StreamedResponse) -> None:
        self.status = inner.status
        self.headers = inner.headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        await asyncio.Event().wait()
        yield b""

    async def read(self) -> bytes:
        return b""


async def test_a_node_that_a_delayed_watch_shows_as_ready_is_not_uncordoned(world: World) -> None:
    await ready(world, "True")
    worked = asyncio.Event()

    async def work(_node: str) -> None:
        worked.set()

    maintained = Maintained(world, work, world.admin.with_transport(Behind))
    await world.clock.advance(2)
    assert worked.is_set()
    await ready(world, "False")
    await world.clock.advance(60)
    assert maintained.stages()[-1] == MaintenanceStage.DRAINED


async def test_a_node_that_does_not_become_ready_stays_drained(world: World) -> None:
    await ready(world, "False")
    maintained = Maintained(world, nothing)
    await world.clock.advance(320)
    (outcome,) = maintained.task.result().values()
    assert outcome.message == "the node was not Ready for 10s without a break within 5m0s after the work"
    assert maintained.stages()[-1] == MaintenanceStage.DRAINED


async def test_a_failed_work_leaves_the_node_drained(world: World) -> None:
    async def work(_node: str) -> None:
        raise operations.WorkFailed("no")

    maintained = Maintained(world, work)
    await world.clock.advance(20)
    assert maintained.task.result() == {NODE: Outcome(Result.FAILED, "no")}
    assert maintained.progress[-1] == operations.Ended(NODE, Outcome(Result.FAILED, "no"))


async def test_no_work_is_done_on_a_node_that_accepts_pods(world: World) -> None:
    worked = asyncio.Event()

    async def work(_node: str) -> None:
        worked.set()

    world.driver.hold["end"].clear()
    maintained = Maintained(world, work)
    await world.clock.advance(2)
    await world.nodes.patch(NODE, MergePatch({"spec": {"unschedulable": None}}))
    world.driver.hold["end"].set()
    await world.clock.advance(20)
    (outcome,) = maintained.task.result().values()
    assert outcome.message == "the node was uncordoned after its drain, so no work was done on it"
    assert not worked.is_set()


async def test_work_that_raises_fails_its_node_and_no_other(world: World) -> None:
    async def work(node: str) -> None:
        raise ConnectionResetError(f"no console of {node}")

    nodes = await operations.select_nodes(world.admin, [NODE])
    task = world.scope.start(operations.maintain(world.admin, nodes, work, REQUEST), name="maintain")
    await world.clock.advance(20)
    outcome = task.result()[NODE]
    assert outcome.failed
    assert outcome.message == f"the work failed: ConnectionResetError: no console of {NODE}"


async def test_a_command_that_cannot_be_run_leaves_the_node_drained_and_says_so(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    console = PlainConsole()
    work = MaintenanceCommand(("/no/such/program", "{}"), Environment({}).as_dict(), world.clock, console)
    printer = MaintenancePrinter(console, [NODE])
    nodes = await operations.select_nodes(world.admin, [NODE])
    task = world.scope.start(operations.maintain(world.admin, nodes, work, REQUEST, report=printer), name="maintain")
    await world.clock.advance(20)
    assert task.result()[NODE].failed
    assert f"it stays drained; to make it schedulable: fairlead uncordon {NODE}" in capfd.readouterr().err
    assert (await world.admin.of(Node).get(NODE)).spec.unschedulable
