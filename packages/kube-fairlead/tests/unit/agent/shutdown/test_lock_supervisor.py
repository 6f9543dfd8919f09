from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import signal
import sys
from collections.abc import Iterator

import pytest

from kube_fairlead.agent.shutdown.lock_supervisor import LockSupervisor
from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.environment import Environment

# An agent as far as its lock goes. First life: it takes the lock and is killed. Second: it has the lock, says so, ends.
AGENT = """
import os, signal, sys, time
from kube_fairlead.agent.shutdown.lock_store import find_lock_store
from kube_fairlead.base.environment import Environment
fifo, how = sys.argv[1:]
lock_store = find_lock_store(Environment.of_process(), process_id=os.getpid())
lock = lock_store.take()
if lock is None:
    lock = os.open(fifo, os.O_WRONLY)
    lock_store.store(lock)
    os.write(lock, b"taken ")
    if how == "waits":
        time.sleep(600)
    os.kill(os.getpid(), signal.SIGKILL)
os.write(lock, b"recalled ")
lock_store.remove()
os.close(lock)
if how == "stays":
    time.sleep(600)
sys.exit(7)
"""


@pytest.fixture
def fifo(short_path: pathlib.Path) -> Iterator[int]:
    os.mkfifo(short_path / "lock")
    reading = os.open(short_path / "lock", os.O_RDONLY | os.O_NONBLOCK)
    yield reading
    os.close(reading)


def a_holder(folder: pathlib.Path, how: str) -> LockSupervisor:
    command = [sys.executable, "-c", AGENT, str(folder / "lock"), how]
    environment = Environment.of_process().as_dict()
    return LockSupervisor(command, environment, RealClock(), socket_path=folder / "run" / "s")


async def heard(fifo: int, words: bytes) -> None:
    """Wait until the agent has said something through the lock."""
    found = b""
    async with asyncio.timeout(60):
        while words not in found:
            with contextlib.suppress(BlockingIOError):
                found += os.read(fifo, 100)
            await asyncio.sleep(0.01)


async def test_a_lock_survives_a_killed_agent_and_is_passed_to_the_next(short_path: pathlib.Path, fifo: int) -> None:
    async with asyncio.timeout(60):
        assert await a_holder(short_path, "dies").run() == 7
    assert os.read(fifo, 100) == b"taken recalled "
    assert os.read(fifo, 100) == b"", "no process holds it now"
    assert not (short_path / "run" / "s").exists()


async def test_when_the_next_agent_lets_it_go_it_is_gone(short_path: pathlib.Path, fifo: int) -> None:
    running = asyncio.ensure_future(a_holder(short_path, "stays").run())
    await heard(fifo, b"recalled ")
    async with asyncio.timeout(60):
        while True:
            try:
                assert os.read(fifo, 100) == b"", "the end of file"
                break
            except BlockingIOError:
                await asyncio.sleep(0.01)
    assert not running.done()
    running.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_asked_to_stop_it_stops_its_agent(short_path: pathlib.Path, fifo: int) -> None:
    running = asyncio.ensure_future(a_holder(short_path, "waits").run())
    await heard(fifo, b"taken ")
    running.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await running
    assert os.read(fifo, 100) == b"", "no process holds it now"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ([sys.executable, "-c", "raise SystemExit(5)"], 5),
        ([sys.executable, "-c", f"import os; os.kill(os.getpid(), {signal.SIGKILL.value})"], -9),
        (["/nowhere/fairlead"], 127),
    ],
)
async def test_without_a_lock_it_ends_as_its_program_does(
    short_path: pathlib.Path, command: list[str], code: int
) -> None:
    async with asyncio.timeout(60):
        assert await LockSupervisor(command, {}, RealClock(), socket_path=short_path / "s").run() == code
