"""The work of `fairlead maintain` on a drained node: the user's command, or a prompt at the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import signal
import sys
from collections.abc import Mapping
from typing import Final

from kube_fairlead.api import time as api_time
from kube_fairlead.base import tasks
from kube_fairlead.base.clock import Clock
from kube_fairlead.cli.nodes.console import Console
from kube_fairlead.operations.maintenance import WorkFailed

__all__ = ["MaintenanceCommand", "TerminalPrompt", "end"]

# How long a command may take to end after SIGTERM.
_END_SECONDS: Final = 10.0


class MaintenanceCommand:
    """Runs a command for each node, with {} replaced by the node's name and FAIRLEAD_NODE set.

    Args:
        argv: the command line.
        environment: the environment variables of the command.
        clock: for the time limit.
        console: where to print which command runs.
        timeout_seconds: the time limit of the command; 0: no limit.
    """

    def __init__(
        self,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        clock: Clock,
        console: Console,
        *,
        timeout_seconds: float = 0,
    ) -> None:
        self._argv = argv
        self._environment = environment
        self._clock = clock
        self._console = console
        self._timeout_seconds = timeout_seconds
        self.interrupted: dict[str, str] = {}  # how the command of a node ended, if the maintenance was cancelled

    async def __call__(self, node: str) -> None:
        """Run the command for one node.

        Raises:
            WorkFailed: the command cannot run, exceeds the time limit, or exits with another code than 0.
        """
        argv = [word.replace("{}", node) for word in self._argv]
        self._console.say(f"node/{node}: {' '.join(argv)}")
        environment = {**self._environment, "FAIRLEAD_NODE": node}
        process = await self._start(node, argv, environment)
        try:
            async with self._clock.timeout(self._timeout_seconds or None):
                code = await process.wait()
        except asyncio.CancelledError:
            self.interrupted[node] = await end(process, self._clock)
            raise
        except TimeoutError:
            await end(process, self._clock)
            limit = api_time.format_duration(dt.timedelta(seconds=self._timeout_seconds))
            raise WorkFailed(f"the command did not end within {limit}") from None
        if code:
            raise WorkFailed(f"the command exited with code {code}")

    async def _start(self, node: str, argv: list[str], environment: Mapping[str, str]) -> asyncio.subprocess.Process:
        async with tasks.TaskScope(f"maintenance of {node}") as scope:
            starting = scope.start(_create(argv, environment), name="start of the command")
            try:
                started = await asyncio.shield(starting)
            except asyncio.CancelledError:
                # The command may already run. If this wait were cancelled, asyncio would kill it without a message.
                started = await starting
                if not isinstance(started, OSError):
                    self.interrupted[node] = await end(started, self._clock)
                raise
        if isinstance(started, OSError):
            raise WorkFailed(f"the command cannot run: {started}") from started
        return started


async def _create(argv: list[str], environment: Mapping[str, str]) -> asyncio.subprocess.Process | OSError:
    try:
        return await asyncio.create_subprocess_exec(*argv, env=environment)
    except OSError as error:
        return error


class TerminalPrompt:
    """Waits for Enter at the terminal, for one node at a time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._terminal = asyncio.Lock()

    async def __call__(self, node: str) -> None:
        """Wait for the user.

        Raises:
            WorkFailed: standard input was closed.
        """
        async with self._terminal:
            self._console.say(
                f"node/{node} is ready for maintenance. Press Enter when it is done; Ctrl-C leaves the node drained."
            )
            loop = asyncio.get_running_loop()
            entered = asyncio.Event()
            loop.add_reader(sys.stdin.fileno(), entered.set)
            try:
                await entered.wait()
            finally:
                loop.remove_reader(sys.stdin.fileno())
            if not sys.stdin.readline():
                raise WorkFailed("standard input was closed before Enter")


async def end(process: asyncio.subprocess.Process, clock: Clock) -> str:
    """Terminate a command, kill it if it does not exit in time, and return how it ended, for the user."""
    if process.returncode is not None:
        return "the command had ended"
    _send(process, force=False)
    try:
        async with clock.timeout(_END_SECONDS):
            await process.wait()
    except TimeoutError:
        _send(process, force=True)
        await process.wait()
        return f"the command did not end within {_END_SECONDS:g} s and was killed"
    return "the command was terminated"


def _send(process: asyncio.subprocess.Process, *, force: bool) -> None:
    if sys.platform == "win32":
        process.terminate()
        return
    # A terminal sends Ctrl-C to the command too. If it has exited, `terminate` and `kill` would reap it, and asyncio,
    # which waits for it in another thread, would report an unknown child process.
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL if force else signal.SIGTERM)
