from __future__ import annotations

import asyncio
import os
import pathlib
import socket
import threading

import pytest

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import RealClock
from kube_fairlead.manager import leaks


@pytest.fixture
async def kept() -> object:
    with leaks.keep_ledgers(asyncio.get_running_loop()):
        yield


async def test_what_ended_is_no_leak(kept: object) -> None:
    with leaks.ledger("x") as ledger:
        async with tasks.TaskScope("x") as scope:
            scope.start(asyncio.sleep(0), name="quick")
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        socket.socket().close()
    assert ledger.still_running() == []
    assert ledger.still_open() == []


async def test_a_task_left_behind_is_named_with_the_place_that_made_it(kept: object) -> None:
    with leaks.ledger("x") as ledger:
        forgotten = asyncio.get_running_loop().create_task(asyncio.Event().wait(), name="forgotten")
        informer = asyncio.get_running_loop().create_task(asyncio.Event().wait(), name="informer/pods/run")
    found = ledger.still_running()
    assert [(leak.kind, leak.name) for leak in found] == [("task", "forgotten"), ("informer", "informer/pods/run")]
    assert found[0].made_at[0].endswith("test_a_task_left_behind_is_named_with_the_place_that_made_it")
    assert "task forgotten, made at " in str(found[0])
    await tasks.cancel_and_wait(forgotten, informer)
    assert ledger.still_running() == []


async def test_tasks_of_tasks_count_too(kept: object) -> None:
    left: list[asyncio.Task[bool]] = []

    async def careless() -> None:
        left.append(asyncio.get_running_loop().create_task(asyncio.Event().wait(), name="grandchild"))

    with leaks.ledger("x") as ledger:
        async with tasks.TaskScope("x") as scope:
            scope.start(careless(), name="child")
    assert [leak.name for leak in ledger.still_running()] == ["grandchild"]
    await tasks.cancel_and_wait(*left)


async def test_a_thread_left_behind_is_named(kept: object) -> None:
    over = threading.Event()
    with leaks.ledger("x") as ledger:
        thread = threading.Thread(target=over.wait, name="forgotten", daemon=True)
        thread.start()
    (found,) = ledger.still_running()
    assert (found.kind, found.name) == ("thread", "forgotten")
    assert "test_a_thread_left_behind_is_named" in found.made_at[0]
    over.set()
    thread.join()
    assert ledger.still_running() == []


async def test_the_loops_own_pool_is_no_leak(kept: object) -> None:
    with leaks.ledger("x") as ledger:
        await asyncio.get_running_loop().run_in_executor(None, int)
    assert ledger.still_running() == []


async def test_a_socket_left_open_is_named(kept: object) -> None:
    with leaks.ledger("x") as ledger:
        left, other = socket.socketpair()
        made = socket.socket()
    assert {leak.kind for leak in ledger.still_open()} == {"socket"}
    assert len(ledger.still_open()) >= 1
    for one in (left, other, made):
        one.close()
    assert ledger.still_open() == []


async def test_a_file_left_open_is_named(kept: object, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "left-open"
    with leaks.ledger("x") as ledger, path.open("w", encoding="utf-8"):
        (found,) = ledger.still_open()
        assert (found.kind, found.name) == ("file", str(path))
        assert any("test_a_file_left_open_is_named" in place for place in found.made_at)
    assert ledger.still_open() == []


async def test_a_pipe_left_open_is_counted(kept: object) -> None:
    with leaks.ledger("x") as ledger:
        ends = os.pipe()
    assert [leak.kind for leak in ledger.still_open()] == ["descriptor", "descriptor"]
    for end in ends:
        os.close(end)
    assert ledger.still_open() == []


async def test_files_and_pipes_of_others_are_not_ones_own(kept: object, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "theirs"
    with leaks.ledger("x") as ledger:
        with leaks.ledger("y"), path.open("w", encoding="utf-8"):
            ends = os.pipe()
            assert ledger.still_open() == []
        for end in ends:
            os.close(end)


async def test_what_others_make_meanwhile_is_not_ones_own(kept: object) -> None:
    go = asyncio.Event()
    left: list[asyncio.Task[bool]] = []

    async def somebody_else() -> None:
        await go.wait()
        left.append(asyncio.get_running_loop().create_task(asyncio.Event().wait(), name="theirs"))

    async with tasks.TaskScope("x") as scope:
        scope.start(somebody_else(), name="else")
        with leaks.ledger("x") as ledger:
            go.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    assert ledger.still_running() == []
    await tasks.cancel_and_wait(*left)


async def test_a_part_belongs_to_its_whole(kept: object) -> None:
    with leaks.ledger("whole") as whole, leaks.ledger("part", whole=whole) as part:
        forgotten = asyncio.get_running_loop().create_task(asyncio.Event().wait(), name="forgotten")
        made = socket.socket()
    assert [leak.name for leak in part.still_running()] == [leak.name for leak in whole.still_running()]
    assert part.still_open() == []
    assert len(whole.still_open()) == 1
    made.close()
    await tasks.cancel_and_wait(forgotten)


async def test_things_get_a_moment_to_end(kept: object) -> None:
    with leaks.ledger("x") as ledger:
        ending = asyncio.get_running_loop().create_task(asyncio.sleep(0.1), name="ending")
    assert await leaks.settled(ledger.still_running, RealClock()) == []
    assert ending.done()


async def test_everything_is_put_back() -> None:
    before = threading.Thread.start
    loop = asyncio.get_running_loop()
    with leaks.keep_ledgers(loop):
        assert threading.Thread.start is not before
    assert threading.Thread.start is before
    assert loop.get_task_factory() is None
