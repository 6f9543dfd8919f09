"""The command of `fairlead maintain` is ended: real processes, and a clock that stands still until it is moved."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import subprocess
import sys

import pytest

from kube_fairlead.base import tasks
from kube_fairlead.base.clock import VirtualClock
from kube_fairlead.cli.nodes import maintenance_command
from kube_fairlead.cli.nodes.console import PlainConsole

STUBBORN = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
print("up", flush=True)
while True:
    signal.pause()
"""


async def start(script: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"up\n"
    return process


def a_clock() -> VirtualClock:
    return VirtualClock(dt.datetime(2026, 3, 1, tzinfo=dt.UTC))


async def test_a_command_that_ctrl_c_reached_first_is_reaped_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """asyncio waits for the command in a thread. A poll here would reap it first, and asyncio would not know it."""
    process = await start("import time; print('up', flush=True); time.sleep(600)")
    polls = []
    monkeypatch.setattr(subprocess.Popen, "poll", lambda _self: polls.append("poll"))
    with caplog.at_level(logging.WARNING, logger="asyncio"):
        assert await maintenance_command.end(process, a_clock()) == "the command was terminated"
    assert (polls, caplog.messages, process.returncode) == ([], [], -15)


async def test_a_command_that_does_not_end_is_killed() -> None:
    process, clock = await start(STUBBORN), a_clock()
    async with tasks.TaskScope("test") as scope:
        ending = scope.start(maintenance_command.end(process, clock), name="end")
        assert process.stdout is not None
        assert await process.stdout.readline() == b"asked\n"
        await clock.advance(10)
        assert await ending == "the command did not end within 10 s and was killed"
    assert process.returncode == -9


async def test_a_command_that_has_ended_is_left_alone() -> None:
    process = await start("print('up', flush=True)")
    await process.wait()
    assert await maintenance_command.end(process, a_clock()) == "the command had ended"


async def test_ctrl_c_while_the_command_starts_ends_it_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command runs before asyncio has reported its start: a cancellation in between must not lose it."""
    create, runs, report = asyncio.create_subprocess_exec, asyncio.Event(), asyncio.Event()
    processes: list[asyncio.subprocess.Process] = []

    async def slow(*words: str, **options: object) -> asyncio.subprocess.Process:
        processes.append(await create(*words, stdout=asyncio.subprocess.DEVNULL))
        runs.set()
        await report.wait()
        return processes[0]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slow)
    command = maintenance_command.MaintenanceCommand(("sleep", "600"), {}, a_clock(), PlainConsole())
    owned = tasks.TaskSet("test")
    running = owned.start(command("node-a"), name="command")
    await runs.wait()
    running.cancel()
    asyncio.get_running_loop().call_soon(report.set)
    with pytest.raises(asyncio.CancelledError):
        await running
    await owned.close()
    assert command.interrupted == {"node-a": "the command was terminated"}
    assert processes[0].returncode == -15
