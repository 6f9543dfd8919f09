"""Controllers that leave something behind: it is named and counted, and what could still act is fatal."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import socket
import threading
from collections.abc import Awaitable, Callable

import pytest

from kube_fairlead.api import core_v1
from kube_fairlead.client.informer import Informer
from kube_fairlead.manager import Context, Controller
from kube_fairlead.manager.controller_runner import ControllersLeaked
from tests.unit.election.world import World
from tests.unit.manager.site import Replica, Site


def leaving(what: Callable[[], Awaitable[object]], left: list[asyncio.Task[object]]) -> Controller:
    async def run(context: Context) -> None:
        async def wait() -> object:
            return await what()

        left.append(asyncio.get_running_loop().create_task(wait(), name="left-behind"))
        await context.stopping.wait()

    return Controller(name="careless", run=run)


async def test_a_task_left_behind_is_named_counted_and_fatal(site: Site, world: World) -> None:
    site.expected_leaks = {"task"}
    left: list[asyncio.Task[object]] = []
    replica = site.start("a", leaving(asyncio.Event().wait, left))
    await site.until_leads(replica)
    replica.manager.step_down()
    await world.until(replica.task.done)
    failure = replica.task.exception()
    assert isinstance(failure, ExceptionGroup)
    assert failure.subgroup(ControllersLeaked) is not None
    assert left[0].cancelled()
    assert 'fairlead_leaks_total{kind="task"}' in replica.metrics.exposition().decode()
    # Stopped by force, it is gone, and the lease may go.
    assert (await world.record()).holder == ""


async def test_a_task_that_cannot_be_stopped_keeps_the_lease_until_the_process_ends(site: Site, world: World) -> None:
    site.expected_leaks = {"task"}
    over = asyncio.Event()

    async def stubborn() -> None:
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()

    left: list[asyncio.Task[object]] = []
    replica = site.start("a", leaving(stubborn, left))
    await site.until_leads(replica)
    replica.manager.step_down()
    await world.until(lambda: bool(replica.overruns))
    assert any("task left-behind" in name for name in replica.overruns[0].running)
    assert (await world.record()).holder == "a"
    over.set()
    await world.clock.advance(3)


async def test_leaks_are_found_after_a_lost_lease_too(site: Site, world: World) -> None:
    site.expected_leaks = {"task"}
    left: list[asyncio.Task[object]] = []
    replica = site.start("a", leaving(asyncio.Event().wait, left))
    await site.until_leads(replica)
    replica.network.cut()
    await world.until(replica.task.done)
    failure = replica.task.exception()
    assert isinstance(failure, ExceptionGroup)
    assert failure.subgroup(ControllersLeaked) is not None
    assert left[0].cancelled()


def careless(leave: Callable[[Context], Awaitable[None] | None]) -> Controller:
    async def run(context: Context) -> None:
        left = leave(context)
        if left is not None:
            await left
        await context.stopping.wait()

    return Controller(name="careless", run=run)


async def step_down(site: Site, world: World, controller: Controller) -> Replica:
    replica = site.start("a", controller)
    await site.until_leads(replica)
    replica.manager.step_down()
    await world.clock.advance(4)
    return replica


async def test_an_informer_left_behind_is_fatal(site: Site, world: World) -> None:
    site.expected_leaks = {"informer", "task"}  # what it starts is left behind with it
    stack = contextlib.AsyncExitStack()

    async def leave(context: Context) -> None:
        await stack.enter_async_context(Informer(context.client.of(core_v1.ConfigMap)).running())

    replica = await step_down(site, world, careless(leave))
    await world.until(replica.task.done)
    failure = replica.task.exception()
    assert isinstance(failure, ExceptionGroup)
    assert failure.subgroup(ControllersLeaked) is not None
    assert "informer/" in str(failure.exceptions)
    await stack.aclose()


async def test_a_thread_left_behind_keeps_the_process_from_leading_again(site: Site, world: World) -> None:
    site.expected_leaks = {"thread"}
    over = threading.Event()
    threads: list[threading.Thread] = []

    def leave(_context: Context) -> None:
        threads.append(threading.Thread(target=over.wait, name="forgotten", daemon=True))
        threads[-1].start()

    replica = await step_down(site, world, careless(leave))
    await world.until(replica.task.done)
    over.set()
    threads[0].join()


async def test_what_is_left_open_is_counted_and_the_process_goes_on(
    site: Site, world: World, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    site.expected_leaks = {"socket", "file"}
    with contextlib.ExitStack() as left:

        def leave(_context: Context) -> None:
            left.enter_context(socket.socket())
            left.enter_context((tmp_path / "forgotten").open("w", encoding="utf-8"))

        replica = await step_down(site, world, careless(leave))
        assert replica.leaks() == {"socket": 1, "file": 1}
        assert not replica.task.done()
    told = [str(vars(record)) for record in caplog.records if record.message == "leaked"]
    assert len(told) == 2
    assert all("test_leaking_terms.py" in one for one in told)  # the place that made it
