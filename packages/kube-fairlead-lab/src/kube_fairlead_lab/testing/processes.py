"""Child processes that never outlive their parent, and waiting until they are ready."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from kube_fairlead.base.clock import Clock, RealClock
from kube_fairlead_lab.testing.control_plane import ControlPlaneFailed

__all__ = ["ManagedProcess", "wait_until_ready"]

_LAUNCHER = Path(__file__).with_name("launcher.py")
# The same as the launcher in a tenth of its time, with util-linux.
_SETPRIV = ("setpriv", "--pdeathsig", "KILL", "sh", "-c", 'test "$PPID" = "$0" && exec "$@"')
_POLL_SECONDS = 0.02
_TAIL_BYTES = 2000


class ManagedProcess:
    """One program with its log file.

    It runs in a session of its own, so that Ctrl-C in the terminal reaches the tests and not the servers they still
    need for their clean-up; the launcher makes the kernel kill it when this process dies.
    """

    def __init__(self, name: str, command: Sequence[str], *, folder: Path) -> None:
        self.name = name
        self.command = list(command)
        self.folder = folder
        self.log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id while it runs."""
        if self._process is None:
            raise ControlPlaneFailed(f"{self.name} is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; its output is appended to its log."""
        if self.running:
            raise ControlPlaneFailed(f"{self.name} is already running")
        launch = [*_launcher(), str(os.getpid()), *self.command]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the command is the caller's own
                launch,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    async def stop(self, *, grace_seconds: float = 10) -> None:
        """Send SIGTERM, wait, then send SIGKILL. Does nothing if the process does not run."""
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, grace_seconds)
        self.kill()

    def kill(self) -> None:
        """Kill the process and wait until it has ended."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()

    def freeze(self) -> None:
        """Pause the process with SIGSTOP, as on a machine that hangs."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue a paused process."""
        os.kill(self.pid, signal.SIGCONT)

    def last_words(self) -> str:
        """The end of the log."""
        try:
            with self.log.open("rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - _TAIL_BYTES))
                tail = log.read().decode(errors="replace")
        except FileNotFoundError:
            tail = "(never started)"
        return f"--- {self.name} ({self.log})\n{tail}"


@functools.cache
def _launcher() -> tuple[str, ...]:
    """Return the command prefix for a program that the kernel kills when its parent dies: it takes the parent's pid."""
    try:
        probe = subprocess.run([*_SETPRIV, str(os.getpid()), "true"], capture_output=True, check=False)  # noqa: S603 - our own
    except FileNotFoundError:
        probe = None
    # Not every setpriv supports it.
    return _SETPRIV if probe and probe.returncode == 0 else (sys.executable, "-I", "-S", str(_LAUNCHER))


async def wait_until_ready(
    probe: Callable[[], Awaitable[bool]],
    processes: Sequence[ManagedProcess],
    *,
    what: str,
    timeout_seconds: float,
    clock: Clock | None = None,
) -> None:
    """Poll until ready. Fails early, with the log, if one of the processes has ended."""
    clock = clock or RealClock()
    try:
        async with clock.timeout(timeout_seconds):
            while not await probe():
                for process in processes:
                    if not process.running:
                        raise ControlPlaneFailed(f"{process.name} ended\n{process.last_words()}")
                await clock.sleep(_POLL_SECONDS)
    except TimeoutError as error:
        words = "\n".join(process.last_words() for process in processes)
        raise ControlPlaneFailed(f"{what} is not ready after {timeout_seconds:g} s\n{words}") from error
